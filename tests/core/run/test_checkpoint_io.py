"""Checkpoints on disk: damage is found, nothing in them runs, the store keeps the right ones."""

from __future__ import annotations

import json
import logging
import os
import pickle  # noqa: TID251 - what must be refused
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointUnsafeError,
    CheckpointVersionError,
    CheckpointWriteError,
)
from dicore.run import checkpoint_io as format_
from dicore.run import checkpoint_store
from dicore.run.checkpoint_io import read_manifest, read_state, verify, write_state
from dicore.run.checkpoint_store import CheckpointStore
from dicore.testing.failpoints import armed


def state(value: float = 1.0) -> dict[str, Any]:
    return {"w": np.full(5, value), "n": 3, "inf": float("inf"), "t": (1, "é")}


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "ckpt", metadata={"config_sha256": "abc"})


def reseal(folder: Path, change: Any) -> None:
    """Rewrites a manifest with a right checksum, as an attacker would."""
    body = json.loads((folder / "manifest.json").read_bytes())
    body.pop("sha256")
    change(body)
    text = json.dumps(body)[:-1].encode()
    (folder / "manifest.json").write_bytes(
        text + b',"sha256":"' + sha256(text).hexdigest().encode() + b'"}'
    )


# ---- damage


@pytest.mark.parametrize("file", ["manifest.json", "tensors.safetensors"])
def test_every_truncation_is_found(tmp_path: Path, file: str) -> None:
    write_state(tmp_path / "s", state())
    path = tmp_path / "s" / file
    whole = path.read_bytes()
    cuts = [0, *(2**k for k in range(20) if 2**k < len(whole)), len(whole) - 1]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        with pytest.raises(CheckpointCorruptError):
            read_state(tmp_path / "s")
    path.unlink()
    with pytest.raises(CheckpointCorruptError, match="missing"):
        read_state(tmp_path / "s")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_anywhere_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """R-D05."""
    folder = tmp_path_factory.mktemp("flip") / "s"
    write_state(folder, state())
    file = folder / data.draw(st.sampled_from(["manifest.json", "tensors.safetensors"]))
    raw = bytearray(file.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    file.write_bytes(raw)
    with pytest.raises(CheckpointError):
        read_state(folder)


def test_every_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    """All of them: the checksum covers key names, digits and itself."""
    write_state(tmp_path / "s", {"n": 1})
    file = tmp_path / "s" / "manifest.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        raw = bytearray(whole)
        raw[place] ^= 1 << place % 8
        file.write_bytes(raw)
        with pytest.raises(CheckpointError):
            read_manifest(tmp_path / "s")


# ---- hostile content


class Touch:
    """A pickle that leaves a mark when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_a_pickle_is_refused_and_never_opened(store: CheckpointStore, tmp_path: Path) -> None:
    """R-E01: as a file, inside a folder, and by the documents' suffix."""
    torch = pytest.importorskip("torch")
    mark = tmp_path / "mark"
    for name in ("bad", "bad.pth.tar"):
        (tmp_path / name).write_bytes(pickle.dumps(Touch(mark)))
    torch.save(Touch(mark), tmp_path / "torch.pth.tar")
    for path in ("bad", "bad.pth.tar", "torch.pth.tar"):
        with pytest.raises(CheckpointUnsafeError, match="not unpickle"):
            store.load(tmp_path / path)
    folder = store.save("best", state())
    (folder / "tensors.safetensors").write_bytes(pickle.dumps(Touch(mark)))
    with pytest.raises(CheckpointCorruptError):
        store.load("best")
    (folder / "manifest.json").write_bytes(pickle.dumps(Touch(mark)))
    with pytest.raises(CheckpointCorruptError):
        store.load("best")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "other.safetensors", ""])
def test_a_manifest_cannot_name_other_files(tmp_path: Path, name: str) -> None:
    write_state(tmp_path / "s", state())
    reseal(tmp_path / "s", lambda body: body.update(files={name: {"size": 1, "sha256": "0"}}))
    with pytest.raises(CheckpointUnsafeError, match="files besides"):
        read_state(tmp_path / "s")


@pytest.mark.parametrize("file", ["manifest.json", "tensors.safetensors"])
def test_links_inside_a_checkpoint_are_refused(tmp_path: Path, file: str) -> None:
    write_state(tmp_path / "s", state())
    (tmp_path / "s" / file).rename(tmp_path / file)
    (tmp_path / "s" / file).symlink_to(tmp_path / file)
    with pytest.raises(CheckpointUnsafeError, match="link"):
        read_state(tmp_path / "s")


def test_a_link_to_a_checkpoint_is_not_one(store: CheckpointStore, tmp_path: Path) -> None:
    write_state(tmp_path / "elsewhere", state())
    store.save("iteration_1", state())
    (store.folder / "iteration_2").symlink_to(tmp_path / "elsewhere")
    assert store.latest() == "iteration_1"
    with pytest.raises(CheckpointUnsafeError, match="link"):
        store.load("iteration_2")


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    write_state(tmp_path / "s", state())
    (tmp_path / "s" / "tensors.safetensors").unlink()
    os.mkfifo(tmp_path / "s" / "tensors.safetensors")
    with pytest.raises(CheckpointUnsafeError, match="not a regular file"):
        read_state(tmp_path / "s")


