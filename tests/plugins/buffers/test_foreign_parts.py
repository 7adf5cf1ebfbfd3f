"""A storage, an index and a sampler of a stranger, on public names, beside those that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.run.random import seed_everything
from dicore.testing.buffer import BufferContract, numbered_rows
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    FileStorage,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)


class HalfColumn:
    """A column in half precision, if its numbers are floats."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        kept = np.float16 if self.dtype == np.float32 else self.dtype
        self.kept = np.zeros(shape, kept)

    def __setitem__(self, rows: Any, values: Any) -> None:
        with np.errstate(over="ignore"):
            self.kept[rows] = values

    def __getitem__(self, rows: slice) -> Any:
        return self.kept[rows].astype(self.dtype)

    def take(self, rows: Any, axis: int, out: Any, mode: Any) -> Any:
        taken = self.kept.take(rows, axis, None, mode)
        if out is None:
            return taken.astype(self.dtype)
        out[...] = taken
        return out


class HalfStorage:
    """A storage: columns of half the size."""

    takes_tensors, turns = False, 2

    def __init__(self) -> None:
        self.columns: list[HalfColumn] = []

    def check(self, needed: int, capacity: int) -> None: ...

    def empty(self, shape: tuple[int, ...], dtype: Any) -> HalfColumn:
        self.columns.append(HalfColumn(shape, dtype))
        return self.columns[-1]

    def output(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def turn(self) -> None: ...

    def clear(self) -> None:
        self.columns.clear()

    def close(self, state: Any = None) -> None: ...

    def check_valid(self) -> tuple[bool, str]:
        finite = all(np.isfinite(each.kept).all() for each in self.columns)
        return finite, "" if finite else "a number is too large for half precision"


class Recent(NaiveReplayBuffer):
    """An index and a sampler: of the newest half, the newer of two that are drawn uniformly."""

    def count(self) -> int:
        return -(-super().count() // 2)

    def _chosen(self, sample_range: slice) -> Any:
        return super()._chosen(slice(None))[-self.count() :][sample_range]

    def _draw(self, number: int, batch_size: int, replace: bool) -> Any:
        chosen = self._chosen(slice(None))
        two = self._rng.integers(0, len(chosen), (2, number))
        return chosen[two.max(0)]

    def _facts(self) -> Iterator[tuple[object, str]]:
        yield from super()._facts()
        yield len(self._chosen(slice(None))) == self.count(), "the newest half is not half"


KINDS: dict[str, Any] = {
    "half and priorities": lambda cfg: AdvancedReplayBuffer(cfg, storage=HalfStorage()),
    "files and sequences": lambda cfg: SequenceReplayBuffer(cfg, storage=FileStorage()),
}


@pytest.mark.parametrize("check", BufferContract.checks())
@pytest.mark.parametrize("kind", KINDS)
def test_a_storage_fits_every_index_and_sampler(kind: str, check: str) -> None:
    class Suite(BufferContract):
        def make(self, capacity: int) -> Any:
            seed_everything(0)
            return KINDS[kind]({"replay_buffer_size": capacity})

    getattr(Suite(), f"test_{check}")()


def test_an_index_and_a_sampler() -> None:
    buffer = Recent({"replay_buffer_size": 8}, rng=np.random.default_rng(0), storage=HalfStorage())
    buffer.push(numbered_rows(11))
    assert buffer.count() == 4
    drawn = np.bincount(buffer.sample_batch(16_000, replace=True)["action"], minlength=11)
    np.testing.assert_allclose(drawn[7:] / 1000, [1, 3, 5, 7], atol=0.4)
    assert not drawn[:7].any()
    assert buffer.check_valid() == (True, "")
    twin = Recent({"replay_buffer_size": 8}, storage=HalfStorage())
    twin.load_state_dict(buffer.state_dict())
    assert np.array_equal(twin.sample_batch(4)["obs"], buffer.sample_batch(4)["obs"])
    buffer.push(Batch({**numbered_rows(1).columns, "reward": np.array([1e6], np.float32)}))
    assert buffer.check_valid() == (False, "a number is too large for half precision")
