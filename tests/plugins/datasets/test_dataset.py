"""Samples of data sets, in every format, against a loop over the episodes."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import (
    CollectedDataset,
    HDF5Dataset,
    MinariDataset,
    NpzDataset,
    TransitionDataset,
    write_npz,
)
from dicore_plugins.datasets.order import shuffled
from tests.plugins.datasets.recordings import (
    EPISODES,
    SPACES,
    TYPES,
    WITHOUT_LAST,
    Episode,
    episodes,
    table,
    write,
)

CLASSES = {
    "npz": NpzDataset, "hdf5": HDF5Dataset, "minari": MinariDataset, "collected": CollectedDataset,
}  # fmt: skip


def opened(form: str, folder: Path, found: list[Episode] = EPISODES, **options: Any) -> Any:
    path = write(form, folder, found)
    spaces = {"observation_space": SPACES[0], "action_space": SPACES[1]}
    return CLASSES[TYPES[form]]({"path": path, **options}, **spaces)


def expected(
    found: list[Episode], nstep: int, gamma: float, *, without_last: bool
) -> dict[str, list[Any]]:
    """Returns the samples by a loop over each episode.

    Args:
        without_last: The observation after the last step is not known, unless it is terminal.
    """
    rows: dict[str, list[Any]] = {k: [] for k in ("obs", "action", "reward", "next_obs", "done")}
    rows["value_gamma"] = []
    for each in found:
        steps = len(each.action) - (without_last and not each.terminated)
        for start in range(steps):
            stop = min(start + nstep, steps)
            done = each.terminated and stop == steps
            rows["obs"].append(each.obs[start])
            rows["action"].append(each.action[start])
            rewards = each.reward[start:stop]
            rows["reward"].append(sum(gamma**k * float(r) for k, r in enumerate(rewards)))
            rows["next_obs"].append(np.full(2, np.nan) if done else each.obs[stop])
            rows["done"].append(float(done))
            rows["value_gamma"].append(gamma ** (stop - start))
    return rows


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("form", TYPES)
def test_samples_of_every_format(form: str, nstep: int, tmp_path: Path) -> None:
    """Bridges end with the episode; cut off, it has a value after it; nothing crosses it."""
    data = opened(form, tmp_path, nstep=nstep, discount_factor=0.9)
    wanted = expected(EPISODES, nstep, 0.9, without_last=form in WITHOUT_LAST)
    assert len(data) == len(wanted["done"])
    batch = data.take(np.arange(len(data)))
    for key in ("obs", "action", "reward", "done"):
        np.testing.assert_allclose(batch[key], wanted[key], rtol=1e-6, err_msg=key)
    open_ended = batch["done"] == 0  # what follows a terminal state is not used
    np.testing.assert_array_equal(
        batch["next_obs"][open_ended], np.array(wanted["next_obs"])[open_ended]
    )
    assert ("value_gamma" in batch) == (nstep > 1)
    if nstep > 1:
        np.testing.assert_allclose(batch["value_gamma"], wanted["value_gamma"], rtol=1e-6)
    assert batch["obs"].dtype == batch["next_obs"].dtype == batch["reward"].dtype == np.float32
    assert batch["action"].dtype == np.int64
    assert data.episodes == len(EPISODES)


def test_rewards_are_scaled_in_samples_only(tmp_path: Path) -> None:
    plain, scaled = opened("npz", tmp_path), opened("npz", tmp_path, reward_scale=0.5, nstep=2)
    index, wanted = np.arange(len(plain)), expected(EPISODES, 2, 0.99, without_last=True)
    reward = scaled.take(index)["reward"]
    np.testing.assert_allclose(reward, 0.5 * np.array(wanted["reward"]), rtol=1e-6)
    assert reward.dtype == np.float32
    np.testing.assert_array_equal(scaled.returns, plain.returns)
    halved = opened("npz", tmp_path, reward_scale=0.5, derived=["return_to_go"]).take(index)
    np.testing.assert_array_equal(halved["reward"], plain.take(index)["reward"] * 0.5)
    assert halved["return_to_go"][0] == pytest.approx(plain.returns[0])


@pytest.mark.parametrize("form", ["npz", "savez", "hdf5", "collected"])
def test_observations_stay_in_the_file(form: str, tmp_path: Path) -> None:
    """They are memory maps, at any offset in the file."""
    data = opened(form, tmp_path)
    leaves = [store for store in data._ring._stores if store.shape[1:] == (2,)]
    assert len(leaves) == 2
    for leaf in leaves:
        base = getattr(leaf, "_column", leaf)
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        assert isinstance(base, mmap.mmap)


def test_batches_are_those_of_take(tmp_path: Path) -> None:
    data = opened("npz", tmp_path, nstep=2)
    index = np.random.default_rng(0).permutation(len(data))
    drawn = [batch.copy() for batch in data.take_batches(index, 4)]
    assert [len(batch) for batch in drawn] == [4] * (len(data) // 4) + [len(data) % 4]
    for start, batch in zip(range(0, len(data), 4), drawn, strict=True):
        for key, column in data.take(index[start : start + 4]).items():
            np.testing.assert_array_equal(batch[key], column)
    with pytest.raises(IndexError, match=f"numbered 0 to {len(data) - 1}"):
        data.take([len(data)])
    wrong: list[Any] = [[-1], [0.5], [[0, 1]], np.ones(len(data), bool)]
    for each in wrong:
        with pytest.raises(IndexError):
            data.take(each)
    with pytest.raises(UsageError, match="batch_size must be >= 1, got 0"):
        next(data.take_batches([0], 0))
    for form in ("savez", "npz"):
        assert len(opened(form, tmp_path).take([])) == 0


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"episodes": 2}, [0, 1]),
        ({"fraction": 0.4}, [0, 1]),
        ({"fraction": 0.01}, [0]),
        ({"episodes": 2, "shuffle": True}, None),
        ({"fraction": 1.0, "shuffle": True}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_part_of_the_episodes(
    options: dict[str, Any], wanted: list[int] | None, tmp_path: Path
) -> None:
    path = write("hdf5", tmp_path, EPISODES)
    found = []
    for seed in (1, 1, 2, 3):
        data = HDF5Dataset({"path": path, **options}, seed=seed)
        batch = data.take(np.arange(len(data)))
        found.append(np.unique(batch["obs"][:, 0] // 100).astype(int).tolist())
    assert found[0] == found[1]
    assert all(each == wanted for each in found) if wanted else len({*map(str, found)}) > 1


def test_more_episodes_than_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="9 episodes are wanted, 5 are there"):
        opened("npz", tmp_path, episodes=9)


def test_a_fingerprint_tells_the_content(tmp_path: Path) -> None:
    """A run is not resumed with other data."""
    data = opened("npz", tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "again").mkdir()
    changed = opened("npz", tmp_path / "other", episodes("5e", "4t", seed=1))
    again = opened("npz", tmp_path / "again")
    assert data.fingerprint == again.fingerprint != changed.fingerprint
    assert data.fingerprint.startswith("sha256:")
    again.load_state_dict(data.state_dict())
    with pytest.raises(UsageError, match="not the data set that the run began with"):
        changed.load_state_dict(data.state_dict())


@pytest.mark.parametrize("form", ["minari", "collected"])
def test_the_fingerprint_of_a_folder(form: str, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first = opened(form, tmp_path, EPISODES[:2])
    other = opened(form, tmp_path / "b", EPISODES[:3])
    assert first.fingerprint != other.fingerprint


def test_a_buffer_is_filled(tmp_path: Path) -> None:
    data = opened("npz", tmp_path, nstep=2)
    buffer = NaiveReplayBuffer({"replay_buffer_size": 100})
    assert buffer.load_dataset(data) == range(len(data))
    state = buffer.state_dict()["columns"]
    for key, column in data.take(np.arange(len(data))).items():
        np.testing.assert_array_equal(state[key], column)
    from dicore.errors import ReplayCapacityError

    with pytest.raises(ReplayCapacityError, match=f"{len(data)} samples, .* capacity is 5"):
        NaiveReplayBuffer({"replay_buffer_size": 5}).load_dataset(data)


def test_columns_of_other_names_kinds_and_shapes(tmp_path: Path) -> None:
    """Doubles become float32, actions integers; [N, 1] is [N]; nested keys are a dict."""
    columns = table(EPISODES)
    path = tmp_path / "odd.npz"
    obs = columns["obs"].astype(">f8")
    np.savez(
        path, **{"s/a": obs, "s/b": obs[:, 0], "done": columns["terminated"][:, None] * 1.0},
        a=columns["action"][:, None].astype(np.int16), reward=columns["reward"][:, None],
        mask=np.ones((len(obs), 3), np.int8),
    )  # fmt: skip
    data = NpzDataset(
        {"path": str(path), "columns": {"obs": "s", "action": "a", "terminated": "done"},
         "extra": ["mask"]},
        action_space=SPACES[1],
    )  # fmt: skip
    batch = data.take([0, 1])
    assert batch["obs"]["a"].dtype == batch["obs"]["b"].dtype == np.float32
    np.testing.assert_array_equal(batch["obs"]["a"], columns["obs"][:2])
    np.testing.assert_array_equal(batch["next_obs"]["b"], columns["obs"][1:3, 0])
    np.testing.assert_array_equal(batch["action"], columns["action"][:2])
    assert (batch["action"].dtype, batch["action"].shape) == (np.int64, (2,))
    assert batch["mask"].shape == (2, 3)


def test_episodes_that_no_column_ends(tmp_path: Path) -> None:
    """Where the next observation is not the next row's, a time limit ended the episode."""
    columns = table(EPISODES, with_next=True)
    del columns["truncated"]
    write_npz(tmp_path / "a.npz", columns)
    data = NpzDataset({"path": str(tmp_path / "a.npz"), "nstep": 3, "discount_factor": 0.9})
    wanted = expected(EPISODES, 3, 0.9, without_last=False)
    batch = data.take(np.arange(len(data)))
    np.testing.assert_allclose(batch["reward"], wanted["reward"], rtol=1e-6)
    assert data.episodes == len(EPISODES)


