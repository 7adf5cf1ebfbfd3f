"""Values in other files of a stranger: none is imported or run, and errors are dicore's own."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dicore.config.reader import read_config
from dicore.data import Batch
from dicore.data.json_codec import decode
from dicore.errors import DicoreError, ReplayError, UsageError
from dicore.run.checkpoint_io import read_state, write_state
from dicore_compat.migrate.zoo import convert_entry
from dicore_dist.coordinator.journal import Journal
from dicore_dist.coordinator.status import read_wishes
from dicore_dist.links.exchange import FileStore
from dicore_plugins.buffers.file.records import packed, read_record, scan, write_head
from dicore_plugins.buffers.storage import read_kept
from dicore_plugins.datasets import CollectedDataset, NpzDataset
from dicore_plugins.datasets.spaces import space_from
from dicore_tools.commands.import_weights import _read_table
from dicore_tools.commands.tune import _results
from dicore_tools.config_formats.text_files import read_yaml
from dicore_tools.results.page import collect_results, write_page
from dicore_tools.results.plan import read_plan
from dicore_tools.results.records import Record, RecordFile
from dicore_tools.tuning.study import load
from tests.tools.conftest import Plant, plants

JUNK: tuple[Any, ...] = (
    None, True, -1, 2**70, float("inf"), float("nan"), "", "../../x", "\x00", "9" * 5000, [], {},
    [[]], {"__array__": ["int8", [300]]}, {"__numpy__": ["int8", 300]}, {"__float__": []},
    {"__dict__": [[[], 1]]}, {"__array__": ["S1000000000", [1, 2]]}, {"__array__": ["(" * 99, 1]},
    {"$": "array", "at": "x"}, {"file": "../../x.npy", "rows": 3}, {"file": [], "rows": "x"},
    {"distutils.spawn:spawn": {"ext_args": {"cmd": [sys.executable, "-c", "open('out', 'w')"]}}},
)  # fmt: skip


class Kind(NamedTuple):
    """A kind of file.

    Args:
        make: Writes one into an empty folder; returns what it holds.
        write: Writes another content in its place.
        read: What dicore does with it.
    """

    make: Callable[[Path], Any]
    write: Callable[[Path, Any], None]
    read: Callable[[Path], Any]


def as_lines(name: str) -> Callable[[Path, Any], None]:
    def write(folder: Path, tree: Any) -> None:
        lines = tree if isinstance(tree, list) else [tree]
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    return write


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


# ---- a study of `dicore tune`


def make_study(folder: Path) -> Any:
    import optuna  # half a second, for each process that collects tests
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    backend = JournalFileBackend(str(folder / "study.log"))
    study = optuna.create_study(
        study_name="dicore", storage=JournalStorage(backend), direction="maximize"
    )
    study.set_user_attr("plan", {"seeds": 1})
    for value in (1.0, 2.0):
        trial = study.ask()
        trial.suggest_float("policy.learn.learning_rate", 1e-5, 1e-2, log=True)
        trial.suggest_categorical("policy.nstep", ["1", "2"])
        for name, fact in (("score", value), ("env_step", 32), ("seconds", 1.5)):
            trial.set_user_attr(name, fact)
        study.tell(trial, value)
    return lines_of(folder / "study.log")


# ---- the records of `dicore benchmark`


ROW = '[[row]]\nname = "x"\nenv = "cartpole"\npolicy = "dqn"\nseeds = [0]\n'


def make_records(folder: Path) -> Any:
    (folder / "x.toml").write_text(ROW)
    plan = plan_of(folder / "x.toml")
    record = Record(
        row="x", settings=plan.settings(plan.rows[0]), env="cartpole", policy="dqn", seed=0,
        stop=True, env_step=64, train_iter=3, wall_s=1.5, returns=(1.0,), last_returns=(1.0,),
        cpu_s=1.0, curve=((1, 2.0), (3, 4.0)), git="a", versions={"dicore": "1"}, finished="x",
    )  # fmt: skip
    RecordFile(folder / "x.jsonl").add(record)
    return [json.loads(json.dumps(asdict(record)))]


plan_of = cache(read_plan)


def write_report(folder: Path) -> None:
    plan, records = plan_of(folder / "x.toml"), RecordFile(folder / "x.jsonl").read()
    write_page(plan, collect_results(plan, records), folder / "x.md", "dicore benchmark x.toml")


# ---- the journal of `-m dist`


def make_journal(folder: Path) -> Any:
    journal = Journal(folder / "journal.jsonl")
    journal.write("task", kind="collector", number=3)
    journal.write("block", file_path="data/x", count=8, env_step=8)
    journal.write("steps", env_step=8)
    journal.write("updates", train_iter=4)
    journal.close()
    return lines_of(folder / "journal.jsonl")


# ---- samples and states: a text that describes bytes


SAMPLE = {"obs": np.zeros(4, np.float32), "action": np.int64(1), "info": {"x": [1, "a"]}}


def make_body(folder: Path) -> Any:
    record = packed(SAMPLE, 0)
    with (folder / "x.records").open("wb") as file:
        write_head(file)
        file.write(record)
    (length,) = struct.unpack_from("<I", record, 20)
    return json.loads(record[24 : 24 + length])


def write_body(folder: Path, tree: Any) -> None:
    text = json.dumps(tree).encode()
    payload = struct.pack("<I", len(text)) + text + bytes(64)
    header = struct.pack("<QIq", len(payload), zlib.crc32(payload), 0)
    (folder / "x.records").write_bytes(b"DICOREB\x01" + header + payload)


def read_body(folder: Path) -> Any:
    file = folder / "x.records"
    return [Batch.from_rows([read_record(file, place)]) for _, place in scan(file, 0)]


def make_state(folder: Path, state: Any = SAMPLE) -> Any:
    write_state(folder, state)
    found = json.loads((folder / "manifest.json").read_text())
    return {key: value for key, value in found.items() if key != "sha256"}


def write_manifest(folder: Path, tree: Any) -> None:
    text = json.dumps(tree, separators=(",", ":"))[:-1].encode()
    seal = f',"sha256":"{sha256(text).hexdigest()}"}}'.encode()
    (folder / "manifest.json").write_bytes(text + seal)


def make_kept(folder: Path) -> Any:
    np.save(folder / "0.npy", np.arange(9))
    return make_state(folder / "state", {"columns": {"obs": {"file": "0.npy", "rows": 3}}})


STEPS = {
    "obs": np.zeros((8, 4), np.float32), "action": np.arange(8) % 2,
    "reward": np.ones(8, np.float32), "next_obs": np.zeros((8, 4), np.float32),
}  # fmt: skip


def make_samples(folder: Path) -> Any:
    ends = {"done": np.zeros(8, np.float32), "end": np.arange(8) == 7, "env_id": np.zeros(8, int)}
    return make_state(folder, {"columns": {**STEPS, **ends}, "cursor": 8})


def make_npz(folder: Path) -> Any:
    space = {"type": "Box", "low": [-1.0] * 4, "high": 1.0, "shape": [4], "dtype": "float32"}
    return {"type": "Dict", "spaces": {"x": space, "y": {"type": "Discrete", "n": 3, "start": 0}}}


def write_npz(folder: Path, tree: Any) -> None:
    spaces = {"observation_space": np.array(json.dumps(tree))}
    np.savez(folder / "x.npz", **STEPS, terminated=np.arange(8) == 7, **spaces)


def read_dataset(cls: Any, name: str = "") -> Callable[[Path], Any]:
    return lambda folder: cls({"path": str(folder / name)}).take(np.array([0]))


# ---- YAML files of others


ZOO = {
    "n_envs": 8, "n_timesteps": 1e5, "policy": "MlpPolicy", "n_steps": 32, "batch_size": 256,
    "gae_lambda": 0.8, "learning_rate": "lin_0.001", "clip_range": "lin_0.2", "normalize": True,
    "policy_kwargs": "dict(ortho_init=False, net_arch=dict(pi=[64, 64], vf=[64, 64]))",
    "env_wrapper": [{"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 100}}], "gamma": 0.9,
}  # fmt: skip


def write_yaml(folder: Path, tree: Any) -> None:
    (folder / "ppo.yaml").write_text(json.dumps(tree))


KINDS = {
    "study": Kind(make_study, as_lines("study.log"), lambda folder: _results(load(folder), folder)),
    "records": Kind(make_records, as_lines("x.jsonl"), write_report),
    "journal": Kind(
        make_journal,
        as_lines("journal.jsonl"),
        lambda folder: Journal(folder / "journal.jsonl").close(),
    ),
    "bodies": Kind(make_body, write_body, read_body),
    "manifest": Kind(make_state, write_manifest, read_state),
    "kept": Kind(make_kept, lambda folder, tree: write_manifest(folder / "state", tree), read_kept),
    "samples": Kind(make_samples, write_manifest, read_dataset(CollectedDataset)),
    "zoo": Kind(
        lambda folder: {"CartPole-v1": ZOO},
        write_yaml,
        lambda folder: convert_entry(folder / "ppo.yaml", "CartPole-v1"),
    ),
    "table": Kind(
        lambda folder: {"a": "b", "c.*": "d.*"},
        write_yaml,
        lambda folder: _read_table(folder / "ppo.yaml"),
    ),
    "spaces": Kind(make_npz, write_npz, read_dataset(NpzDataset, "x.npz")),
}


def wrong(tree: Any) -> Iterator[Plant]:
    yield from plants(tree)
    for at in dict.fromkeys(at for at, _ in plants(tree)):
        yield from ((at, value) for value in JUNK)


def planted(tree: Any, plant: Plant) -> Any:
    tree, (at, value) = json.loads(json.dumps(tree)), plant
    if not at:
        return value
    node = tree
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return tree


@pytest.mark.parametrize("name", KINDS)
def test_nothing_in_a_file_is_imported_and_errors_are_ours(
    name: str, tmp_path: Path, sprung: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for output in ("draw", "write_best"):
        monkeypatch.setattr(f"dicore_tools.tuning.results.{output}", lambda rows, file: None)
    monkeypatch.setattr("dicore_tools.results.page._draw", lambda *_: False)
    kind, folder = KINDS[name], tmp_path / "theirs"
    folder.mkdir()
    tree = kind.make(folder)
    kind.write(folder, tree)
    kind.read(folder)
    for plant in random.Random(0).sample([*wrong(tree)], 60):
        kind.write(folder, planted(tree, plant))
        said = ""
        try:
            kind.read(folder)
        except DicoreError as error:
            said = error.message
        except Exception as error:
            raise AssertionError(plant) from error
        assert "\n" not in said, plant
        assert not sprung, plant
    assert not Path("out").exists()


def test_blocks_of_a_record_lie_in_it(tmp_path: Path) -> None:
    tree = make_body(tmp_path)
    for size in (-8, 1 << 40):
        write_body(tmp_path, {**tree, "blocks": [["obs", "F32", size], *tree["blocks"][1:]]})
        with pytest.raises(ReplayError, match=f"block 'obs' has {size} bytes"):
            read_body(tmp_path)


@pytest.mark.parametrize(
    "tree",
    [["int8", [300]], ["9" * 5000, [1]], ["float64", [10**400]]],
    ids=["overflow", "dtype", "long"],
)
def test_an_array_that_its_type_cannot_hold_is_a_wrong_value(tree: Any) -> None:
    with pytest.raises(ValueError, match="wrong content"):
        decode({"__array__": tree})


@pytest.mark.parametrize("dtype", ["S1000000000", "(1000,1000,200)f8", "O"])
def test_a_space_has_numbers(dtype: str) -> None:
    space = {"type": "Box", "low": 0, "high": 1, "shape": [4], "dtype": dtype}
    with pytest.raises(ValueError, match="not a space"):
        space_from(json.dumps(space))


def test_counts_and_names_of_a_journal_are_plausible(tmp_path: Path) -> None:
    make_journal(tmp_path)
    good = Journal(tmp_path / "journal.jsonl")
    good.close()
    with (tmp_path / "journal.jsonl").open("a") as file:
        for facts in ({"count": 1 << 40}, {"count": -1}, {"env_step": -8}, {"env_step": math.inf}):
            line = {"event": "block", "file_path": "x", "count": 8, "env_step": 8, **facts}
            file.write(json.dumps(line) + "\n")
    again = Journal(tmp_path / "journal.jsonl")
    again.close()
    assert (again.blocks, again.env_step) == (good.blocks, good.env_step)
    for name in ("..", "", "\x00", "../x", "/x"):
        with pytest.raises(UsageError, match="not the name of a file"):
            FileStore(tmp_path).remove(name)


def test_a_wish_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "wishes.json")
    assert read_wishes(tmp_path) == {}


def test_a_study_that_was_moved_still_writes_its_best_config(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_tools.tuning.results.draw", lambda rows, file: None)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    make_study(old)
    with pytest.raises(UsageError, match="the runs of the best trial are not there"):
        _results(load(old), old)
    shutil.copytree(trained, old / "trial_0001" / "seed_0")
    old.rename(new)
    _results(load(new), new)
    assert "cartpole" in (new / "best.yaml").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "!!bool x", "!!timestamp x", "!!int x", "!!float x", "2020-99-99", "[" * 3000, "9" * 5000,
        "!!python/object/apply:os.system [touch out]", "!!python/name:trap_file.Trap",
        "!!python/module:trap_file", "&x [*x]", "dict(net_arch=-5)", "-" * 50_000 + "1",
        "__import__('trap_file')", "dict(a=__import__('trap_file').Trap())",
    ],
    ids=range(15),
)  # fmt: skip
def test_a_yaml_file_is_plain_data(text: str, tmp_path: Path, sprung: list[str]) -> None:
    (tmp_path / "x.yaml").write_text(f"policy_kwargs: {text}\n")
    (tmp_path / "ppo.yaml").write_text(f"CartPole-v1:\n  policy_kwargs: {text}\n")
    for read in (read_config, read_yaml):
        with suppress(DicoreError):
            read(tmp_path / "x.yaml")
    with suppress(DicoreError):
        convert_entry(tmp_path / "ppo.yaml", "CartPole-v1")
    assert not sprung
    assert not Path("out").exists()
