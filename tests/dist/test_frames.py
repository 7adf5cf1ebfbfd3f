"""Messages as bytes: exact round trips, and refusal of everything that is not a message."""

from __future__ import annotations

import contextlib
import json
import os
import pickle  # noqa: TID251 - to see that it is refused
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import UsageError
from dicore_dist.coordinator.journal import Journal
from dicore_dist.links.exchange import FileStore
from dicore_plugins.messages import PREFIX, FrameError, load_file, pack, save_file, unpack

MESSAGE = {
    "text": "ä", "none": None, "number": 1.5, "inf": float("inf"), "list": [1, (2, "x")],
    "dict": {3: {"y": True}}, "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 4)), "bool": np.array([True, False, True]), "scalar": np.float32(0.5),
    "wide": np.arange(3, dtype=np.int64), "tensor": torch.arange(4.0).to(torch.bfloat16),
}  # fmt: skip


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray | torch.Tensor):
        return (
            type(left) is type(right) and left.dtype == right.dtype and bool((left == right).all())
        )
    return bool(type(left) is type(right) and left == right)


def test_round_trip_is_exact_and_aligned() -> None:
    back = unpack(pack(MESSAGE))
    assert same(back, MESSAGE)
    assert back["wide"].flags.aligned


def test_batches_stay_batches() -> None:
    batch = Batch({"obs": np.ones((3, 4), np.float32), "info": {"t": np.arange(3)}})
    back = unpack(pack({"data": [batch]}))["data"][0]
    assert isinstance(back, Batch)
    assert len(back) == 3
    assert same(back.columns, batch.columns)


@pytest.mark.parametrize("bad", [object(), {"x": b"bytes"}, {"__batch__": 1}, [lambda: 0]])
def test_what_is_not_data_is_refused_with_its_place(bad: Any) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        pack(bad)


def test_every_flipped_or_missing_byte_gives_an_error_or_data() -> None:
    """Never another exception, and never a hang."""
    good = pack({"a": np.arange(3), "b": ["x", 1.0]})
    for at in range(len(good)):
        for changed in (good[:at], good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]):
            try:
                unpack(changed)
            except FrameError:
                continue


def test_a_pickle_is_not_read() -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path("/nowhere/bomb").write_text, ("boom",))

    with pytest.raises(FrameError):
        unpack(pickle.dumps(Bomb()))


def test_a_header_that_lies_about_its_blocks_is_refused() -> None:
    for blocks in ([["a", "F64", 10**9]], [["a", "F64", -1]], [["a", "F64", "8"]], "x", [[1]]):
        header = json.dumps([{"$": "array", "at": "a", "dtype": "<f8", "shape": [1]}, blocks])
        data = PREFIX.pack(b"dcF1", len(header), 8) + header.encode() + bytes(8)
        with pytest.raises(FrameError):
            unpack(data)


def test_a_file_is_complete_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.frame"
    save_file(file, MESSAGE)
    assert same(load_file(file), MESSAGE)
    assert [each.name for each in tmp_path.iterdir()] == ["policy.frame"]
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:100] + b"?" + whole[101:], b""):
        file.write_bytes(damaged)
        with pytest.raises(FrameError, match=r"policy\.frame"):
            load_file(file)


def test_files_are_for_their_user_and_for_who_has_the_token(tmp_path: Path) -> None:
    """RELIABILITY E08."""
    store = FileStore(tmp_path / "run" / "data", "a token")
    store.save("a.frame", MESSAGE)
    assert same(store.load("a.frame"), MESSAGE)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.folder / "a.frame").stat().st_mode) == 0o600
    (store.folder / "b.frame").write_bytes((store.folder / "a.frame").read_bytes())
    with pytest.raises(FrameError, match="changed, or written with another token"):
        store.load("b.frame")
    save_file(store.folder / "a.frame", MESSAGE)
    with pytest.raises(FrameError, match="written with another token"):
        store.load("a.frame")


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("of another user")
    part = tmp_path / f".a.frame.{os.getpid()}.part"
    part.symlink_to(target)
    FileStore(tmp_path).save("a.frame", MESSAGE)
    assert target.read_text() == "of another user"
    (tmp_path / "journal.jsonl").symlink_to(target)
    with pytest.raises(UsageError, match="cannot be written"):
        Journal(tmp_path / "journal.jsonl")
    assert target.read_text() == "of another user"


def test_the_journal_is_for_its_user(tmp_path: Path) -> None:
    with contextlib.closing(Journal(tmp_path / "policy" / "journal.jsonl")):
        for name, mode in (("policy", 0o700), ("policy/journal.jsonl", 0o600)):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_files_that_are_no_files_are_refused_at_once(tmp_path: Path) -> None:
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        path = tmp_path / f"{make.__name__}.frame"
        make(path)
        with pytest.raises(FrameError, match="cannot be read"):
            load_file(path)
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "none.frame")


def test_a_journal_names_no_other_files_than_those_of_its_job(tmp_path: Path) -> None:
    for job_id in ("*", "../victim", ""):
        (tmp_path / "journal.jsonl").write_text(f'{{"event": "job", "job_id": "{job_id}"}}\n')
        journal = Journal(tmp_path / "journal.jsonl")
        journal.close()
        assert journal.job_id.isalnum()
