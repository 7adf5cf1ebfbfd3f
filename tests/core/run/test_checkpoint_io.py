"""One checkpoint on disk: damage is found, and nothing in it can run or lead elsewhere."""

from __future__ import annotations

import json
import os
import pickle  # noqa: TID251 - what must be refused
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
)
from dicore.run import checkpoint_io as format_
from dicore.run.checkpoint_io import read_manifest, read_state, write_state
from dicore.run.checkpoint_store import CheckpointStore


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
