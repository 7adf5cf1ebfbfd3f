"""The contract of buffers (`IBuffer`): stores samples, overwrites the oldest, draws batches.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np

from dicore.data import Batch
from dicore.errors import ReplayUnderflowError, SchemaError
from dicore.interfaces.buffer import IBuffer
from dicore.run.random import seed_everything
from dicore.testing.array_like import ArrayLike
from dicore.testing.columns import column_problems
from dicore.testing.compare import array, copied, difference
from dicore.testing.suite import Suite, expect, expect_members, folder, refuses, skip

__all__ = ["BufferContract", "numbered_rows"]


def numbered_rows(count: int, start: int = 0) -> Batch:
    """Returns N samples with the sample's number in every column."""
    number = np.arange(start, start + count)
    return Batch(
        {
            "obs": np.repeat(number[:, None], 4, 1).astype(np.float32),
            "action": number.astype(np.int64),
            "reward": number.astype(np.float32) / 2,
            "next_obs": np.repeat(number[:, None] + 1, 4, 1).astype(np.float32),
            "done": (number % 3 == 0).astype(np.float32),
        }
    )


class BufferContract(Suite):
    """Conformance suite of buffers: subclass it and override `make`."""

    def make(self, capacity: int) -> Any:
        """Returns an empty buffer (`IBuffer`) of this capacity; all sample identically."""
        seed_everything(0)
        return self.registered.build({"replay_buffer_size": capacity})

    def test_has_the_methods(self) -> None:
        """It satisfies `IBuffer` and reports its capacity."""
        buffer = self.make(7)
        expect_members(buffer, IBuffer)
        expect(
            buffer.replay_buffer_size == 7, f"capacity: expected 7, got {buffer.replay_buffer_size}"
        )
        expect(buffer.count() == 0, "a new buffer is not empty")

    def test_push_accepts_sample_list_and_batch(self) -> None:
        """Pushing samples one by one, as a list or as a Batch stores the same samples."""
        rows = numbered_rows(6)
        buffer = self.make(10)
        buffer.push(rows[0])
        buffer.push(rows.rows()[1:3], cur_collector_envstep=3)
        buffer.push(rows[3:6])
        expect(buffer.count() == 6, f"pushed 6 samples, count() is {buffer.count()}")
        expect(
            _numbers(buffer) == {0, 1, 2, 3, 4, 5},
            f"expected samples 0 to 5, got {_numbers(buffer)}",
        )

    def test_overwrites_the_oldest_samples(self) -> None:
        """A full buffer keeps the newest samples; `push_count` includes overwritten ones."""
        buffer = self.make(3)
        for number in range(5):
            buffer.push(numbered_rows(1, number))
        expect(buffer.count() == 3, f"count() of a full buffer: expected 3, got {buffer.count()}")
        expect(buffer.push_count == 5, f"push_count: expected 5, got {buffer.push_count}")
        expect(_numbers(buffer) == {2, 3, 4}, f"expected samples 2, 3, 4, got {_numbers(buffer)}")

    def test_push_beyond_the_capacity(self) -> None:
        """A push beyond the capacity keeps the newest samples."""
        buffer = self.make(3)
        buffer.push(numbered_rows(1))
        buffer.push(numbered_rows(7, 1))
        expect(_numbers(buffer) == {5, 6, 7}, f"expected samples 5, 6, 7, got {_numbers(buffer)}")
        buffer.push(numbered_rows(2, 8))
        expect(_numbers(buffer) == {7, 8, 9}, f"expected samples 7, 8, 9, got {_numbers(buffer)}")

    def test_ids_increase(self) -> None:
        """Ids increase over pushes, overwrites and `clear`, and are unique."""
        buffer = self.make(4)
        ids: list[int] = []
        for start in (0, 3, 6):
            ids += [int(each) for each in buffer.push(numbered_rows(3, start))]
        buffer.clear()
        ids += [int(each) for each in buffer.push(numbered_rows(2))]
        expect(len(ids) == 11, f"pushed 11 samples, got {len(ids)} ids")
        expect(all(a < b for a, b in pairwise(ids)), f"ids do not increase: {ids}")

    def test_columns_stay_aligned(self) -> None:
        """The columns of a returned sample belong to the same pushed sample."""
        buffer = self.make(16)
        for start in range(0, 40, 8):
            buffer.push(numbered_rows(8, start))
        drawn = buffer.sample_batch(64, replace=True)
        pushed = numbered_rows(40)[array(drawn["action"])]
        for key, column in pushed.items():
            wrong = difference(array(drawn[key]), array(column))
            expect(not wrong, f"column '{key}' of the returned samples: {wrong}")

    def test_added_columns_are_those_of_the_table(self) -> None:
        """What it adds to samples is in `COLUMNS`, with its dtype and its shape there."""
        buffer, pushed = self.make(8), numbered_rows(8)
        buffer.push(pushed)
        drawn = buffer.sample_batch(5)
        added = {key: column for key, column in drawn.items() if key not in pushed}
        problems = column_problems(added, (), axes=1)
        expect(not problems, "; ".join(problems))

    def test_sample_and_sample_batch_agree(self) -> None:
        """`sample` returns dicts, `sample_batch` columns of the same dtypes and shapes."""
        buffer = self.make(8)
        buffer.push(numbered_rows(8))
        rows, batch = buffer.sample(5), buffer.sample_batch(5)
        expect(len(rows) == 5 and len(batch) == 5, "expected 5 samples")
        expect(
            isinstance(rows, list) and isinstance(rows[0], dict),
            "sample must return a list of dicts",
        )
        expect(isinstance(batch, Batch), f"a batch is a Batch, got {type(batch).__name__}")
        for key, column in numbered_rows(5).items():
            expect(key in rows[0] and key in batch, f"column '{key}' was lost")
            expect(array(batch[key]).dtype == column.dtype, f"column '{key}' changed its dtype")
            expect(np.shape(rows[0][key]) == column.shape[1:], f"'{key}' of a row changed shape")

    def test_nested_columns(self) -> None:
        """Observations may be dicts of columns."""
        buffer = self.make(4)
        number = np.arange(6)
        obs = {"image": np.tile(number[:, None, None], (1, 2, 2)).astype(np.uint8), "n": number}
        buffer.push(Batch({"obs": obs, "action": number}))
        drawn = buffer.sample_batch(4)
        expect(array(drawn["obs"]["image"]).shape == (4, 2, 2), "a nested column changed its shape")
        expect(array(drawn["obs"]["image"]).dtype == np.uint8, "a nested column changed its dtype")
        whole = np.array_equal(array(drawn["obs"]["image"])[:, 1, 1], array(drawn["action"]))
        expect(whole, "nested columns belong to other rows")

    def test_array_likes(self) -> None:
        """A column that NumPy takes as an array is stored as one, or refused (SchemaError)."""
        buffer, number = self.make(4), np.arange(6)
        obs = np.repeat(number[:, None], 3, 1).astype(np.uint8)
        try:
            for rows in (slice(0, 4), slice(4, 6)):
                buffer.push(Batch({"obs": ArrayLike(obs[rows]), "action": number[rows]}))
        except SchemaError:
            expect(not buffer.count(), "a refused push changed the buffer")
            return
        drawn = buffer.sample_batch(20, replace=True)
        wrong = difference(array(drawn["obs"]), obs[array(drawn["action"])])
        expect(not wrong, f"a column of array-likes: {wrong}")

    def test_sequences_and_marks(self) -> None:
        """Samples may be sequences, with ends, env ids and whatever else a policy stores."""
        buffer = self.make(4)
        number = np.arange(6)
        sequence = number[:, None] + np.arange(3) / 4
        columns = {
            "obs": np.repeat(sequence[..., None], 2, 2).astype(np.float32),
            "hidden": np.repeat(number[:, None], 5, 1).astype(np.float32),
            "end": np.tile(np.array([False, True, False]), (6, 1)),
            "env_id": number % 2,
            "action": number,
            "reward": sequence.astype(np.float32),
        }
        buffer.push(Batch(dict(columns)))
        drawn = buffer.sample_batch(20, replace=True)
        chosen = array(drawn["action"])
        expect(set(chosen.tolist()) == {2, 3, 4, 5}, f"expected samples 2 to 5, got {set(chosen)}")
        for key, column in columns.items():
            wrong = difference(array(drawn[key]), column[chosen])
            expect(not wrong, f"column '{key}' of sequences: {wrong}")

    def test_sampling_too_many_raises(self) -> None:
        """Sampling more than is stored raises ReplayUnderflowError without `replace`."""
        buffer = self.make(8)
        with refuses(ReplayUnderflowError, "sampling an empty buffer"):
            buffer.sample(1)
        buffer.push(numbered_rows(3))
        for sample in (buffer.sample, buffer.sample_batch):
            with refuses(ReplayUnderflowError, "asking for 4 of 3 rows"):
                sample(4)
        expect(
            len(buffer.sample_batch(10, replace=True)) == 10,
            "replace=True must allow 10 of 3 samples",
        )
        expect(len(buffer.sample_batch(3)) == 3, "sampling 3 of 3 samples must not fail")

    def test_sample_range_selects_samples(self) -> None:
        """`sample_range` restricts sampling to a slice of the stored samples, oldest first."""
        buffer = self.make(6)
        buffer.push(numbered_rows(9))
        newest = buffer.sample_batch(40, sample_range=slice(-2, None), replace=True)
        found = set(array(newest["action"]).tolist())
        expect(found == {7, 8}, f"expected the newest samples 7 and 8, got {sorted(found)}")
        with refuses(ReplayUnderflowError, "asking for 3 of the newest 2 rows"):
            buffer.sample_batch(3, sample_range=slice(-2, None))
        rows = buffer.sample(40, 0, slice(2), True)
        found = {int(row["action"]) for row in rows}
        expect(found == {3, 4}, f"expected the oldest samples 3 and 4, got {sorted(found)}")

    def test_mismatched_columns_raise(self) -> None:
        """Samples with other keys, shapes or dtypes raise SchemaError; the buffer is unchanged."""
        buffer = self.make(8)
        buffer.push(numbered_rows(4))
        good = numbered_rows(1)
        bad: dict[str, dict[str, Any]] = {
            "a missing column": {k: v for k, v in good.items() if k != "reward"},
            "an unknown column": {**good.columns, "extra": np.zeros(1, np.float32)},
            "another shape": {**good.columns, "obs": np.zeros((1, 5), np.float32)},
            "another dtype": {**good.columns, "action": np.array([0.5], np.float32)},
        }
        for what, columns in bad.items():
            with refuses(SchemaError, f"pushing rows with {what}"):
                buffer.push(Batch(columns))
        expect(buffer.count() == 4 == buffer.push_count, "a refused push changed the counts")
        expect(_numbers(buffer) == {0, 1, 2, 3}, "a refused push changed the stored samples")

    def test_push_copies_its_input(self) -> None:
        """Changing an array after pushing it does not change what is stored."""
        buffer = self.make(4)
        rows = numbered_rows(4)
        buffer.push(rows)
        for column in rows.columns.values():
            column[:] = 99
        drawn = buffer.sample_batch(50, replace=True)
        stale = [key for key in rows.columns if array(drawn[key]).max() > 4]
        expect(not stale, f"changed after the push, and in the store too: {', '.join(stale)}")

    def test_sampled_dicts_are_copies(self) -> None:
        """Returned samples are copies: changing one changes neither the buffer nor another one."""
        buffer = self.make(2)
        buffer.push(numbered_rows(2))
        rows = buffer.sample(16, replace=True)
        before = [copied(row) for row in rows]
        rows[0]["obs"][...] = 99
        for row, old in zip(rows[1:], before[1:], strict=True):
            expect(not difference(row["obs"], old["obs"]), "two rows of a draw share memory")
        expect(_numbers(buffer) == {0, 1}, "changing a returned sample changed the stored one")
        expect(array(buffer.sample_batch(2)["obs"]).max() < 99, "…and its observations")

    def test_sampled_batches_are_copies(self) -> None:
        """Without `reuse`, later pushes and samplings do not change a batch."""
        buffer = self.make(4)
        buffer.push(numbered_rows(4))
        kept = [buffer.sample_batch(4) for _ in range(4)]
        before = [copied(batch.columns) for batch in kept]
        for start in (4, 8):
            buffer.push(numbered_rows(4, start))
            buffer.sample_batch(4, reuse=True)
        for batch, old in zip(kept, before, strict=True):
            wrong = difference(batch.columns, old)
            expect(not wrong, f"a later call changed a batch: {wrong}")

    def test_reuse_keeps_the_previous_batch(self) -> None:
        """With `reuse`, a batch stays valid until the second next call of `sample_batch`."""
        buffer = self.make(64)
        buffer.push(numbered_rows(64))
        for _ in range(4):
            batch = buffer.sample_batch(8, reuse=True)
            before = copied(batch.columns)
            buffer.sample_batch(8, reuse=True)
            wrong = difference(batch.columns, before)
            expect(not wrong, f"the next draw overwrote a recycled batch: {wrong}")

    def test_reuse_is_by_thread(self) -> None:
        """With `reuse`, draws of another thread do not overwrite a batch."""
        buffer = self.make(64)
        buffer.push(numbered_rows(64))
        batch = buffer.sample_batch(8, reuse=True)
        before = copied(batch.columns)

        def draw() -> None:
            for _ in range(4):
                buffer.sample_batch(8, reuse=True)

        other = threading.Thread(target=draw)
        other.start()
        other.join()
        wrong = difference(batch.columns, before)
        expect(not wrong, f"draws of another thread overwrote a recycled batch: {wrong}")

    def test_sample_batches_matches_sample_batch(self) -> None:
        """`sample_batches`, if present, returns the same as repeated calls of `sample_batch`."""
        buffer, twin = self.make(8), self.make(8)
        if not hasattr(buffer, "sample_batches"):
            return
        for each in (buffer, twin):
            each.push(numbered_rows(8))
        seen = 0
        for batch in buffer.sample_batches(5, 3):
            seen += 1
            wrong = difference(batch.columns, twin.sample_batch(3, reuse=True).columns)
            expect(not wrong, f"batch {seen} of sample_batches differs from sample_batch: {wrong}")
        expect(seen == 5, f"expected 5 batches, got {seen}")
        _expect_twins(buffer, twin)
        with refuses(ReplayUnderflowError, "asking for batches of 9 of 8 rows"):
            list(buffer.sample_batches(1, 9))

    def test_state_round_trip(self) -> None:
        """A new buffer with the loaded state has the same samples and samples identically."""
        buffer, twin = self.make(5), self.make(5)
        for start in range(0, 8, 2):
            buffer.push(numbered_rows(2, start))
        buffer.sample_batch(3)
        twin.push(numbered_rows(1, 90))
        twin.load_state_dict(buffer.state_dict())
        _expect_twins(buffer, twin)

    def test_empty_state_round_trip(self) -> None:
        """The state of a buffer without samples can be saved and loaded."""
        twin = self.make(5)
        twin.load_state_dict(self.make(5).state_dict())
        expect(twin.count() == 0, f"an empty buffer became one of {twin.count()} samples")
        twin.push(numbered_rows(2))
        expect(twin.count() == 2, f"2 samples pushed, count() is {twin.count()}")

    def test_file_round_trip(self) -> None:
        """`save_data` and `load_data` restore the same state."""
        buffer, twin = self.make(5), self.make(5)
        buffer.push(numbered_rows(7))
        buffer.sample_batch(2)
        with folder() as place:
            buffer.save_data(place / "buffer")
            twin.load_data(place / "buffer")
        _expect_twins(buffer, twin)

    def test_is_valid_after_each_operation(self) -> None:
        """`check_valid`, if present, returns (True, "") whatever was done before."""
        buffer, twin = self.make(5), self.make(5)
        if not hasattr(buffer, "check_valid"):
            skip("it has no check_valid")
        for number, count in enumerate((1, 3, 2, 8, 5)):
            buffer.push(numbered_rows(count))
            _expect_valid(buffer, f"after a push of {count}")
            batch = buffer.sample_batch(2, number, replace=True)
            ids = {key: batch[key] for key in ("replay_unique_id",) if key in batch}
            buffer.update({**ids, "priority": np.arange(2.0)})
            _expect_valid(buffer, "after an update")
            twin.load_state_dict(buffer.state_dict())
            _expect_valid(twin, "after its state was loaded")
        buffer.clear()
        _expect_valid(buffer, "after clear")
        buffer.push(numbered_rows(2))
        _expect_valid(buffer, "after clear and a push")

    def test_clear_removes_all_samples(self) -> None:
        """After `clear` the buffer is empty and can be filled again."""
        buffer = self.make(4)
        buffer.push(numbered_rows(4))
        buffer.clear()
        expect(buffer.count() == 0, f"count() after clear: expected 0, got {buffer.count()}")
        with refuses(ReplayUnderflowError, "sampling a cleared buffer"):
            buffer.sample_batch(1)
        buffer.push(numbered_rows(2, 7))
        expect(_numbers(buffer) == {7, 8}, f"expected samples 7, 8, got {_numbers(buffer)}")

    def test_update_accepts_priorities(self) -> None:
        """`update` accepts priorities of sampled data, even if it ignores them."""
        buffer = self.make(4)
        buffer.push(numbered_rows(4))
        batch = buffer.sample_batch(4)
        ids = {key: batch[key] for key in ("replay_unique_id", "replay_buffer_idx") if key in batch}
        buffer.update({**ids, "priority": np.ones(4, np.float32)})
        expect(buffer.count() == 4, "update changed the number of samples")


def _expect_valid(buffer: Any, when: str) -> None:
    valid, why = buffer.check_valid()
    expect(valid, f"{when}: {why}")


def _numbers(buffer: Any) -> set[int]:
    """Returns the numbers of the stored samples, by drawing many (misses one with p < 1e-15)."""
    draws = buffer.sample_batch(50 * buffer.count(), replace=True)
    return set(array(draws["action"]).tolist())


def _expect_twins(buffer: Any, twin: Any) -> None:
    same = (twin.count(), twin.push_count) == (buffer.count(), buffer.push_count)
    expect(same, "the loaded state has other counts")
    wrong = difference(twin.state_dict(), buffer.state_dict())
    expect(not wrong, f"the state differs after loading: {wrong}")
    for _ in range(3):
        for each in (buffer, twin):
            each.push(numbered_rows(1, 50))
        one = buffer.sample_batch(4)
        other = twin.sample_batch(4)
        wrong = difference(array(one["action"]), array(other["action"]))
        expect(not wrong, "after loading the state, it samples differently")
