"""The buffer contract: a plain good buffer passes, and each check catches a planted fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import ContractError, ReplayUnderflowError, SchemaError
from dicore.testing.buffer import BufferContract
from dicore.testing.suite import Suite, failures


class ListBuffer:
    """A buffer as plainly as it can be written: a list of rows."""

    def __init__(self, capacity: int) -> None:
        self.replay_buffer_size = capacity
        self.push_count = 0
        self.rows: list[dict[str, Any]] = []
        self.rng = np.random.default_rng(0)
        self.schema: Any = None

    def count(self) -> int:
        return len(self.rows)

    def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
        rows = [data] if isinstance(data, dict) else list(data)
        self.check(rows)
        self.store(rows)
        first = self.push_count
        self.push_count += len(rows)
        return range(first, self.push_count)

    def check(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            schema = {
                key: (np.asarray(value).dtype, np.shape(value))
                for key, value in row.items()
                if not isinstance(value, dict)
            }
            if self.schema not in (None, schema):
                raise SchemaError("other columns")
            self.schema = schema

    def store(self, rows: list[dict[str, Any]]) -> None:
        self.rows = [*self.rows, *(Batch.from_rows([row]).copy()[0] for row in rows)]
        self.rows = self.rows[-self.replay_buffer_size :]

    def draw(self, size: int, sample_range: slice | None, replace: bool) -> list[dict[str, Any]]:
        rows = self.rows if sample_range is None else self.rows[sample_range]
        if not rows or (size > len(rows) and not replace):
            raise ReplayUnderflowError("too few rows")
        return [rows[index] for index in self.rng.integers(0, len(rows), size)]

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        *,
        sample_range: slice | None = None,
        replace: bool = False,
        reuse: bool = False,
    ) -> Any:
        return Batch.from_rows(self.draw(batch_size, sample_range, replace))

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        *,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> Any:
        drawn = self.sample_batch(batch_size, sample_range=sample_range, replace=replace)
        return drawn.rows()

    def update(self, info: Any) -> None: ...

    def clear(self) -> None:
        self.rows = []

    def state_dict(self) -> dict[str, Any]:
        return {
            "rows": [{k: np.copy(v) for k, v in row.items()} for row in self.rows],
            "push_count": self.push_count,
            "rng": self.rng.bit_generator.state,
        }

    def load_state_dict(self, state: Any) -> None:
        self.rows, self.push_count = list(state["rows"]), state["push_count"]
        self.rng.bit_generator.state = state["rng"]

    def save_data(self, file: str | Path) -> None:
        state = self.state_dict()
        rows = [{key: value.tolist() for key, value in row.items()} for row in state["rows"]]
        dtypes = {key: str(value.dtype) for key, value in self.rows[0].items()}
        Path(file).write_text(json.dumps({**state, "rows": rows, "dtypes": dtypes}))

    def load_data(self, file: str | Path) -> None:
        state = json.loads(Path(file).read_text())
        dtypes = state.pop("dtypes")
        rows = [
            {key: np.asarray(value, dtypes[key]) for key, value in row.items()}
            for row in state["rows"]
        ]
        self.load_state_dict({**state, "rows": rows})


class NoClear(ListBuffer):
    clear = None  # type: ignore[assignment]
    update = property()  # type: ignore[assignment]


class WrongSize(ListBuffer):
    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.replay_buffer_size = capacity + 1


class ListsOnly(ListBuffer):
    def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
        if isinstance(data, dict):
            raise TypeError("lists only")
        return super().push(data)


class NewestGoFirst(ListBuffer):
    def store(self, rows: list[dict[str, Any]]) -> None:
        if len(self.rows) < self.replay_buffer_size:
            super().store(rows)


class KeepsTheBeginning(ListBuffer):
    def store(self, rows: list[dict[str, Any]]) -> None:
        super().store(rows[: self.replay_buffer_size])


class SlotIds(ListBuffer):
    def push(self, data: Any, cur_collector_envstep: int | None = None) -> range:
        ids = super().push(data)
        return range(ids.start % self.replay_buffer_size, ids.stop % self.replay_buffer_size)


class IdsBeginAgain(ListBuffer):
    def clear(self) -> None:
        super().clear()
        self.push_count = 0


class MixesRows(ListBuffer):
    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        drawn = super().sample_batch(*args, **kwargs)
        if "reward" in drawn:
            drawn.columns["reward"] = np.roll(drawn["reward"], 1)
        return drawn


class RowsAsBatch(ListBuffer):
    def sample(self, *args: Any, **kwargs: Any) -> Any:
        return super().sample_batch(*args, **kwargs)


class DoublesEverything(ListBuffer):
    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        return super().sample_batch(*args, **kwargs).map(lambda leaf: leaf.astype(np.float64))


class FlattensImages(ListBuffer):
    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        drawn = super().sample_batch(*args, **kwargs)
        if isinstance(drawn["obs"], dict):
            drawn.columns["obs"]["image"] = drawn["obs"]["image"].reshape(len(drawn), -1)
        return drawn


class RepeatsQuietly(ListBuffer):
    def draw(self, size: int, sample_range: slice | None, replace: bool) -> list[dict[str, Any]]:
        return super().draw(size, sample_range, replace=True)


class IgnoresTheRange(ListBuffer):
    def draw(self, size: int, sample_range: slice | None, replace: bool) -> list[dict[str, Any]]:
        return super().draw(size, None, replace)


class TakesAnyColumns(ListBuffer):
    def check(self, rows: list[dict[str, Any]]) -> None: ...


class StoresBeforeChecking(ListBuffer):
    def check(self, rows: list[dict[str, Any]]) -> None:
        self.push_count += 1
        super().check(rows)
        self.push_count -= 1


class KeepsTheCallersMemory(ListBuffer):
    def store(self, rows: list[dict[str, Any]]) -> None:
        self.rows = [*self.rows, *rows][-self.replay_buffer_size :]


class HandsOutTheStore(ListBuffer):
    def sample(self, batch_size: int, *args: Any, **kwargs: Any) -> Any:
        return self.draw(batch_size, kwargs.get("sample_range"), kwargs.get("replace", False))


class OneBatchForAll(ListBuffer):
    """Recycles memory without having been asked to; `slots` batches in turn."""

    slots = 2
    asked_only = False

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.kept: dict[tuple[Any, ...], list[Any]] = {}
        self.turn = 0

    def sample_batch(self, batch_size: int, *args: Any, **kwargs: Any) -> Any:
        drawn = super().sample_batch(batch_size, *args, **kwargs)
        if isinstance(drawn["obs"], dict) or (self.asked_only and not kwargs.get("reuse")):
            return drawn
        kept = self.kept.setdefault((batch_size,), [drawn.copy() for _ in range(self.slots)])
        self.turn += 1
        target = kept[self.turn % self.slots]
        for key, column in drawn.items():
            target[key][:] = column
        return target


class OneRecycledBatch(OneBatchForAll):
    slots = 1
    asked_only = True


class BatchesAtOnce(ListBuffer):
    def sample_batches(self, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
        for _ in range(count):
            yield self.sample_batch(batch_size)


class OneDrawForAll(BatchesAtOnce):
    def sample_batches(self, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
        return iter([self.sample_batch(batch_size)] * count)


class OneBatchLess(BatchesAtOnce):
    def sample_batches(self, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
        return super().sample_batches(count - 1, batch_size)


class ForgetsTheDraws(ListBuffer):
    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict({**state, "rng": np.random.default_rng(7).bit_generator.state})


class ForgetsTheCount(ListBuffer):
    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict({**state, "push_count": len(state["rows"])})


class SavesLess(ListBuffer):
    def load_data(self, file: str | Path) -> None:
        super().load_data(file)
        self.rows = self.rows[1:]


class ClearsHalf(ListBuffer):
    def clear(self) -> None:
        self.rows = self.rows[2:]


class UpdateFails(ListBuffer):
    def update(self, info: Any) -> None:
        raise NotImplementedError


FAULTS: list[tuple[str, type[ListBuffer]]] = [
    ("has_the_methods", NoClear),
    ("has_the_methods", WrongSize),
    ("push_accepts_sample_list_and_batch", ListsOnly),
    ("overwrites_the_oldest_samples", NewestGoFirst),
    ("push_beyond_the_capacity", KeepsTheBeginning),
    ("ids_increase", SlotIds),
    ("ids_increase", IdsBeginAgain),
    ("columns_stay_aligned", MixesRows),
    ("sample_and_sample_batch_agree", RowsAsBatch),
    ("sample_and_sample_batch_agree", DoublesEverything),
    ("nested_columns", FlattensImages),
    ("sampling_too_many_raises", RepeatsQuietly),
    ("sample_range_selects_samples", IgnoresTheRange),
    ("mismatched_columns_raise", TakesAnyColumns),
    ("mismatched_columns_raise", StoresBeforeChecking),
    ("push_copies_its_input", KeepsTheCallersMemory),
    ("sampled_dicts_are_copies", HandsOutTheStore),
    ("sampled_batches_are_copies", OneBatchForAll),
    ("reuse_keeps_the_previous_batch", OneRecycledBatch),
    ("sample_batches_matches_sample_batch", OneDrawForAll),
    ("sample_batches_matches_sample_batch", OneBatchLess),
    ("state_round_trip", ForgetsTheDraws),
    ("state_round_trip", ForgetsTheCount),
    ("file_round_trip", SavesLess),
    ("clear_removes_all_samples", ClearsHalf),
    ("update_accepts_priorities", UpdateFails),
]
PLANTED = {BufferContract: [check for check, _ in FAULTS]}


def suite_for(cls: type[ListBuffer]) -> type[Suite]:
    class Contract(BufferContract):
        def make(self, capacity: int) -> ListBuffer:
            return cls(capacity)

    return Contract


class TestGoodBuffer(BufferContract):
    """The contract as a stranger inherits it."""

    def make(self, capacity: int) -> ListBuffer:
        return ListBuffer(capacity)


class TestGoodBufferOfBatches(BufferContract):
    """The same with the optional draw of several batches."""

    def make(self, capacity: int) -> ListBuffer:
        return BatchesAtOnce(capacity)


@pytest.mark.parametrize(
    ("check", "faulty"), FAULTS, ids=lambda each: getattr(each, "__name__", each)
)
def test_each_check_catches_its_fault(check: str, faulty: type[ListBuffer]) -> None:
    found = failures(suite_for(faulty))
    assert check in found
    assert isinstance(found[check], ContractError | TypeError | NotImplementedError)
