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

from .faults import Fault, caught, names_of


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
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Any:
        return Batch.from_rows(self.draw(batch_size, sample_range, replace))

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
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


class BatchesAtOnce(ListBuffer):
    def sample_batches(self, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
        for _ in range(count):
            yield self.sample_batch(batch_size)


def one_too_many(self: Any, capacity: int) -> None:
    ListBuffer.__init__(self, capacity)
    self.replay_buffer_size = capacity + 1


def lists_only(self: Any, data: Any, cur_collector_envstep: int | None = None) -> range:
    if isinstance(data, dict):
        raise TypeError("lists only")
    return ListBuffer.push(self, data)


def newest_go_first(self: Any, rows: list[dict[str, Any]]) -> None:
    if len(self.rows) < self.replay_buffer_size:
        ListBuffer.store(self, rows)


def keeps_the_beginning(self: Any, rows: list[dict[str, Any]]) -> None:
    ListBuffer.store(self, rows[: self.replay_buffer_size])


def slot_ids(self: Any, data: Any, cur_collector_envstep: int | None = None) -> range:
    ids = ListBuffer.push(self, data)
    return range(ids.start % self.replay_buffer_size, ids.stop % self.replay_buffer_size)


def ids_begin_again(self: Any) -> None:
    ListBuffer.clear(self)
    self.push_count = 0


def mixes_rows(self: Any, *args: Any, **kwargs: Any) -> Any:
    drawn = ListBuffer.sample_batch(self, *args, **kwargs)
    if "reward" in drawn:
        drawn.columns["reward"] = np.roll(drawn["reward"], 1)
    return drawn


def doubles_everything(self: Any, *args: Any, **kwargs: Any) -> Any:
    drawn = ListBuffer.sample_batch(self, *args, **kwargs)
    return drawn.map(lambda leaf: leaf.astype(np.float64))


def flattens_images(self: Any, *args: Any, **kwargs: Any) -> Any:
    drawn = ListBuffer.sample_batch(self, *args, **kwargs)
    if isinstance(drawn["obs"], dict):
        drawn.columns["obs"]["image"] = drawn["obs"]["image"].reshape(len(drawn), -1)
    return drawn


def repeats_quietly(self: Any, size: int, sample_range: slice | None, replace: bool) -> Any:
    return ListBuffer.draw(self, size, sample_range, replace=True)


def ignores_the_range(self: Any, size: int, sample_range: slice | None, replace: bool) -> Any:
    return ListBuffer.draw(self, size, None, replace)


def stores_before_checking(self: Any, rows: list[dict[str, Any]]) -> None:
    self.push_count += 1
    ListBuffer.check(self, rows)
    self.push_count -= 1


def arrays_only(self: Any, data: Any, *args: Any, **kwargs: Any) -> range:
    if not all(isinstance(column, np.ndarray) for column in data.columns.values()):
        raise TypeError("no array")
    return ListBuffer.push(self, data, *args, **kwargs)


def keeps_the_callers_memory(self: Any, rows: list[dict[str, Any]]) -> None:
    self.rows = [*self.rows, *rows][-self.replay_buffer_size :]


def hands_out_the_store(self: Any, batch_size: int, *args: Any, **kwargs: Any) -> Any:
    return self.draw(batch_size, kwargs.get("sample_range"), kwargs.get("replace", False))


def recycling(slots: int, *, asked_only: bool) -> Any:
    """Recycles the memory of batches, `slots` in turn; `asked_only`: with `reuse` alone."""

    def sample_batch(self: Any, batch_size: int, *args: Any, **kwargs: Any) -> Any:
        drawn = ListBuffer.sample_batch(self, batch_size, *args, **kwargs)
        if isinstance(drawn["obs"], dict) or (asked_only and not kwargs.get("reuse")):
            return drawn
        kept = self.__dict__.setdefault("kept", {})
        batches = kept.setdefault(batch_size, [drawn.copy() for _ in range(slots)])
        batches.append(target := batches.pop(0))
        for key, column in drawn.items():
            target[key][:] = column
        return target

    return sample_batch


def one_axis(self: Any, *args: Any, **kwargs: Any) -> Batch:
    drawn = ListBuffer.sample_batch(self, *args, **kwargs)
    return Batch({key: each[:, 0] if key == "end" else each for key, each in drawn.items()})


def one_draw_for_all(self: Any, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
    return iter([self.sample_batch(batch_size)] * count)


def one_batch_less(self: Any, count: int, batch_size: int, cur_learner_iter: int = 0) -> Any:
    return BatchesAtOnce.sample_batches(self, count - 1, batch_size)


def forgets_the_draws(self: Any, state: Any) -> None:
    fresh = np.random.default_rng(7).bit_generator.state
    ListBuffer.load_state_dict(self, {**state, "rng": fresh})


def forgets_the_count(self: Any, state: Any) -> None:
    ListBuffer.load_state_dict(self, {**state, "push_count": len(state["rows"])})


def loads_less(self: Any, file: str | Path) -> None:
    ListBuffer.load_data(self, file)
    self.rows = self.rows[1:]


def clears_half(self: Any) -> None:
    self.rows = self.rows[2:]


def update_fails(self: Any, info: Any) -> None:
    raise NotImplementedError


def needs_samples(self: Any) -> dict[str, Any]:
    if not self.rows:
        raise TypeError("no columns")
    return ListBuffer.state_dict(self)


def adds_its_own(self: Any, batch_size: int, *args: Any, **kwargs: Any) -> Any:
    batch = ListBuffer.sample_batch(self, batch_size, *args, **kwargs)
    return Batch({**batch.columns, "slot": np.arange(len(batch))})


def is_invalid_when_full(self: ListBuffer) -> tuple[bool, str]:
    return self.count() < 5, "it is full"


FAULTS: list[Fault] = [
    ("has_the_methods", {"clear": None, "update": property()}),
    ("has_the_methods", {"__init__": one_too_many}),
    ("push_accepts_sample_list_and_batch", {"push": lists_only}),
    ("overwrites_the_oldest_samples", {"store": newest_go_first}),
    ("push_beyond_the_capacity", {"store": keeps_the_beginning}),
    ("ids_increase", {"push": slot_ids}),
    ("ids_increase", {"clear": ids_begin_again}),
    ("columns_stay_aligned", {"sample_batch": mixes_rows}),
    ("added_columns_are_those_of_the_table", {"sample_batch": adds_its_own}),
    ("sample_and_sample_batch_agree", {"sample": ListBuffer.sample_batch}),
    ("sample_and_sample_batch_agree", {"sample_batch": doubles_everything}),
    ("nested_columns", {"sample_batch": flattens_images}),
    ("array_likes", {"push": arrays_only}),
    ("sequences_and_marks", {"sample_batch": one_axis}),
    ("sampling_too_many_raises", {"draw": repeats_quietly}),
    ("sample_range_selects_samples", {"draw": ignores_the_range}),
    ("mismatched_columns_raise", {"check": lambda self, rows: None}),
    ("mismatched_columns_raise", {"check": stores_before_checking}),
    ("push_copies_its_input", {"store": keeps_the_callers_memory}),
    ("sampled_dicts_are_copies", {"sample": hands_out_the_store}),
    ("sampled_batches_are_copies", {"sample_batch": recycling(2, asked_only=False)}),
    ("reuse_keeps_the_previous_batch", {"sample_batch": recycling(1, asked_only=True)}),
    ("reuse_is_by_thread", {"sample_batch": recycling(2, asked_only=True)}),
    ("sample_batches_matches_sample_batch", {"sample_batches": one_draw_for_all}),
    ("sample_batches_matches_sample_batch", {"sample_batches": one_batch_less}),
    ("state_round_trip", {"load_state_dict": forgets_the_draws}),
    ("state_round_trip", {"load_state_dict": forgets_the_count}),
    ("empty_state_round_trip", {"state_dict": needs_samples}),
    ("file_round_trip", {"load_data": loads_less}),
    ("is_valid_after_each_operation", {"check_valid": is_invalid_when_full}),
    ("clear_removes_all_samples", {"clear": clears_half}),
    ("update_accepts_priorities", {"update": update_fails}),
]
PLANTED = {BufferContract: [check for check, _ in FAULTS]}


class TestGoodBuffer(BufferContract):
    """The contract as a stranger inherits it."""

    def make(self, capacity: int) -> ListBuffer:
        return ListBuffer(capacity)


class TestGoodBufferOfBatches(BufferContract):
    """The same with the optional draw of several batches."""

    def make(self, capacity: int) -> ListBuffer:
        return BatchesAtOnce(capacity)


@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
def test_each_check_catches_its_fault(fault: Fault) -> None:
    found = caught(BufferContract, ListBuffer, fault)
    assert isinstance(found, ContractError | TypeError | NotImplementedError)
