"""What is wrong with a data set is said in one error, with file, episode and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import (
    ActionError,
    CheckpointError,
    ConfigError,
    DicoreError,
    NonFiniteError,
    SchemaError,
    UsageError,
)
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import (
    CollectedDataset,
    HDF5Dataset,
    MinariDataset,
    NpzConfig,
    NpzDataset,
    write_hdf5,
    write_npz,
)
from dicore_plugins.datasets.spaces import space_from, space_text
from tests.plugins.datasets.recordings import (
    EPISODES,
    SPACES,
    TYPES,
    episodes,
    named,
    table,
    write,
)

CLASSES: dict[str, Any] = {
    "npz": NpzDataset, "hdf5": HDF5Dataset, "minari": MinariDataset, "collected": CollectedDataset,
}  # fmt: skip


def nan_reward(columns: dict[str, Any]) -> None:
    columns["reward"][7] = np.nan


def infinite_obs(columns: dict[str, Any]) -> None:
    columns["obs"][7, 1] = np.inf


def short_reward(columns: dict[str, Any]) -> None:
    columns["reward"] = columns["reward"][:7]


def short_terminated(columns: dict[str, Any]) -> None:
    columns["terminated"] = columns["terminated"][:7]


def unknown_action(columns: dict[str, Any]) -> None:
    columns["action"][7] = 3


def half_a_flag(columns: dict[str, Any]) -> None:
    columns["terminated"] = columns["terminated"] * 0.5


def no_reward(columns: dict[str, Any]) -> None:
    del columns["reward"]


def no_rows(columns: dict[str, Any]) -> None:
    columns.update({key: column[:0] for key, column in columns.items()})


def wide_obs(columns: dict[str, Any]) -> None:
    columns["obs"] = np.repeat(columns["obs"], 2, 1)


def float_action(columns: dict[str, Any]) -> None:
    columns["action"] = columns["action"] + 0.5


def two_rewards(columns: dict[str, Any]) -> None:
    columns["reward"] = np.stack([columns["reward"]] * 2, 1)


def huge_reward(columns: dict[str, Any]) -> None:
    columns["reward"] = columns["reward"].astype(np.float64)
    columns["reward"][7] = 1e300


def complex_obs(columns: dict[str, Any]) -> None:
    columns["obs"] = columns["obs"] * 1j


WRONG: list[tuple[Callable[[dict[str, Any]], None], type[Exception], str]] = [
    (nan_reward, NonFiniteError, r"episode 1, {reward}: nan in step 2"),
    (infinite_obs, NonFiniteError, r"episode 1, {obs}: inf in step 2"),
    (short_reward, SchemaError, r"episode 1, {reward}: cut off after 7 of 19 rows"),
    (short_terminated, SchemaError, r"episode 1, {terminated}: cut off after 7 of 19 rows"),
    (unknown_action, ActionError, r"episode 1, {action}: action 3 is not in Discrete\(3\)"),
    (half_a_flag, SchemaError, r"{terminated}: expected 0 or 1, got 0.5 in row 4"),
    (no_reward, SchemaError, r"no column reward \(reward, rewards\); it has "),
    (two_rewards, SchemaError, r"{reward}: expected one reward per step, got \[2\]"),
    (huge_reward, NonFiniteError, r"episode 1, {reward}: inf in step 2"),
    (complex_obs, SchemaError, r"{obs}: expected numbers, got complex64"),
    (no_rows, UsageError, r"0 episodes with a complete step"),
    (wide_obs, SchemaError, r"{obs}: has the shape \[4\], the environment \[2\]"),
    (float_action, SchemaError, r"{action}: has the dtype float64, the environment int64"),
]


@pytest.mark.parametrize("form", ["npz", "hdf5"])
@pytest.mark.parametrize(("spoil", "error", "says"), WRONG, ids=lambda each: str(each)[:20])
def test_wrong_columns(
    form: str,
    spoil: Callable[[dict[str, Any]], None],
    error: type[Exception],
    says: str,
    tmp_path: Path,
) -> None:
    columns = table(EPISODES)
    spoil(columns)
    path = tmp_path / f"bad.{form}"
    (write_npz if form == "npz" else write_hdf5)(path, columns)
    keys = named({k: k for k in table(EPISODES)}) if form == "hdf5" else {}
    spelt = {ours: theirs for theirs, ours in keys.items()} or {k: k for k in table(EPISODES)}
    with pytest.raises(error, match=says.format(**spelt)) as caught:
        CLASSES[form]({"path": str(path)}, observation_space=SPACES[0], action_space=SPACES[1])
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, DicoreError)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["action", "terminated"])
def test_the_hint_names_the_column_that_is_missing(name: str, tmp_path: Path) -> None:
    columns = table(EPISODES)
    del columns[name]
    write_npz(tmp_path / "a.npz", columns)
    with pytest.raises(SchemaError, match=f"no column {name}") as caught:
        NpzDataset({"path": str(tmp_path / "a.npz")})
    assert f'columns=\'{{"{name}": "NAME"}}\'' in caught.value.hint
    assert ("time limits" in caught.value.hint) == (name == "terminated")


def test_integers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """300 would be read as 44."""
    columns = table(EPISODES)
    columns["obs"] = columns["obs"].astype(np.int64) % 200
    columns["obs"][3, 1] = 300
    write_npz(tmp_path / "a.npz", columns)
    space = gymnasium.spaces.Box(0, 255, (2,), np.uint8)
    with pytest.raises(SchemaError, match="obs: 300 in row 3 is not uint8"):
        NpzDataset({"path": str(tmp_path / "a.npz")}, observation_space=space)


def test_next_observations_of_another_form(tmp_path: Path) -> None:
    columns = table(EPISODES, with_next=True)
    write_npz(tmp_path / "a.npz", {**columns, "next_obs": columns["next_obs"][:, :1]})
    with pytest.raises(SchemaError, match=r"next_obs: has {'obs': \[1\]}, the observations"):
        NpzDataset({"path": str(tmp_path / "a.npz")})


@pytest.mark.parametrize("form", TYPES)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_file_that_was_cut_off(form: str, share: float, tmp_path: Path) -> None:
    path = Path(write(form, tmp_path, episodes(*["50e"] * 20)))
    file = path if path.is_file() else max(path.rglob("*"), key=lambda each: each.stat().st_size)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises((SchemaError, CheckpointError)) as caught:
        CLASSES[TYPES[form]]({"path": str(path)})
    assert str(path) in str(caught.value)


def test_a_damaged_header_of_hdf5(tmp_path: Path) -> None:
    """h5py raises errors of several classes, KeyError too."""
    path, causes = Path(write("hdf5", tmp_path, EPISODES)), set()
    content = path.read_bytes()
    for at in range(800, 900):
        path.write_bytes(content[:at] + bytes([content[at] ^ 128]) + content[at + 1 :])
        with suppress(NonFiniteError):  # a number has changed
            try:
                HDF5Dataset({"path": str(path)})
            except SchemaError as error:
                causes.add(type(error.__cause__))
    assert KeyError in causes


@pytest.mark.parametrize("form", ["npz", "hdf5", "collected", "minari"])
def test_a_path_of_something_else(form: str, tmp_path: Path) -> None:
    cls = CLASSES[form]
    with pytest.raises(UsageError, match="no such"):
        cls({"path": str(tmp_path / "none")})
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello")
    for path in ("folder", "text"):
        with pytest.raises((UsageError, SchemaError, CheckpointError), match=path):
            cls({"path": str(tmp_path / path)})


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    columns = table(EPISODES)
    np.savez(tmp_path / "a.npz", **{**columns, "obs": np.array([{}] * 19, object)})
    with pytest.raises(SchemaError, match="obs contains Python objects"):
        NpzDataset({"path": str(tmp_path / "a.npz")})


@pytest.mark.parametrize("key", ["rewards", "actions", "terminations", "observations"])
def test_an_episode_of_minari_that_was_cut_off(key: str, tmp_path: Path) -> None:
    path = write("minari", tmp_path, EPISODES)
    with h5py.File(Path(path) / "data/main_data.hdf5", "a") as file:
        values = file["episode_1"][key][:-1]
        del file["episode_1"][key]
        file["episode_1"][key] = values
    with pytest.raises(SchemaError, match=r"episode 1, \w+: cut off"):
        MinariDataset({"path": path})


def test_minari_by_id_and_never_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write("minari", tmp_path, EPISODES)
    assert MinariDataset({"path": "data.minari"}).episodes == len(EPISODES)
    with pytest.raises(UsageError, match="D4RL/door/human-v2: no such local data set of Minari"):
        MinariDataset({"path": "D4RL/door/human-v2"})


def test_single_steps_of_unknown_episodes(tmp_path: Path) -> None:
    """A training's buffer does not tell where episodes end: it has no n-step returns."""
    columns = table(EPISODES, with_next=True)
    columns["done"] = columns.pop("terminated").astype(np.float32)
    del columns["truncated"]
    buffer = NaiveReplayBuffer({"replay_buffer_size": 100})
    buffer.push(Batch(columns))
    buffer.save_data(tmp_path / "b")
    data = CollectedDataset({"path": str(tmp_path / "b")})
    assert len(data) == data.episodes == 19
    np.testing.assert_array_equal(data.take([3])["next_obs"], columns["next_obs"][3:4])
    with pytest.raises(SchemaError, match="single steps of unknown episodes, but nstep is 2"):
        CollectedDataset({"path": str(tmp_path / "b"), "nstep": 2})


