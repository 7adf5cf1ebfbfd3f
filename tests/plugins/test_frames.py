"""Stacked frames behave as the array that they stand for, and hold each frame once."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.data.tree import to_tensor
from dicore_plugins.frames import FrameWriter, StackedFrames, unpacked


def episode(steps: int, envs: int = 2) -> tuple[StackedFrames, Any]:
    """Returns stacks [T, N, 3, 2, 2], whose frames lie in several chunks, and their array."""
    rng = np.random.default_rng(0)
    writers = [FrameWriter((2, 2), np.uint8) for _ in range(envs)]
    for writer in writers:
        writer._count = 4
        writer._renew()
    chunks, numbers, frames = {}, [], {}
    for _ in range(steps + 2):
        row = []
        for writer in writers:
            at = writer.next_row()
            writer.chunk.frames[at] = rng.integers(0, 256, (2, 2))
            frames[number := writer.done()] = writer.chunk.frames[at]
            chunks[writer.chunk.first] = writer.chunk
            row.append(number)
        numbers.append(row)
    table = np.array(numbers)
    windows = np.stack([table[t : t + 3].T for t in range(steps)])
    array = np.array([[[frames[n] for n in stack] for stack in row] for row in windows.tolist()])
    return StackedFrames(windows, tuple(chunks.values())), array


MASK = np.array([True, False] * 5)
READS = {
    "rows": lambda x: x[2:7],
    "one row": lambda x: x[3],
    "one stack": lambda x: x[3, 1],
    "from the end": lambda x: x[-1, 0],
    "by a list": lambda x: x[[4, 0, 4]],
    "by pairs": lambda x: x[np.array([1, 2]), np.array([0, 1])],
    "by a mask": lambda x: x[MASK],
    "of one env": lambda x: x[:, 1:2],
    "an env": lambda x: x[:, 1],
    "the newest frames": lambda x: x[:, :, -1],
    "the last two frames": lambda x: x[:, :, 1:],
    "one frame": lambda x: x[1, 1, 2],
    "pixels": lambda x: x[..., 0],
    "one pixel": lambda x: x[0, 1, 2, 1, 0],
    "a new axis": lambda x: x[None],
    "nothing": lambda x: x[:0],
    "flat": lambda x: x.reshape(20, 3, 2, 2),
    "flat by -1": lambda x: x.reshape(-1, *x.shape[2:]),
    "swapped": lambda x: x.swapaxes(0, 1),
    "taken": lambda x: x.reshape(20, 3, 2, 2).take(np.array([[1, 5], [0, 19]]), axis=0),
    "copied": np.copy,
    "joined": lambda x: np.concatenate([x[4:], x[:2]]),
    "joined with an array": lambda x: np.concatenate([x, np.asarray(x)]),
    "scaled": lambda x: x / 255.0,
    "compared": lambda x: np.asarray(x == 3),
    "summed": lambda x: x.sum(),
    "a mean": lambda x: np.mean(x, axis=(0, 1)),
    "cast": lambda x: np.asarray(x, np.float32),
    "iterated": lambda x: np.stack([np.asarray(each) for each in x]),
    "rows of a batch": lambda x: np.stack([r["x"] for r in Batch({"x": x[0]}).rows()]),
    "a tensor": lambda x: to_tensor(x).numpy(),
    "pickled": lambda x: cloudpickle.loads(cloudpickle.dumps(x)),
    "packed": lambda x: unpacked({"a": [x.packed() if hasattr(x, "packed") else x]})["a"][0],
}


@pytest.mark.parametrize("what", READS)
def test_what_is_read_is_that_of_the_array(what: str) -> None:
    stacks, array = episode(10)
    found, wanted = np.asarray(READS[what](stacks)), READS[what](array)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


def test_selecting_copies_no_frame() -> None:
    stacks, _ = episode(10)
    for what in ("rows", "by a list", "of one env", "flat", "swapped", "taken", "copied", "joined"):
        found = READS[what](stacks)
        assert isinstance(found, StackedFrames), what
        assert set(found.chunks) <= set(stacks.chunks), what


def test_writing_rows_of_other_stacks_and_of_arrays() -> None:
    stacks, array = episode(10)
    out = np.empty_like(stacks, shape=(4, *stacks.shape[1:]))
    wanted = np.empty_like(array[:4])
    for target, source in ((out, stacks), (wanted, array)):
        target[:3] = source[5:8]
        target[3] = source[0]
        target[1, 1:] = np.full((1, 3, 2, 2), 7)
        target[np.array([0, 2]), np.array([1, 0])] = source[9]
    np.testing.assert_array_equal(np.asarray(out), wanted)
    with pytest.raises(ValueError, match="read-only"):
        out[1:2][0] = stacks[3]
    with pytest.raises(TypeError):
        out += 1
    with pytest.raises(ValueError, match="cannot reshape"):
        stacks.reshape(10, -1)
    with pytest.raises(IndexError):
        stacks[99]
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        torch.from_numpy(stacks)  # type: ignore[arg-type]


def test_a_column_that_is_written_on_and_on_keeps_few_chunks() -> None:
    writer = FrameWriter((2,), np.uint8)
    column = StackedFrames(np.full((8, 1), -1), (writer.chunk,))
    writer._count = 4
    for number in range(400):
        row = writer.next_row()
        writer.chunk.frames[row] = number % 256
        value = StackedFrames(np.array([[writer.done()]]), (writer.chunk,))
        column[number % 8 : number % 8 + 1] = value
    assert len(column.chunks) <= 16
    assert sorted(np.asarray(column)[:, 0, 0].tolist()) == list(range(392 % 256, 400 % 256))
    column.drop_unused(2)
    assert len(column.chunks) == 1


def test_packed_stacks_hold_each_frame_once() -> None:
    stacks, _ = episode(10)
    assert len(stacks.packed()["stacked_frames"]) == 2 * (10 + 2)
