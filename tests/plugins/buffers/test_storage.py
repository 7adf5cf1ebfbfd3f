"""Where samples are: page-locked memory, a device, files on disk. All give the samples of `cpu`.

A GPU is not needed: `device="cpu"` runs the same code, `meta` allocates nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore import build
from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, ReplayCapacityError, ReplayError, SchemaError, UsageError
from dicore.run.env_factory import BuildContext
from dicore.testing.buffer import BufferContract, numbered_rows
from dicore.testing.compare import array, difference
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    DeviceStorage,
    FileStorage,
    NaiveReplayBuffer,
    PinnedStorage,
    Ring,
    storage_of,
)
from dicore_plugins.frames import StackedFrames

STORAGES = ["pinned", "cuda", "mmap"]
BUFFERS = {"naive": NaiveReplayBuffer, "advanced": AdvancedReplayBuffer}


def make(kind: str, storage: str, folder: Any = None, capacity: int = 32, **options: Any) -> Any:
    cfg = {"replay_buffer_size": capacity, "storage": storage, **options}
    rng = np.random.default_rng(0)
    return BUFFERS[kind](cfg, rng=rng, device="cpu", folder=folder)  # type: ignore[abstract]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", BUFFERS)
def test_each_storage_keeps_the_contract(kind: str, storage: str, tmp_path: Path) -> None:
    class Suite(BufferContract):
        def make(self, capacity: int) -> Any:
            return make(kind, storage, tmp_path, capacity)

    suite = Suite()
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        getattr(suite, name)()
    assert len(names) > 20


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", BUFFERS)
def test_all_calls_give_what_memory_gives(kind: str, storage: str, tmp_path: Path) -> None:
    """Pushes across the end, stacked frames, draws, priorities, states there and back."""
    mine, theirs = make(kind, storage, tmp_path), make(kind, "cpu")
    rng = np.random.default_rng(1)
    for start in range(0, 90, 9):
        stacks = StackedFrames.of(rng.integers(0, 255, (9, 4, 5, 5), np.uint8))
        rows = Batch({**numbered_rows(9, start).columns, "image": stacks}, 9)
        for each in (mine, theirs):
            each.push(rows)
        one, other = (each.sample_batch(8, reuse=True) for each in (mine, theirs))
        assert not difference(numpy_of(one), numpy_of(other))
        one, other = (each.sample_batch(40, replace=True) for each in (mine, theirs))
        assert not difference(numpy_of(one), numpy_of(other))
        info = {"replay_unique_id": other.get("replay_unique_id"), "priority": rng.random(40)}
        if kind == "advanced":
            mine.update(info)
            theirs.update(info)
        if start == 63:
            mine.load_state_dict(theirs.state_dict())
            again = make(kind, "cpu")
            again.load_state_dict(mine.state_dict())
            theirs = again
    state = mine.state_dict()
    assert not difference(
        numpy_of(Batch(state["columns"])), numpy_of(Batch(theirs.state_dict()["columns"]))
    )


def numpy_of(batch: Batch) -> dict[str, Any]:
    return {key: array(each) for key, each in batch.items()}


@pytest.mark.parametrize("storage", ["cpu", *STORAGES])
@pytest.mark.parametrize("kind", BUFFERS)
def test_recycled_draws_allocate_nothing(kind: str, storage: str, tmp_path: Path) -> None:
    """No memory is kept per draw, and recycled batches have the same tensors every other time."""
    options = {"monitor": {"sampled_data_attr": {"print_freq": 0}}} if kind == "advanced" else {}
    buffer = make(kind, storage, tmp_path, 512, **options)
    buffer.push(numbered_rows(512))
    tensors = [buffer.sample_batch(64, reuse=True).to_torch() for _ in range(6)]
    assert tensors[0]["obs"] is tensors[2 if storage != "pinned" else 3]["obs"]
    tracemalloc.start()
    try:
        for _ in range(100):
            buffer.sample_batch(64, reuse=True).to_torch()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            buffer.sample_batch(64, reuse=True).to_torch()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 4096


# ---- devices


def test_samples_stay_on_the_device() -> None:
    buffer = make("naive", "cuda")
    buffer.push(Batch({"x": torch.arange(8.0), "n": np.arange(8)}))
    batch = buffer.sample_batch(4)
    assert isinstance(batch["x"], torch.Tensor)
    assert torch.equal(batch["x"], batch["n"].float())
    with pytest.raises(SchemaError, match="contains complex256; expected numbers"):
        make("naive", "cuda").push(Batch({"x": np.zeros(2, np.complex256)}))


def test_a_ring_on_a_device_needs_no_memory_here() -> None:
    """The device `meta` has shapes and no data: nothing large is allocated on the CPU."""
    ring = Ring(1_000_000, storage=DeviceStorage("meta"))
    ring.push(Batch({"image": np.zeros((2, 4, 84, 84), np.uint8)}))
    batch = ring.recycled(np.arange(64), 64)[0]
    assert batch["image"].device.type == "meta"
    assert batch["image"].shape == (64, 4, 84, 84)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("storage", ["pinned", "cuda"])
def test_a_missing_gpu_is_named(storage: str) -> None:
    with pytest.raises(UsageError, match="torch finds none"):
        storage_of(storage)
    with pytest.raises(UsageError, match="torch finds none"):
        NaiveReplayBuffer({"storage": storage})


def test_a_gpu_of_another_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match="need the device cuda:2, and torch finds 2"):
        storage_of("cuda", device="cuda:2")


def test_the_config_chooses_the_storage(tmp_path: Path) -> None:
    main = {"env": "cartpole", "policy": "dqn"}

    def section(*options: str) -> Any:
        given = [f"replay_buffer.{each}" for each in options]
        return compile_config(main, overrides=given).policy.other.replay_buffer

    cpu = BuildContext()
    with pytest.raises(UsageError, match=r"set policy.cuda=true"):
        section("storage=cuda").build(cpu).push(numbered_rows(2))
    buffer = section("storage=mmap", f"storage_folder={tmp_path}").build(cpu)
    buffer.push(numbered_rows(2))
    assert isinstance(buffer._ring._storage, FileStorage)
    buffer = section("storage=pinned").build(cpu)
    assert isinstance(buffer._ring._storage, PinnedStorage)
    with pytest.raises(ConfigError, match="storage_folder: has no effect with storage=cpu"):
        section("storage_folder=/tmp")
    with pytest.raises(ConfigError, match="set storage_folder too"):
        section("storage=mmap", "storage_keep=true")
    assert build("buffer", {"type": "naive", "storage": "mmap"}).count() == 0


# ---- files


def test_files_are_gone_at_once(tmp_path: Path) -> None:
    """They have no names: neither a crash nor a missing close leaves anything."""
    buffer = make("naive", "mmap", tmp_path)
    buffer.push(numbered_rows(20))
    assert list(tmp_path.iterdir()) == []
    buffer.close()
    assert buffer.count() == 0


@pytest.mark.parametrize("kind", BUFFERS)
def test_kept_files_are_loaded_by_other_buffers(kind: str, tmp_path: Path) -> None:
    buffer = make(kind, "mmap", storage_folder=str(tmp_path), storage_keep=True)
    stacks = StackedFrames.of(np.random.default_rng(0).integers(0, 9, (40, 2, 3), np.uint8))
    for start in (0, 8, 16, 24, 32):
        columns = {**numbered_rows(8, start).columns, "deep": {"image": stacks[start : start + 8]}}
        buffer.push(Batch(columns))
    buffer.sample_batch(4)
    plain = make(kind, "cpu")
    plain.load_state_dict(buffer.state_dict())
    assert not (tmp_path / "samples").exists()
    buffer.close()
    assert [each.name for each in tmp_path.iterdir()] == ["samples"]
    arrays = {file.name: np.load(file) for file in (tmp_path / "samples").glob("*.npy")}
    assert any(np.array_equal(each, plain.state_dict()["columns"]["action"])
               for each in arrays.values())  # fmt: skip
    again = make(kind, "cpu", capacity=40)
    again.load_data(tmp_path / "samples")
    for draw in ({}, {"sample_range": slice(5, 6)}):
        if draw:
            one, other = (each.sample_batch(1, **draw) for each in (again, plain))
            assert not difference(numpy_of(one)["obs"], numpy_of(other)["obs"])
    fresh = build("buffer", {"type": kind, "load_data": str(tmp_path / "samples")})
    assert (fresh.count(), fresh.push_count) == (32, 40)
    make(kind, "mmap", storage_folder=str(tmp_path), storage_keep=True).close()
    assert (tmp_path / "samples").exists()  # an empty buffer replaces nothing
    (tmp_path / "samples" / "0.npy").unlink()
    with pytest.raises(ReplayError, match=r"0\.npy"):
        make(kind, "cpu", capacity=40).load_data(tmp_path / "samples")


def test_a_folder_of_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    with pytest.raises(UsageError, match="is not data that a buffer has kept"):
        make("naive", "mmap", storage_folder=str(tmp_path), storage_keep=True)
    with pytest.raises(UsageError, match="needs storage_folder"):
        FileStorage(keep=True)


CRASH = """
import os, signal, sys
import numpy as np
from dicore.data import Batch
from dicore_plugins.buffers import NaiveReplayBuffer
buffer = NaiveReplayBuffer(
    {"replay_buffer_size": 1000, "storage": "mmap", "storage_folder": sys.argv[1],
     "storage_keep": True})