def test_absurd_sizes_are_refused_before_memory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E04: a sparse file of a terabyte, a huge header, a huge manifest."""
    folder = tmp_path / "s"
    write_state(folder, state())
    tensors = folder / "tensors.safetensors"
    whole = tensors.read_bytes()
    os.truncate(tensors, 1 << 40)
    reseal(folder, lambda body: body["files"]["tensors.safetensors"].update(size=1 << 40))
    with pytest.raises(CheckpointUnsafeError, match="MiB"):
        read_state(folder)

    raw = (1 << 40).to_bytes(8, "little") + whole[8:]
    tensors.write_bytes(raw)
    facts = {"size": len(raw), "sha256": sha256(raw).hexdigest()}
    reseal(folder, lambda body: body["files"]["tensors.safetensors"].update(facts))
    with pytest.raises(CheckpointUnsafeError, match="header"):
        read_state(folder)

    os.truncate(folder / "manifest.json", 1 << 36)
    with pytest.raises(CheckpointUnsafeError, match="manifest"):
        read_state(folder)


def test_a_header_that_overlaps_or_overruns_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    for offsets in ([0, 80], [4, 44], [0, 2**60]):
        write_state(folder, {"w": np.zeros(5)})
        header = {"w": {"dtype": "F64", "shape": [5], "data_offsets": offsets}}
        text = json.dumps(header).encode()
        raw = len(text).to_bytes(8, "little") + text + bytes(40)
        (folder / "tensors.safetensors").write_bytes(raw)
        facts = {"size": len(raw), "sha256": sha256(raw).hexdigest()}
        reseal(folder, lambda body, facts=facts: body["files"]["tensors.safetensors"].update(facts))
        with pytest.raises(CheckpointCorruptError):
            read_state(folder)


def test_strings_that_name_modules_stay_strings(tmp_path: Path) -> None:
    """R-E03."""
    write_state(tmp_path / "s", {"cls": "os.system", "_target_": "os.system"})
    assert read_state(tmp_path / "s") == {"cls": "os.system", "_target_": "os.system"}


def test_a_manifest_nested_without_end_is_an_error_not_a_crash(tmp_path: Path) -> None:
    write_state(tmp_path / "s", state())
    (tmp_path / "s" / "manifest.json").write_bytes(b"[" * 200_000)
    with pytest.raises(CheckpointCorruptError):
        read_state(tmp_path / "s")


def test_a_newer_format_says_what_to_install(tmp_path: Path) -> None:
    """R-D09; also where the newer format has another checksum."""
    write_state(tmp_path / "s", state())
    newer = {"format_version": format_.FORMAT_VERSION + 1, "versions": {"dicore": "9.1"}}
    reseal(tmp_path / "s", lambda body: body.update(newer))
    with pytest.raises(CheckpointVersionError, match=r"install dicore 9\.1"):
        read_state(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_text(json.dumps({"format": "dicore-state", **newer}))
    with pytest.raises(CheckpointVersionError):
        read_state(tmp_path / "s")


def test_something_else_is_no_checkpoint(store: CheckpointStore, tmp_path: Path) -> None:
    store.save("best", state())
    with pytest.raises(CheckpointError, match="existing: best"):
        store.load("iteration_5")
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        read_state(tmp_path / "nowhere")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError):
        read_state(tmp_path / "foreign")


# ---- the store: names, latest, keep


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


def test_a_copy_is_written_while_its_source_changes(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread writes the moment of saving; none is late meanwhile, and the next one waits."""
    monkeypatch.setattr(checkpoint_store, "BESIDE_BYTES", 1)
    monkeypatch.setattr(format_, "_CHUNK_BYTES", 1000)  # arrays cross the chunks
    go_on, main = threading.Event(), threading.current_thread()
    content = {"w": np.arange(700.0), "b": np.arange(9, dtype=np.int8), "none": np.empty(0)}
    expected = {name: array.copy() for name, array in content.items()}

    def hold(point: str) -> None:
        assert threading.current_thread() is not main or names == ["best"]
        if threading.current_thread() is not main:
            assert go_on.wait(60)

    names: list[str] = []
    with armed(hold):
        store.save("iteration_1", content, complete=True, beside=True)
        content["w"][:] = content["b"][:] = -1
        assert not store.is_late
        names.append("best")
        store.save("best", state())  # of another name and small: it does not wait
        assert (store.folder / "best").is_dir()
        assert not (store.folder / "iteration_1").exists()
        threading.Timer(0.05, go_on.set).start()
        store.save("iteration_2", content, train_iter=2, complete=True, beside=True)
        assert (store.folder / "iteration_1").is_dir()
        assert sorted(store.names()) == ["best", "iteration_1", "iteration_2"]
    assert store.is_late, "the thread is ready: settle() is due"
    store.settle(for_good=True)
    assert not store.is_late
    for name, array in store.load("iteration_1").items():
        np.testing.assert_array_equal(array, expected[name])
    assert set(store.load("iteration_2")["w"]) == {-1}


