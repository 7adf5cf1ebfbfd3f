"""Digideep's trajectories and their memory (FEATURES M4 to M6, M8 to M10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Batch
from dicore.errors import ReplayCapacityError, ReplayUnderflowError, SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore_compat.samplers import Memory, flat_keys, nested_keys, trajectory_of

# ---- the trajectory tree


def block(steps: int, workers: int, seed: int = 0) -> tuple[Batch, Tail]:
    """A block of two agents with dict observations."""
    rng = np.random.default_rng(seed)
    size = (steps, workers)
    columns = {
        "obs": {
            "camera": rng.integers(0, 255, (*size, 4, 4), np.uint8),
            "joints": rng.normal(size=(*size, 5)).astype(np.float32),
        },
        "action": {"arm": rng.normal(size=(*size, 2)), "hand": rng.integers(0, 3, size)},
        "value": {"arm": rng.normal(size=size), "hand": rng.normal(size=size)},
        "prev_state": {"arm": rng.normal(size=(*size, 8)), "hand": rng.normal(size=(*size, 6))},
        "battery": rng.random(size),
        "reward": rng.normal(size=size).astype(np.float32),
        "done": rng.random(size) < 0.2,
        "end": rng.random(size) < 0.4,
        "valid": np.ones(size, bool),
        "env_id": np.tile(np.arange(workers), (steps, 1)),
    }
    after = {
        "camera": rng.integers(0, 255, (workers, 4, 4), np.uint8),
        "joints": rng.normal(size=(workers, 5)).astype(np.float32),
    }
    return Batch(columns, steps), Tail(after, np.empty(0, np.int64), {}, steps)


def test_shapes_of_the_tree() -> None:
    """M4: three workers, seven steps, two agents, dict observations."""
    found, tail = block(7, 3)
    chunk = trajectory_of(found, tail, agents=("arm", "hand"), infos=("battery",))
    assert {key: each.shape for key, each in chunk.items()} == {
        "/observations/camera": (3, 8, 4, 4),
        "/observations/joints": (3, 8, 5),
        "/masks": (3, 8, 1),
        "/rewards": (3, 8, 1),
        "/infos/battery": (3, 8, 1),
        "/infos/terminated": (3, 8, 1),
        "/agents/arm/actions": (3, 8, 2),
        "/agents/arm/hidden_state": (3, 8, 8),
        "/agents/arm/artifacts/value": (3, 8, 1),
        "/agents/hand/actions": (3, 8, 1),
        "/agents/hand/hidden_state": (3, 8, 6),
        "/agents/hand/artifacts/value": (3, 8, 1),
    }
    np.testing.assert_array_equal(chunk["/observations/joints"][:, 7], tail.obs["joints"])
    np.testing.assert_array_equal(
        chunk["/agents/hand/actions"][1, :7, 0], found["action"]["hand"][:, 1]
    )
    assert np.isnan(chunk["/agents/arm/actions"][:, 7]).all()
    assert np.isnan(chunk["/rewards"][:, 7]).all()


def test_a_mask_tells_of_the_step_before() -> None:
    """M5: 0 where an episode has finished before the observation of this index."""
    columns = {
        "obs": np.arange(3.0)[:, None], "action": np.zeros((3, 1)), "reward": np.ones((3, 1)),
        "done": np.array([[0], [1], [0]]), "end": np.array([[False], [True], [False]]),
    }  # fmt: skip
    tail = Tail(np.array([3.0]), np.array([1]), np.array([9.0]), 3)
    chunk = trajectory_of(Batch(columns, 3), tail, masks=np.array([1]))
    assert chunk["/masks"][0, :, 0].tolist() == [1, 1, 0, 1]
    first = trajectory_of(Batch(columns, 3), tail, last={"/rewards": np.array([7.0])})
    assert first["/masks"][0, :, 0].tolist() == [0, 1, 0, 1]
    assert first["/rewards"][0, :, 0].tolist() == [1, 1, 1, 7]


def test_an_agent_without_a_part_is_named() -> None:
    found, tail = block(2, 1)
    with pytest.raises(SchemaError, match="'action' has no part of the agent 'leg'"):
        trajectory_of(found, tail, agents=("arm", "leg"))


def test_flat_and_nested_keys() -> None:
    tree = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert flat_keys(tree) == {"/a/b": 1, "/a/c/d": 2, "/e": 3}
    assert nested_keys(flat_keys(tree)) == tree
    with pytest.raises(SchemaError, match="'/a' has the key 'b/c'"):
        flat_keys({"a": {"b/c": 1}})


# ---- the memory


def chunk(number: int, workers: int = 2, steps: int = 3, overrun: int = 1) -> dict[str, Any]:
    """Chunk `number` of a stream: entry t of worker b is 1000 b + t, from number * steps on."""
    entries = number * steps + np.arange(steps + overrun)
    values = (1000 * np.arange(workers)[:, None] + entries).astype(np.float32)
    return {"/observations": np.stack([values, -values], -1), "/rewards": values[..., None]}


STORAGES = ["memory", "disk"]


def make(storage: str, folder: Path, steps: int = 3, chunks: int = 3, overrun: int = 1) -> Memory:
    if storage == "disk":
        pytest.importorskip("dicore_plugins.buffers.storage")
    return Memory(steps, chunks, overrun, folder=folder if storage == "disk" else None)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("overrun", [0, 1, 2])
def test_the_newest_chunks_without_gap_or_double(
    storage: str, overrun: int, tmp_path: Path
) -> None:
    """M6, M9: the half step opens the next chunk; a ring of three keeps the last three."""
    memory = make(storage, tmp_path, overrun=overrun)
    for number in range(7):
        stored = chunk(number, overrun=overrun)
        memory.store(stored)
        first, last = max(0, number - 2) * 3, (number + 1) * 3 + overrun
        found = memory.get_buffer()["/rewards"]
        assert found.shape == (2, last - first, 1)
        np.testing.assert_array_equal(found[0, :, 0], np.arange(first, last))
        np.testing.assert_array_equal(found[1, :, 0], 1000 + np.arange(first, last))
        for key, column in memory.get_buffer().items():
            np.testing.assert_array_equal(column[:, -3 - overrun :], stored[key])
        assert memory.full == (number >= 2)
        assert memory.get_last_trans_index() == last - first


INDEXES: list[Any] = [
    np.s_[:], np.s_[1], np.s_[:, 0], np.s_[:, -1], np.s_[0, 2:7], np.s_[:, ::2], np.s_[:, -4:],
    np.s_[1, 3], np.s_[[0, 1, 1], [2, 9, -1]], np.s_[:, [4, 9, 0]], np.s_[[1, 0]], np.s_[:, :, 1],
    np.s_[[0, 1], [3, 4], 0], np.s_[np.array([True, False])], np.s_[::-1, 1:3, ::-1],
    np.s_[[[0], [1]], [[1, 2], [3, 4]]],
]  # fmt: skip


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_a_column_is_indexed_as_an_array(index: Any) -> None:
    memory = Memory(3, 3)
    for number in range(5):
        memory.store(chunk(number))
    column = memory.get_buffer()["/observations"]
    whole = np.asarray(column)
    assert whole.shape == column.shape == (2, 10, 2)
    np.testing.assert_array_equal(column[index], whole[index])


def test_one_entry_of_single_numbers() -> None:
    memory = Memory(3, 1, 0)
    memory.store({"/x": np.arange(6.0).reshape(2, 3)})
    assert float(memory.get_buffer()["/x"][1, -1]) == 5


def test_an_index_out_of_range() -> None:
    memory = Memory(3, 3)
    memory.store(chunk(0))
    for index in ((2, 0), (0, 4), (0, -5), ([0, 5], [0, 0])):
        with pytest.raises(IndexError):
            memory.get_buffer()["/rewards"][index]


@given(st.lists(st.sampled_from(["ab", "a", "b", "abc"]), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_missing_keys_are_blank(kinds: list[str]) -> None:
    """M10: against a plain list of chunks."""
    memory, model = Memory(2, 3), []
    known: set[str] = set()
    for number, keys in enumerate(kinds):
        stored = {
            f"/{key}": np.full((2, 3, 1), number, np.int32 if key == "b" else np.float32)
            for key in keys
        }
        memory.store(stored)
        known |= set(keys)
        model = [*model, stored][-3:]
        assert set(memory.get_buffer_keys()) == {f"/{key}" for key in known}
        for key, column in memory.get_buffer().items():
            blank = np.iinfo(np.int32).min if key == "/b" else np.nan
            parts = [each[key][0, :, 0] if key in each else np.full(3, blank) for each in model]
            wanted = np.concatenate([*(part[:2] for part in parts), parts[-1][2:]])
            np.testing.assert_array_equal(column[0, :, 0], wanted)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_state_is_restored(storage: str, tmp_path: Path) -> None:
    memory, twin = make(storage, tmp_path), make(storage, tmp_path)
    twin.load_state_dict(memory.state_dict())
    assert twin.length == 0
    for number in range(4):
        memory.store(chunk(number))
    twin.load_state_dict(memory.state_dict())
    memory.store(chunk(4))
    twin.store(chunk(4))
    for key, column in memory.get_buffer().items():
        np.testing.assert_array_equal(twin.get_buffer()[key][:], column[:])
    with pytest.raises(ReplayCapacityError):
        make(storage, tmp_path, chunks=2).load_state_dict(memory.state_dict())
    memory.clear_buffer()
    assert (memory.length, memory.get_num_batches(), memory.get_buffer_keys()) == (0, None, [])


def test_a_state_of_something_else_changes_nothing() -> None:
    memory, other = Memory(3, 2), Memory(3, 2, overrun=2)
    memory.store(chunk(0))
    other.store({"/x": np.zeros((2, 5, 1), np.float32)})
    for state, says in ((other.state_dict(), "overrun=2, this memory 1"), ({}, "has no chunks")):
        with pytest.raises(UsageError, match=says):
            memory.load_state_dict(state)
        assert memory.length == 4


def test_keys_shapes_and_sizes() -> None:
    memory = Memory(3, 2)
    memory.store(chunk(0))
    assert memory.get_buffer_keys() == ["/observations", "/rewards"]
    assert memory.get_key_shape("/observations") == (2,)
    assert memory.get_num_batches() == 2
    assert memory.get_chunk_sample_num() == 3
    with pytest.raises(SchemaError, match="no key '/reward'; it has /observations, /rewards"):
        memory.get_key_shape("/reward")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "at least one key"),
        ({"/rewards": np.zeros((2, 3, 1))}, r"'/rewards': expected \[2 workers, 4 entries"),
        ({"/rewards": np.zeros((3, 4, 1))}, r"got \[3, 4, 1\]"),
        ({"/rewards": np.zeros((2, 4, 2))}, r"expected float32\[1\] as stored, got float64\[2\]"),
        ({"/rewards": np.zeros((2, 4, 1), int)}, r"as stored, got int64\[1\]"),
        ({"/names": np.array([["a"] * 4] * 2)}, "expected numbers"),
        ({"/rewards": np.float32(3)}, r"got \[\]"),
        ({"/rewards": np.full((2, 4, 1), 1e300)}, r"'/rewards': 1e\+300 is too large for float32"),
    ],
)
def test_a_chunk_that_does_not_fit(wrong: dict[str, Any], says: str) -> None:
    """Nothing of it is stored."""
    memory = Memory(3, 3)
    memory.store(chunk(0))
    before = {key: column[:] for key, column in memory.get_buffer().items()}
    with pytest.raises(SchemaError, match=says):
        memory.store({**chunk(1), **wrong} if wrong else {})
    for key, column in memory.get_buffer().items():
        np.testing.assert_array_equal(column[:], before[key])
    assert memory.get_buffer_keys() == list(before)


def test_what_a_memory_cannot_be() -> None:
    for length in (0, 1.5):
        with pytest.raises(UsageError, match=f"buffer_chunk_len must be an int >= 1, got {length}"):
            Memory(3, length)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"expected \[1 workers, 4 entries"):
        Memory(3, 1).store({"/x": np.zeros((0, 4, 1))})
    with pytest.raises(ReplayUnderflowError, match="the memory is empty"):
        Memory(3, 1).get_buffer()


def test_a_memory_on_disk_is_larger_than_what_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M10: the process needs less memory than the data has; the disk gives what the memory has."""
    import psutil

    from dicore_plugins.buffers import storage

    monkeypatch.setattr(storage, "_RESIDENT", 1 << 20)
    disk, ram = Memory(8, 64, folder=tmp_path), Memory(8, 64)
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 255, (2, 9, 256, 256), np.uint8) for _ in range(3)]
    process = psutil.Process()
    before = process.memory_info().rss
    for number in range(70):
        disk.store({"/observations": frames[number % 3]})
    disk_mb = (process.memory_info().rss - before) / 2**20
    data_mb = 8 * 64 * 2 * 256 * 256 / 2**20
    assert disk_mb < data_mb / 2, f"{disk_mb:.0f} MiB for {data_mb:.0f} MiB"
    for number in range(64, 70):
        ram.store({"/observations": frames[number % 3]})
    np.testing.assert_array_equal(
        disk.get_buffer()["/observations"][:, -40:], ram.get_buffer()["/observations"][:, -40:]
    )