for start in range(0, 2500, 50):
    buffer.push(Batch({"x": np.arange(start, start + 50), "y": np.zeros((50, 9))}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_crash_leaves_nothing_that_is_read_as_data(tmp_path: Path) -> None:
    other = make("naive", "mmap", storage_folder=str(tmp_path), storage_keep=True)
    other.push(numbered_rows(3))
    (running,) = tmp_path.iterdir()
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert len([*tmp_path.iterdir()]) == 2
    buffer = make("naive", "mmap", storage_folder=str(tmp_path), storage_keep=True)
    buffer.push(numbered_rows(3))
    buffer.close()
    assert {*tmp_path.iterdir()} == {running, tmp_path / "samples"}  # what nobody uses is removed
    other.close()
    again = make("naive", "cpu")
    again.load_data(tmp_path / "samples")
    assert again.count() == 3


SIZES = """
import sys
import numpy as np
from pathlib import Path
from dicore.data import Batch
from dicore_plugins.buffers import NaiveReplayBuffer

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

buffer = NaiveReplayBuffer({"replay_buffer_size": 40_000, "storage": "mmap"}, folder=sys.argv[1])
rows = Batch({"image": np.zeros((500, 84, 84), np.uint8)})
before, most = resident(), 0
for number in range(80):
    buffer.push(rows)
    most = max(most, resident() - before)
for _ in range(200):
    buffer.sample_batch(64, reuse=True)
    most = max(most, resident() - before)
print(most, 40_000 * 84 * 84)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")
def test_the_process_is_smaller_than_its_data(tmp_path: Path) -> None:
    """FEATURES M10: 270 MiB of images on disk take less than a half of it in memory."""
    command = [sys.executable, "-c", SIZES, str(tmp_path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    most, data = map(int, found)
    assert most < data / 2


def test_what_does_not_fit_is_refused_before_it_is_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY H14, for each storage, with the place that is too small."""
    wide = Batch({"x": np.zeros((2, 1 << 20), np.float32)})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage())
    with pytest.raises(ReplayCapacityError, match=rf"390\.6 GiB, but 22\.0 GiB in {tmp_path}"):
        make("naive", "mmap", tmp_path, 100_000).push(wide)
    monkeypatch.setattr("dicore_plugins.buffers.device.available_bytes", lambda: 22 << 30)
    with pytest.raises(ReplayCapacityError, match=r"390\.6 GiB, but 22\.0 GiB on cpu"):
        make("naive", "cuda", capacity=100_000).push(wide)
    monkeypatch.setattr("dicore_plugins.buffers.memory.available_bytes", lambda: 22 << 30)
    with pytest.raises(ReplayCapacityError, match=r"390\.6 GiB, but 22\.0 GiB of memory") as raised:
        make("naive", "pinned", capacity=100_000).push(wide)
    assert "5600 or less" in str(raised.value.hint)


class Usage:
    free = 22 << 30


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves no space")
def test_a_full_disk_is_found_when_the_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    buffer = make("naive", "mmap", tmp_path)
    with pytest.raises(ReplayCapacityError, match="No space left on device"):
        buffer.push(numbered_rows(2))
    monkeypatch.undo()
    buffer.push(numbered_rows(2))
    assert buffer.count() == 2