def test_without_memory_for_a_copy_the_training_writes(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_store, "BESIDE_BYTES", 1)
    monkeypatch.setattr(format_, "available_bytes", lambda: 1000)
    with armed(lambda point: main.append(threading.current_thread() is threading.main_thread())):
        main: list[bool] = []
        store.save("iteration_1", {"w": np.zeros(200)}, beside=True)
    assert main
    assert all(main)


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


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), CheckpointWriteError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["full disk", "second Ctrl-C"],
)
def test_a_save_that_is_broken_off_leaves_the_old_checkpoint_and_no_rubbish(
    store: CheckpointStore, error: BaseException, raised: type[BaseException]
) -> None:
    """R-D02: at every point of the writing."""
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
                raise error

        before, value = store.load("best")["w"][0], 2.0 + n
        with armed(fail), pytest.raises(raised) as caught:
            store.save("best", state(value))
        assert str(error.args[-1] if error.args else "") in str(caught.value)
        assert store.load("best")["w"][0] in (before, value), points[n]
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
        return read(path)

    name = "read_state" if choose == "resumable" else "verify"
    read = getattr(checkpoint_store, name)
    monkeypatch.setattr(checkpoint_store, name, meanwhile)
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


# ---- sealed lies, and formats of earlier versions


def _set(path: str, value: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            body = body[name]
        body[last] = value

    return change


def _tensor(**lies: Any) -> dict[str, Any]:
    return {"$": "array", "at": "w", "dtype": "<f8", "shape": [5], **lies}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("versions", None),
        ("format_version", 1e400),
        ("facts", []),
        ("facts/train_iter", 1e400),
        ("files/tensors.safetensors/size", 1e400),
        ("files/tensors.safetensors", 5),
        ("state/w", _tensor(shape=[1e400])),
        ("state/w", _tensor(shape=[2**62, 2**62, 0])),
        ("state/w", _tensor(dtype=[])),
        ("state/w", _tensor(dtype="O")),
        ("state/w", {"$": []}),
        ("state/t", {"$": "tuple", "v": 5}),
        ("state/n", {"$": "dict", "v": [[[1], 1]]}),
        ("state/n", {"$": "float", "v": {}}),
    ],
)
def test_a_sealed_lie_is_corrupt_and_the_one_before_is_used(
    path: str, value: Any, store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    """R-E04, D09: of whatever kind the error is."""
    for number in (1, 2):
        store.save(f"iteration_{number}", state(number), train_iter=number, complete=True)
    reseal(store.folder / "iteration_2", _set(path, value))
    with pytest.raises((CheckpointCorruptError, CheckpointUnsafeError)):
        store.load("iteration_2")
    name, content = store.newest_state()
    assert (name, content["w"][0]) == ("iteration_1", 1.0)
    assert "checkpoint iteration_1 is used instead of iteration_2" in caplog.text


def test_weights_from_elsewhere_are_no_training_to_resume(store: CheckpointStore) -> None:
    store.save("exception", state(1), train_iter=1)
    assert store.resumable() is None
    store.save("imported", state(1), train_iter=0)
    with pytest.raises(CheckpointError, match="no training can be resumed from imported") as told:
        store.resumable()
    assert told.value.hint.endswith("dicore train RUN/config.json --from RUN")
    store.save("iteration_1", state(1), train_iter=1, complete=True)
    assert store.resumable() == "iteration_1"


GOLDEN = Path(__file__).with_name("golden")


def golden_state() -> dict[str, Any]:
    """What `golden/format_N` holds, one folder for each format version that was ever released."""
    return {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "mask": np.array([True, False]),
        "scalar": np.int64(2**40),
        "plain": {"n": 3, "inf": float("inf"), "none": None, "text": "é", "t": (1, [2.5])},
        "by number": {1: "one", (2, 3): "pair"},
    }


def test_the_first_checkpoints_by_the_clock_come_soon(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(checkpoint_store.time, "monotonic", lambda: now[0])
    store.start_clock()
    saved = []
    while now[0] < 300:
        now[0] += 0.5
        if store.is_late:
            saved.append(now[0])
            store.start_clock(0.1)
    assert saved == [5, 15, 35, 75, 135, 195, 255]
    store.start_clock(2.0)
    now[0] += 99
    assert not store.is_late, "saving takes two seconds"


@pytest.mark.parametrize("version", range(1, format_.FORMAT_VERSION + 1))
def test_every_format_that_was_ever_written_is_read(version: int) -> None:
    """R-D09: whoever raises FORMAT_VERSION adds `golden/format_N` and migrates the older ones."""
    folder = GOLDEN / f"format_{version}"
    assert read_manifest(folder).metadata == {"train_iter": 7, "env_step": 70}
    verify(folder)
    found = read_state(folder)
    expected = golden_state()
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(np.asarray(found["w"]), expected["w"])
    np.testing.assert_array_equal(np.asarray(found["mask"]), expected["mask"])
    assert type(found["scalar"]) is np.int64
    for name in ("scalar", "plain", "by number"):
        assert found[name] == expected[name]
