"""The checkpoint store: which is the latest, what is kept, what is refused."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.errors import (
    CheckpointCorruptError,
    CheckpointUnsafeError,
    CheckpointWriteError,
)
from dicore.run.atomic import armed
from dicore.run.checkpoint_io import read_manifest, verify
from dicore.run.checkpoint_store import CheckpointStore


def state(value: float = 1.0) -> dict[str, Any]:
    return {"w": np.full(5, value), "n": 3, "inf": float("inf"), "t": (1, "é")}


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "ckpt", metadata={"config_sha256": "abc"})


# ---- names, latest, keep


def test_names_of_the_documents_are_accepted(store: CheckpointStore) -> None:
    assert store.save("iteration_100.pth.tar", state()).name == "iteration_100"
    assert store.save("ckpt_best.pth.tar", state(2)).name == "best"
    assert store.load("iteration_100.pth.tar")["n"] == 3
    assert store.load(store.folder / "best.pth.tar")["w"][0] == 2
    assert store.load(str(store.folder / "best"))["w"][0] == 2


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/b", "", ".", "..", ".hidden", "a\0b", "x" * 101]
)
def test_names_that_lead_out_are_refused(store: CheckpointStore, name: str) -> None:
    with pytest.raises(CheckpointUnsafeError):
        store.save(name, state())
    assert not store.folder.exists()


def test_latest_goes_by_updates_not_by_time_or_spelling(store: CheckpointStore) -> None:
    """R-D12: written out of order, within the same second."""
    assert store.latest() is None
    store.save("iteration_1000", state(), train_iter=1000)
    store.save("iteration_999", state(), train_iter=999)
    store.save("best", state(), train_iter=500)
    assert store.names() == ["best", "iteration_999", "iteration_1000"]
    assert store.latest() == "iteration_1000"
    store.save("final", state(), train_iter=1000)
    assert store.latest() == "final"
    assert store.best_or_latest() == "best"
    assert store.best_or_latest() == "best"


def test_the_manifest_says_who_wrote_what(store: CheckpointStore) -> None:
    store.save("best", state(), train_iter=7, env_step=70)
    manifest = read_manifest(store.folder / "best")
    assert manifest.metadata == {"config_sha256": "abc", "train_iter": 7, "env_step": 70}
    assert manifest.versions["numpy"] == np.__version__
    assert manifest.versions["dicore"]


def test_the_newest_are_kept_and_the_named_ones_stay(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    store.save("best", state())
    store.save("final", state())
    for n in (1, 2, 10, 9):
        store.save(f"iteration_{n}", state(), train_iter=n)
    assert sorted(store.names()) == ["best", "final", "iteration_10", "iteration_9"]


def test_the_last_verified_one_is_never_deleted(tmp_path: Path) -> None:
    """R-D06: keep 1, and the newest comes out broken."""
    store = CheckpointStore(tmp_path, keep=1)
    store.save("iteration_1", state(1))

    def spoil(point: str) -> None:
        if point == "remove displaced" and (tmp_path / "iteration_2").exists():
            time.sleep(0.05)  # clocks of file systems tick slowly
            file = tmp_path / "iteration_2" / "tensors.safetensors"
            file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    with armed(spoil):
        store.save("iteration_2", state(2))
    assert store.latest() == "iteration_1"
    store.save("iteration_3", state(3))
    assert store.names() == ["iteration_3"]


def test_saving_again_replaces(store: CheckpointStore) -> None:
    for value in (1.0, 2.0):
        store.save("best", state(value))
    assert store.load("best")["w"][0] == 2.0
    assert [path.name for path in store.folder.iterdir()] == ["best"]


# ---- damage


def test_latest_falls_back_past_a_truncated_one(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    """R-D04: one warning names both; an explicit name is an error."""
    store.save("iteration_1", state(), train_iter=1)
    path = store.save("iteration_2", state(), train_iter=2) / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with caplog.at_level(logging.WARNING):
        assert store.latest() == "iteration_1"
    assert len(caplog.records) == 1
    assert "iteration_2" in caplog.text
    assert "iteration_1 " in caplog.text
    with pytest.raises(CheckpointCorruptError, match="iteration_2"):
        store.load("iteration_2")


# ---- a disk that refuses


def test_a_folder_that_is_a_file_is_a_write_error(tmp_path: Path) -> None:
    """R-D03: what stands in the way is named."""
    (tmp_path / "ckpt").write_text("")
    with pytest.raises(CheckpointWriteError, match="ckpt"):
        CheckpointStore(tmp_path / "ckpt").save("best", state())


def test_a_full_disk_leaves_the_old_checkpoint_and_no_rubbish(store: CheckpointStore) -> None:
    """R-D02: ENOSPC at every point of the writing."""
    store.save("best", state(1))
    points: list[str] = []
    with armed(points.append):
        store.save("best", state(1))
    assert len(points) >= 8
    for n in range(len(points)):
        seen = 0

        def fail(point: str, n: int = n) -> None:
            nonlocal seen
            seen += 1
            if seen == n + 1:
                raise OSError(28, "No space left on device")

        before, value = store.load("best")["w"][0], 2.0 + n
        with armed(fail), pytest.raises(CheckpointWriteError, match="No space left"):
            store.save("best", state(value))
        assert store.load("best")["w"][0] in (before, value), points[n]
        assert [path.name for path in store.folder.iterdir()] == ["best"], points[n]


def test_whoever_leaves_at_once_leaves_no_half_checkpoint(store: CheckpointStore) -> None:
    """A second Ctrl-C in the middle of a save."""
    store.save("best", state(1))
    points: list[str] = []
    with armed(points.append):
        store.save("best", state(1))
    for n in range(len(points)):
        seen = 0

        def leave(point: str, n: int = n) -> None:
            nonlocal seen
            seen += 1
            if seen == n + 1:
                raise KeyboardInterrupt

        with armed(leave), pytest.raises(KeyboardInterrupt):
            store.save("best", state(2))
        assert store.load("best")["w"][0] in (1.0, 2.0)
        assert [path.name for path in store.folder.iterdir()] == ["best"], points[n]


def test_a_reader_meets_a_whole_checkpoint_while_it_is_replaced(store: CheckpointStore) -> None:
    """R-D10: the evaluator of a run that is still going."""
    store.save("best", state(0))
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            store.save("best", state(written + 1))
            written += 1

    writer = threading.Thread(target=write)
    writer.start()
    reader = CheckpointStore(store.folder)
    try:
        seen, found = [], []
        while (len(seen) < 150 or written < 5) and writer.is_alive():
            seen.append(float(reader.load("best")["w"][0]))
            found.append(reader.best_or_latest())
    finally:
        stop.set()
        writer.join()
    assert written >= 5
    assert seen == sorted(seen)
    assert set(found) == {"best"}


@pytest.mark.parametrize("choose", ["latest", "best_or_latest", "resumable"])
def test_a_reader_finds_one_while_the_writer_drops_others(
    choose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-D10: what is there when one looks may be gone when one reads."""
    writer = CheckpointStore(tmp_path / "ckpt", keep=1)
    writer.save("iteration_1", state(), train_iter=1, complete=True)
    newest = iter([2, 3])

    def meanwhile(path: Path) -> Any:
        for number in newest:
            writer.save(f"iteration_{number}", state(), train_iter=number, complete=True)
            break
        return verify(path)

    monkeypatch.setattr("dicore.run.checkpoint_store.verify", meanwhile)
    reader = CheckpointStore(writer.folder)
    assert getattr(reader, choose)() == "iteration_3"
    assert [path.name for path in writer.folder.iterdir()] == ["iteration_3"]
    assert not caplog.records


def test_a_writer_that_dies_while_dropping_leaves_nothing_half(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.keep = 1
    store.save("iteration_1", state(), train_iter=1, complete=True)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda path, **_: (path / "manifest.json").unlink(True))
        store.save("iteration_2", state(), train_iter=2, complete=True)
    again = CheckpointStore(store.folder)
    assert again.names() == ["iteration_2"]
    assert again.resumable() == "iteration_2"
    assert not caplog.records
    again.save("iteration_3", state(), train_iter=3)
    assert all(not path.name.startswith(".") for path in store.folder.iterdir())