def test_observations_outside_their_bounds_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("npz", tmp_path, EPISODES)
    narrow = gymnasium.spaces.Box(-104.0, 104.0, (2,), np.float32)
    assert len(NpzDataset({"path": path}, observation_space=narrow)) > 0
    (record,) = caplog.records
    assert "obs 200.0 in row 9 is outside the bounds" in record.getMessage()


def test_options_that_contradict_each_other() -> None:
    from dicore.config.compiler import compile_section
    from dicore.config.layers import Problems

    assert Problems is not None
    config = NpzConfig(path="x", episodes=2, fraction=0.5, columns={"next": "a"})
    assert [path for path, _ in config.check()] == ["fraction", "columns.next"]
    with pytest.raises(ConfigError):
        compile_section(NpzConfig, {"path": "x", "fraction": 0})


# ---- spaces in files

S = gymnasium.spaces
KNOWN = [
    S.Box(-1.0, 2.0, (3,), np.float32),
    S.Box(np.array([-np.inf, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
    S.Box(0, 255, (2, 2), np.uint8),
    S.Discrete(4, start=-1),
    S.MultiDiscrete([2, 3], start=[1, 0]),
    S.MultiBinary(3),
    S.MultiBinary([2, 2]),
    S.Dict(a=S.Discrete(2), b=S.Tuple([S.Box(0.0, 1.0, ()), S.Discrete(3)])),
]


@pytest.mark.parametrize("space", KNOWN, ids=str)
def test_a_space_is_read_as_it_was_written(space: Any) -> None:
    text = space_text(space)
    assert text is not None
    assert space_from(text) == space


def test_the_bounds_of_a_space_are_its_own() -> None:
    read = space_from(space_text(S.Box(0, 1, (2,), np.float32)) or "")
    read.low[0] = -1
    assert read.low.tolist() == [-1, 0]


def test_other_spaces_are_left_out() -> None:
    assert space_text(S.Text(3)) is None
    assert space_text(S.Dict(a=S.Text(3))) is None
    for text in ("{}", "[1]", '{"type": "Text"}', "x"):
        with pytest.raises(ValueError, match=r"space|Expecting"):
            space_from(text)


@pytest.mark.parametrize("form", ["npz", "hdf5", "minari"])
def test_a_file_has_its_spaces(form: str, tmp_path: Path) -> None:
    data = CLASSES[form]({"path": write(form, tmp_path, EPISODES)})
    assert (data.observation_space, data.action_space) == SPACES


def test_a_file_is_replaced_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_npz(path, table(EPISODES))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(path, {"obs": np.array([{}])})
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.npz"]


def test_a_short_text_does_not_claim_a_huge_space() -> None:
    box = {"type": "Box", "low": 0, "high": 1, "dtype": "float32", "shape": [1 << 24]}
    for data in ({**box, "shape": [1 << 40]}, {"type": "Tuple", "spaces": [box] * 3}):
        with pytest.raises(ValueError, match="expected at most"):
            space_from(json.dumps(data))
    with pytest.raises(ValueError, match="not a space"):
        space_from(json.dumps({"type": "Dict", "spaces": [7]}))
