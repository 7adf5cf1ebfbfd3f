"""The file buffer: which files there are, crashes, and what it never deletes (G28 to G30)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dicore.data import Batch
from dicore.errors import (
    ClosedError,
    ReplayCapacityError,
    ReplayError,
    ReplayPriorityError,
    ReplayUnderflowError,
    RunLockedError,
    SchemaError,
    UsageError,
)
from dicore.interfaces.buffer import Refused
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import FileBuffer, FileReplayBuffer, write_body
from dicore_plugins.buffers.file.records import VERSION


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bodies"


@pytest.fixture
def make(folder: Path) -> Iterator[Any]:
    made: list[FileReplayBuffer] = []

    def build(capacity: int = 8, **options: Any) -> FileReplayBuffer:
        cfg = {"replay_buffer_size": capacity, "folder": str(folder), **options}
        made.append(FileReplayBuffer(cfg, rng=np.random.default_rng(0)))
        return made[-1]

    yield build
    for each in made:
        each.close()


def files(folder: Path) -> list[str]:
    """Returns the names of all files but that of the lock."""
    return sorted(each.name for each in folder.iterdir() if each.name != ".lock")


def abandon(buffer: FileReplayBuffer) -> None:
    """Ends a buffer as a crash does: its files stay."""
    buffer._finalizer.detach()
    if buffer._folder._open:
        buffer._folder._open.close()
    assert buffer._folder._lock is not None
    buffer._folder._lock.release()


# ---- which files there are


@pytest.mark.parametrize("background", [False, True])
def test_there_is_a_file_for_each_sample(make: Any, folder: Path, background: bool) -> None:
    """G29: files go when samples are overwritten, used up, stale or cleared; and at close."""
    buffer = make(4, max_use=2, max_staleness=10, enable_track_used_data=background)
    threads = threading.active_count()

    def agrees() -> None:
        stop = time.monotonic() + 60
        while len(files(folder)) != buffer.count() and time.monotonic() < stop:
            time.sleep(0.001)
        assert len(files(folder)) == buffer.count()

    for start in (0, 3):
        rows = numbered_rows(3, start)
        buffer.push(Batch({**rows.columns, "collect_iter": np.full(3, start)}))
        agrees()
    assert buffer.removed == {"full": 2, "use": 0, "stale": 0}
    buffer.sample_batch(3, 10)
    agrees()
    assert buffer.removed["stale"] == 1
    while buffer.count() >= 2:
        buffer.sample(2, 0)
        agrees()
    assert sum(buffer.removed.values()) == 6 - buffer.count()
    buffer.clear()
    agrees()
    buffer.push(numbered_rows(3))
    buffer.close()
    assert not folder.exists()
    assert threading.active_count() == threads - background
    buffer.close()
    for call in (lambda: buffer.push(numbered_rows(1)), lambda: buffer.sample(1), buffer.clear):
        with pytest.raises(ClosedError):
            call()


def test_a_push_beyond_the_capacity(make: Any, folder: Path) -> None:
    buffer = make(3)
    assert buffer.push(numbered_rows(9)) == range(9)
    assert len(files(folder)) == 3
    assert set(buffer.sample_batch(50, replace=True)["action"].tolist()) == {6, 7, 8}


def test_several_samples_per_file(make: Any, folder: Path) -> None:
    buffer = make(5, samples_per_file=3)
    for start in range(20):
        buffer.push(numbered_rows(1, start))
        assert len(files(folder)) <= 3
    drawn = buffer.sample_batch(60, replace=True)
    assert set(drawn["action"].tolist()) == set(range(15, 20))
    buffer.clear()
    assert len(files(folder)) <= 1
    buffer.push(numbered_rows(1, 20))
    buffer.push(numbered_rows(4, 21))
    assert set(buffer.sample_batch(60, replace=True)["action"].tolist()) == set(range(20, 25))


def test_a_temporary_folder_is_removed() -> None:
    buffer = FileBuffer({"replay_buffer_size": 2})
    buffer.push(numbered_rows(2))
    place = buffer.folder
    assert place.is_dir()
    del buffer
    assert not place.exists()


def test_values_of_all_kinds_come_back(make: Any) -> None:
    buffer = make()
    obs = {"image": np.arange(8, dtype=np.uint8).reshape(2, 2, 2), "t": torch.ones(2, 3)}
    buffer.push([{"obs": {key: each[row] for key, each in obs.items()}, "n": np.float64(row)}
                 for row in range(2)])  # fmt: skip
    batch = buffer.sample_batch(20, replace=True)
    rows = batch["n"].astype(int)
    np.testing.assert_array_equal(batch["obs"]["image"], obs["image"][rows])
    assert batch["n"].dtype == np.float32


# ---- meta data


def test_meta_data_and_bodies(make: Any, folder: Path) -> None:
    """G28: pushing meta data, drawing and loading gives the body."""
    buffer = make(4, max_use=1)
    body = {"obs": np.arange(3, dtype=np.float32), "info": {"n": np.int64(5)}}
    meta = write_body(folder, body, priority=2.5, collect_iter=7)
    assert buffer.push(meta) == range(1)
    (drawn,) = buffer.sample_meta(1)
    assert (drawn["priority"], drawn["collect_iter"], drawn["use"]) == (2.5, 7, 1)
    assert buffer.count() == 0  # used up; the file stays until the sample is released
    assert Path(drawn["file_path"]).is_file()
    loaded = buffer.load(drawn)
    np.testing.assert_array_equal(loaded["obs"], body["obs"])
    assert loaded["info"]["n"] == 5
    buffer.release([drawn])
    assert files(folder) == []
    for call in (lambda: buffer.load(drawn), lambda: buffer.release([drawn])):
        with pytest.raises(UsageError, match="not released"):
            call()


def test_a_sample_that_was_handed_out_is_not_deleted_before_it_is_read(make: Any) -> None:
    buffer = make(2)
    buffer.push(numbered_rows(2))
    metas = buffer.sample_meta(2, replace=True)
    buffer.push(numbered_rows(2, 2))
    assert {int(buffer.load(meta)["action"]) for meta in metas} <= {0, 1}
    buffer.release(metas)
    assert len(files(buffer.folder)) == 2


def test_what_is_released_too_often_stays_as_it_was(make: Any, folder: Path) -> None:
    buffer = make(1)
    buffer.push(numbered_rows(1))
    (meta,) = buffer.sample_meta(1)
    with pytest.raises(UsageError, match="more often than drawn"):
        buffer.release([meta, meta])
    buffer.push(numbered_rows(1, 1))
    assert len(files(folder)) == 2
    buffer.release([meta])
    assert len(files(folder)) == 1


def test_invalid_priorities_are_refused_whole(make: Any) -> None:
    buffer = make()
    buffer.push(numbered_rows(2))
    with pytest.raises(ReplayPriorityError, match="nan at index 1"):
        buffer.update({"replay_unique_id": [0, 1], "priority": [1.0, np.nan]})
    assert all("priority" not in each for each in buffer.sample_meta(8, replace=True))


def test_a_body_is_pushed_once(make: Any, folder: Path) -> None:
    buffer = make()
    buffer.push([write_body(folder, {"x": np.float32(each)}) for each in (0, 1)])
    metas = buffer.sample_meta(1)
    with pytest.raises(UsageError, match="a body that the buffer has already"):
        buffer.push(metas)
    meta = write_body(folder, {"x": np.float32(2)})
    with pytest.raises(UsageError, match="the same file_path"):
        buffer.push([meta, meta])
    assert buffer.count() == 2
    assert set(buffer.sample_batch(30, replace=True)["x"].tolist()) == {0, 1}


def test_only_bodies_of_the_folder_can_be_pushed(make: Any, folder: Path, tmp_path: Path) -> None:
    buffer = make()
    secret = tmp_path / "secret.records"
    secret.write_bytes(b"DICOREB\x01 something else")
    inside = folder / "notes.txt"
    inside.write_text("not a body")
    link = folder / "link.records"
    link.symlink_to(secret)
    torn = Path(write_body(folder, {"x": np.zeros(3)})["file_path"])
    torn.write_bytes(torn.read_bytes()[:-1])
    for path in (secret, inside, link, folder / ".." / "secret.records", torn, folder / "none"):
        good = write_body(folder, {"x": np.zeros(3)})
        with pytest.raises(UsageError):
            buffer.push([good, {"file_path": str(path)}])
        Path(good["file_path"]).unlink()
    with pytest.raises(UsageError, match="some have not"):
        buffer.push([{"file_path": "a"}, {"x": 1}])
    assert buffer.count() == 0
    buffer.push(numbered_rows(1))
    with pytest.raises(SchemaError):
        buffer.push(write_body(folder, {"x": np.zeros(3)}))
    write_body(folder, {"x": np.zeros(3)})
    buffer.close()
    assert files(folder) == ["link.records", "notes.txt"]
    assert secret.exists()
    assert inside.exists()
    assert link.is_symlink()


# ---- crashes


def test_what_a_crash_cut_off_is_dropped(make: Any, folder: Path) -> None:
    """H10: at every offset of the last record; nothing else is lost."""
    buffer = make(samples_per_file=3)
    buffer.push(Batch({"x": np.arange(3, dtype=np.int16)}))
    (name,) = files(folder)
    whole = (folder / name).read_bytes()
    last = buffer._folder.found
    places = [item.place for item in buffer._items]
    assert last == []
    abandon(buffer)
    (folder / "mine.txt").write_text("not of a buffer")
    for size in range(places[-1].offset, len(whole)):
        (folder / name).write_bytes(whole[:size])
        again = make(existing="load", samples_per_file=3)
        assert sorted(again.sample_batch(50, replace=True)["x"].tolist())[::49] == [0, 1]
        assert (again.count(), again.push_count) == (2, 2)
        assert again.dropped == (size > places[-1].offset)
        again.push(Batch({"x": np.array([7], np.int16)}))
        assert again.count() == 3
        again.close()
        again.close()
        *kept, mine = files(folder)
        assert mine == "mine.txt"
        assert kept, "what was only to be loaded stays"
        for each in kept:
            (folder / each).unlink()


def test_a_flipped_bit_is_noticed(make: Any, folder: Path) -> None:
    buffer = make()
    buffer.push(numbered_rows(1))
    (name,) = files(folder)
    raw = bytearray((folder / name).read_bytes())
    raw[-1] ^= 1
    (folder / name).write_bytes(raw)
    with pytest.raises(ReplayError, match="changed or cut off"):
        buffer.sample(1)
    (folder / name).unlink()
    with pytest.raises(ReplayError, match="cannot be read"):
        buffer.sample(1)


def test_files_of_an_earlier_buffer(make: Any, folder: Path) -> None:
    buffer = make()
    buffer.push(numbered_rows(6))
    with pytest.raises(RunLockedError):
        make(existing="load")
    abandon(buffer)
    with pytest.raises(UsageError, match="6 files of an earlier buffer"):
        make()
    again = make(4, existing="load")
    assert (again.count(), again.push_count) == (4, 6)
    assert len(files(folder)) == 4
    with pytest.raises(SchemaError):
        again.push({"x": 1})
    abandon(again)
    assert make(existing="delete").count() == 0
    assert files(folder) == []


def test_bodies_of_other_processes_are_found_again_in_order(make: Any, folder: Path) -> None:
    buffer = make()
    buffer.push(Batch({"x": np.arange(3, dtype=np.float32)}))
    buffer.push([write_body(folder, {"x": np.float32(each)}) for each in (3, 4)])
    buffer.push(Batch({"x": np.array([5], np.float32)}))
    abandon(buffer)
    again = make(4, existing="load")
    assert (again.count(), again.push_count) == (4, 6)
    batch = again.sample_batch(60, replace=True)
    np.testing.assert_array_equal(batch["x"], batch["replay_unique_id"])
    assert set(batch["x"].tolist()) == {2, 3, 4, 5}


def test_a_lock_of_something_else_is_left_alone(make: Any, folder: Path) -> None:
    folder.mkdir()
    (folder / ".lock").write_text("of a package manager")
    with pytest.raises(UsageError, match="not the lock of a buffer"):
        make()
    assert (folder / ".lock").exists()


def test_files_of_a_newer_version(make: Any, folder: Path) -> None:
    buffer = make()
    buffer.push(numbered_rows(1))
    (name,) = files(folder)
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[:7] + bytes([VERSION + 1]) + raw[8:])
    abandon(buffer)
    with pytest.raises(ReplayError, match=f"version {VERSION + 1}"):
        make(existing="load")
    assert files(folder) == [name]


def test_a_full_disk_stores_nothing_by_halves(
    make: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = make()
    buffer.push(numbered_rows(2))
    opened, real = [0], Path.open

    def full(self: Path, *args: Any, **kwargs: Any) -> Any:
        if args and "x" in args[0]:
            opened[0] += 1
            if opened[0] > 2:
                raise OSError(28, "No space left on device")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ReplayCapacityError, match="No space left"):
        buffer.push(numbered_rows(4, 2))
    monkeypatch.undo()
    assert (buffer.count(), buffer.push_count, len(files(folder))) == (2, 2, 2)
    assert buffer.push(numbered_rows(1, 2)) == range(2, 3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be"):
        FileReplayBuffer({"folder": str(tmp_path / "a" / "b")})


def test_bodies_that_cannot_be_stored(make: Any, folder: Path) -> None:
    buffer = make()
    with pytest.raises(SchemaError, match="Python objects"):
        buffer.push({"x": np.array([object()])})
    with pytest.raises(ReplayUnderflowError):
        buffer.sample(1)
    stamps = np.array([0.0, np.nan])
    with pytest.raises(SchemaError, match="collect_iter: expected whole numbers"):
        buffer.push(Batch({"x": np.arange(2), "collect_iter": stamps}))
    assert (buffer.count(), files(folder)) == (0, [])
    body = write_body(folder, {"x": 1}, collect_iter="late")
    with pytest.raises(SchemaError, match="collect_iter: expected whole numbers"):
        buffer.push(body)
    assert (buffer.count(), files(folder)) == (0, [Path(body["file_path"]).name])


# ---- beside a list, and threads


class AgainstAList(RuleBasedStateMachine):
    """Pushes, draws, limits and states beside a plain list of samples."""

    CAPACITY, MAX_USE = 5, 3

    def __init__(self) -> None:
        super().__init__()
        self.buffer = self.made()
        self.uses: dict[int, int] = {}
        self.pushed = 0

    def made(self) -> FileReplayBuffer:
        cfg = {"replay_buffer_size": self.CAPACITY, "max_use": self.MAX_USE, "samples_per_file": 2}
        return FileReplayBuffer(cfg, rng=np.random.default_rng(0))

    @rule(count=st.integers(0, 7))
    def push(self, count: int) -> None:
        self.buffer.push(numbered_rows(count, self.pushed).rows())
        self.uses |= dict.fromkeys(range(self.pushed, self.pushed + count), 0)
        self.pushed += count
        kept = [*self.uses][-self.CAPACITY :]
        self.uses = {number: self.uses[number] for number in kept}

    @rule(count=st.integers(1, 3))
    def draw(self, count: int) -> None:
        if len(self.uses) < count:
            assert isinstance(self.buffer.sample_batch(count), Refused)
            return
        batch = self.buffer.sample_batch(count)
        numbers = batch["action"].tolist()
        assert batch["replay_unique_id"].tolist() == numbers
        for number in numbers:
            self.uses[number] += 1
        assert batch["use"].tolist() == [self.uses[number] for number in numbers]
        self.uses = {n: use for n, use in self.uses.items() if use < self.MAX_USE}

    @rule()
    def resume(self) -> None:
        twin = self.made()
        twin.load_state_dict(self.buffer.state_dict())
        self.buffer.close()
        self.buffer = twin

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.uses.clear()

    @invariant()
    def agrees(self) -> None:
        assert [item.number for item in self.buffer._items] == [*self.uses]
        assert self.buffer.push_count == self.pushed
        live = {item.place.file for item in self.buffer._items}
        found = {int(name[5:17]) for name in files(self.buffer.folder)}
        assert live <= found
        assert len(found - live) <= 1  # the one that is being written

    def teardown(self) -> None:
        self.buffer.close()


AgainstAList.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def test_one_thread_pushes_and_two_sample(make: Any) -> None:
    """G8, G29: no draw finds a file that is gone."""
    buffer, stop = make(16, enable_track_used_data=True), time.monotonic() + 0.4
    buffer.push(numbered_rows(16))

    def push() -> None:
        start = 16
        while time.monotonic() < stop:
            buffer.push(numbered_rows(4, start))
            start += 4

    def sample() -> None:
        while time.monotonic() < stop:
            batch = buffer.sample_batch(4)
            assert (batch["obs"] == batch["action"][:, None]).all()

    with ThreadPoolExecutor(3) as threads:
        for each in [threads.submit(push), threads.submit(sample), threads.submit(sample)]:
            each.result()