def test_parts_of_observations_are_compared_by_name(tmp_path: Path) -> None:
    """The episode goes on where next_obs/b is before next_obs/a in the file, too."""
    steps = np.arange(6, dtype=np.float32)[:, None]
    columns = {"obs/a": steps, "obs/b": -steps, "next_obs/b": -steps - 1, "next_obs/a": steps + 1,
               "action": np.zeros(6, np.int64), "reward": np.ones(6, np.float32),
               "terminated": np.zeros(6, np.bool_)}  # fmt: skip
    np.savez(tmp_path / "a.npz", **columns)  # type: ignore[arg-type]
    data = NpzDataset({"path": str(tmp_path / "a.npz"), "nstep": 3, "discount_factor": 0.9})
    assert data.episodes == 1
    assert data.take(np.array([0]))["reward"] == pytest.approx(2.71)


def test_nstep_samples_are_taken_as_they_are(tmp_path: Path) -> None:
    """Samples of a policy with n-step returns, of the same discount."""
    rows = expected(EPISODES, 3, 0.9, without_last=False)
    rows["next_obs"] = [np.nan_to_num(each) for each in rows["next_obs"]]
    ends = np.concatenate([np.arange(len(e.action)) == len(e.action) - 1 for e in EPISODES])
    columns = {k: np.array(v, np.int64 if k == "action" else np.float32) for k, v in rows.items()}
    buffer = NaiveReplayBuffer({"replay_buffer_size": 100})
    from dicore.data import Batch

    buffer.push(Batch({**columns, "end": ends, "env_id": np.zeros(len(ends), np.int64)}))
    buffer.save_data(tmp_path / "demo")
    options = {"path": str(tmp_path / "demo"), "nstep": 3}
    data = CollectedDataset({**options, "discount_factor": 0.9})
    batch = data.take(np.arange(len(data)))
    for key, column in columns.items():
        np.testing.assert_array_equal(batch[key], column)
    assert data.episodes == len(EPISODES)
    with pytest.raises(ValueError, match="value_gamma: n-step samples with another discount"):
        CollectedDataset({**options, "discount_factor": 0.95})


def test_an_epoch_is_in_random_order() -> None:
    """Every number once, each in each place as often: 143.4 is the 0.999 quantile of 99 degrees."""
    counts = np.zeros((10, 10))
    for seed in range(1000):
        order = shuffled(10, np.random.default_rng(seed))
        assert sorted(order.tolist()) == list(range(10))
        counts[np.arange(10), order] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 143.4
    for count in (0, 1, 2, 5000):
        order = shuffled(count, np.random.default_rng(0))
        np.testing.assert_array_equal(np.sort(order), np.arange(count))
        np.testing.assert_array_equal(order, shuffled(count, np.random.default_rng(0)))


def test_every_class_is_a_transition_dataset() -> None:
    assert all(issubclass(each, TransitionDataset) for each in CLASSES.values())
