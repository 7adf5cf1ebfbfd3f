"""The deque buffer beside a plain list, and its middleware one by one (G31 to G34)."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dicore.data import Batch
from dicore.errors import (
    ConfigError,
    ReplayCapacityError,
    ReplayPriorityError,
    ReplayUnderflowError,
    SchemaError,
    UsageError,
)
from dicore.testing.buffer import numbered_rows
from dicore_compat.deque import (
    Buffer,
    BufferedData,
    DequeBuffer,
    DequeReplayBuffer,
    PriorityExperienceReplay,
    clone_object,
    group_sample,
    padding,
    sample_range_view,
    staleness_check,
    use_time_check,
)
from dicore_plugins.buffers import AdvancedReplayBuffer, FileReplayBuffer


def filled(count: int, size: int = 100, **options: Any) -> DequeBuffer:
    buffer = DequeBuffer(size, rng=np.random.default_rng(0), **options)
    for number in range(count):
        buffer.push(number, {"episode": number // 4, "train_iter_data_collected": number})
    return buffer


def data(items: Any) -> list[Any]:
    return [item.data for item in items]


# ---- the buffer


def test_items_have_data_index_and_meta() -> None:
    buffer = DequeBuffer(2)
    assert isinstance(buffer, Buffer)
    items = [buffer.push(each, {"n": each}) for each in (1, 2, 3)]
    assert data(buffer) == [2, 3]
    assert buffer.get(0).meta == {"n": 2}
    assert buffer.get(-1) == buffer.get(items[2].index) == buffer.get_by_index(items[2].index)
    assert data(buffer.get_by_indices([items[2].index, items[1].index])) == [3, 2]
    for missing in (5, items[0].index):
        with pytest.raises(UsageError):
            buffer.get(missing)
    with pytest.raises(UsageError, match="size must be an int >= 1"):
        DequeBuffer(0)


def test_after_a_deletion_every_index_is_right() -> None:
    """G31: DI-engine's positions are wrong after a deletion in the middle."""
    buffer = filled(10)
    index = {item.data: item.index for item in buffer}
    buffer.delete(index[3])
    buffer.delete([index[7], index[0], "unknown"])
    left = [1, 2, 4, 5, 6, 8, 9]
    assert data(buffer) == left
    for number in left:
        item = buffer.get_by_index(index[number])
        assert (item.data, item.meta["episode"]) == (number, number // 4)
        assert buffer.update(index[number], data=-number)
    assert data(buffer) == [-number for number in left]
    assert not buffer.update(index[3], data=0)


def test_updates_replace_what_is_given() -> None:
    buffer = filled(1)
    index = buffer.get(0).index
    assert buffer.update(index, meta={"a": 1})
    assert (buffer.get(0).data, buffer.get(0).meta) == (0, {"a": 1})
    assert buffer.update(index, data=5)
    assert (buffer.get(0).data, buffer.get(0).meta) == (5, {"a": 1})


def test_draws() -> None:
    buffer = filled(10)
    assert sorted(data(buffer.sample(10))) == list(range(10))  # without replacement
    assert set(data(buffer.sample(50, replace=True))) <= set(range(10))
    assert set(data(buffer.sample(3, sample_range=slice(-3, None)))) == {7, 8, 9}
    indices = [buffer.get(at).index for at in (4, 2)]
    assert data(buffer.sample(indices=indices)) == [4, 2]
    assert len(buffer.sample(11, ignore_insufficient=True)) == 10
    for options, error in (
        ({"size": 11}, ReplayUnderflowError),
        ({"size": 0}, UsageError),
        ({}, UsageError),
        ({"size": 2, "unroll_len": 2}, UsageError),
        ({"size": 2, "groupby": "episode", "unroll_len": 0}, UsageError),
        ({"size": 3, "groupby": "episode", "unroll_len": 4}, ReplayUnderflowError),
    ):
        with pytest.raises(error):
            buffer.sample(**options)
    buffer.sample(1)[0].meta["episode"] = 99
    assert all(item.meta["episode"] < 3 for item in buffer)


def test_groups_and_windows() -> None:
    """G32: windows lie inside one group."""
    buffer = filled(10)
    groups = buffer.sample(3, groupby="episode")
    assert sorted(map(data, groups)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    found = set()
    for _ in range(50):
        windows = buffer.sample(2, groupby=lambda item: item.data // 4, unroll_len=3)
        found |= {tuple(data(each)) for each in windows}
    assert found == {(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7)}


def test_a_key_of_groups_that_an_item_lacks_is_named() -> None:
    buffer = DequeBuffer(3)
    buffer.push(0, {"episode": 1})
    with pytest.raises(UsageError, match=r"groupby='epsiode'.* has no such key in meta") as raised:
        buffer.sample(1, groupby="epsiode")
    assert raised.value.hint == "it has episode"


def test_sliced_windows_begin_at_multiples() -> None:
    buffer = filled(10, sliced=True)
    windows = buffer.sample(5, groupby="episode", unroll_len=2)
    assert sorted(map(data, windows)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_draws_are_uniform() -> None:
    buffer = filled(8)
    counts = Counter(each for _ in range(4000) for each in data(buffer.sample(2)))
    expected = 4000 * 2 / 8
    assert sum((counts[each] - expected) ** 2 / expected for each in range(8)) < 24.3


def test_positions_count_from_both_ends() -> None:
    buffer = filled(3)
    assert [buffer[at] for at in range(-3, 3)] == [0, 1, 2, 0, 1, 2]
    for at in (-4, 3):
        with pytest.raises(IndexError, match=f"no item {at}"):
            buffer[at]


def test_export_and_import() -> None:
    buffer, other = filled(4), DequeBuffer(10)
    other.import_data(buffer.export_data())
    other.import_data([(9, {"n": 9})])
    assert data(other) == [0, 1, 2, 3, 9]
    assert other.get(1).meta == buffer.get(1).meta


def test_the_state_is_exact(tmp_path: Any) -> None:
    buffer, twin = filled(0, 5), DequeBuffer(5, rng=np.random.default_rng(7))
    for number in range(8):
        buffer.push({"obs": np.full(3, number), "t": torch.tensor(number)}, {"n": number})
    buffer.delete(buffer.get(2).index)
    buffer.save_data(tmp_path / "state")
    twin.load_data(tmp_path / "state")
    for one, other in zip(buffer, twin, strict=True):
        assert (one.index, one.meta, one.data["t"]) == (other.index, other.meta, other.data["t"])
    for _ in range(5):
        assert [i.index for i in buffer.sample(2)] == [i.index for i in twin.sample(2)]
    assert buffer.push(0).index == twin.push(0).index
    with pytest.raises(ReplayCapacityError, match="5 items"):
        DequeBuffer(2).load_state_dict(buffer.state_dict())


# ---- middleware


def test_the_first_middleware_is_the_outermost() -> None:
    buffer, seen = filled(3), []

    def note(name: str) -> Any:
        def fn(action: str, chain: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(f"{name}>{action}")
            result = chain(*args, **kwargs)
            seen.append(f"{name}<{action}")
            return result

        return fn

    assert buffer.use(note("a")).use(note("b")) is buffer
    buffer.push(1)
    assert seen == ["a>push", "b>push", "b<push", "a<push"]
    for action, args in (("sample", (1,)), ("update", ("x",)), ("delete", ("x",)), ("clear", ())):
        seen.clear()
        getattr(buffer, action)(*args)
        assert seen[0] == f"a>{action}"
    with pytest.raises(UsageError, match="expected a function"):
        buffer.use(5)  # type: ignore[arg-type]


def test_a_view_has_the_same_items_and_its_own_middleware() -> None:
    buffer = filled(10)
    view = buffer.view()
    view.use(sample_range_view(view, start=-2))
    assert set(data(view.sample(2))) == {8, 9}
    assert len(buffer.sample(10)) == 10
    view.push(10)
    assert buffer.count() == 11
    assert set(data(view.sample(2))) == {9, 10}


def test_middleware_is_chosen_by_name() -> None:
    """In the order of the list: the range concerns the draw, whose items are then counted."""
    middleware = [
        {"type": "use_time_check", "max_use": 1},
        {"type": "sample_range_view", "start": -4},
    ]
    buffer = DequeReplayBuffer({"replay_buffer_size": 8, "middleware": middleware})
    buffer.push(numbered_rows(8))
    newest = sorted(buffer.sample_batch(4)["action"].tolist())
    left = sorted(buffer.sample_batch(4)["action"].tolist())
    assert (newest, left, buffer.count()) == ([4, 5, 6, 7], [0, 1, 2, 3], 0)


def test_middleware_by_name_that_leaves_too_few_refuses_the_draw() -> None:
    """As the options do; an error comes before enough was collected, and of a small range."""
    options = {"middleware": [{"type": "use_time_check", "max_use": 1}]}
    buffer = DequeReplayBuffer(options)
    buffer.push(numbered_rows(4))
    with pytest.raises(ReplayUnderflowError):
        buffer.sample_batch(8)
    buffer.sample_batch(4)
    refused = buffer.sample_batch(2)
    assert not refused
    assert "the middleware leaves 0" in refused.reason
    narrow = DequeReplayBuffer({"middleware": [{"type": "sample_range_view", "start": -2}]})
    narrow.push(numbered_rows(4))
    with pytest.raises(ReplayUnderflowError):
        narrow.sample_batch(3)


def test_priorities_by_name_replace_those_of_the_options() -> None:
    middleware = [{"type": "priority", "priority_power_factor": 0.0}]
    buffer = DequeReplayBuffer({"replay_buffer_size": 8, "middleware": middleware})
    rows = numbered_rows(4)
    buffer.push(Batch({**rows.columns, "priority": np.array([1e6, 1.0, 1.0, 1.0])}))
    assert sorted(buffer.sample_batch(4)["action"].tolist()) == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match="use_time_check"):
        DequeReplayBuffer({"middleware": ["use_time_checks"]})


def test_ages_are_passed_to_middleware_by_name() -> None:
    buffer = DequeReplayBuffer({"middleware": [{"type": "staleness_check", "max_staleness": 3}]})
    buffer.push(Batch({**numbered_rows(4).columns, "collect_iter": np.array([0, 1, 2, 3])}))
    assert set(buffer.sample_batch(2, cur_learner_iter=4)["action"].tolist()) == {2, 3}


def test_priorities_choose_among_what_other_middleware_leaves() -> None:
    """Wherever they are in the list."""
    buffer = DequeReplayBuffer({"max_staleness": 3, "middleware": ["priority", "clone_object"]})
    buffer.push(Batch({**numbered_rows(4).columns, "collect_iter": np.array([0, 1, 2, 3])}))
    assert set(buffer.sample_batch(2, cur_learner_iter=4)["action"].tolist()) == {2, 3}


@pytest.mark.parametrize("kind", [AdvancedReplayBuffer, DequeReplayBuffer, FileReplayBuffer])
def test_samples_of_unknown_age_do_not_become_stale(kind: Any) -> None:
    buffer = kind({"replay_buffer_size": 8, "max_staleness": 3})
    buffer.push(numbered_rows(4))
    buffer.push(numbered_rows(4, 4))
    assert len(buffer.sample_batch(8, cur_learner_iter=100)) == 8
    getattr(buffer, "close", lambda: None)()


def test_what_fails_half_way_is_undone() -> None:
    """H15: the buffer is as before the call."""

    def failing(action: str, chain: Any, *args: Any, **kwargs: Any) -> Any:
        buffer_.delete(buffer_.get(1).index)
        chain(*args, **kwargs)
        raise RuntimeError(action)

    for action, args in (
        ("push", (99,)),
        ("sample", (2,)),
        ("update", (0, -1)),
        ("delete", (0,)),
        ("clear", ()),
    ):
        buffer = filled(6, 6)
        priorities = PriorityExperienceReplay(buffer)
        before, tree = buffer.export_data(), priorities._tree.masses.copy()
        buffer_, view = buffer.view(), buffer.view()
        view.use(failing)
        given = [buffer.get(each).index if each == 0 else each for each in args]
        with pytest.raises(RuntimeError, match=action):
            getattr(view, action)(*given)
        assert buffer.export_data() == before
        assert sorted(priorities._tree.masses) == sorted(tree)
        assert buffer.push(7).index > before[-1].index


def test_clone_object() -> None:
    buffer = DequeBuffer(3).use(clone_object())
    pushed = {"x": np.zeros(2), "t": torch.zeros(1)}
    item = buffer.push(pushed, {})
    pushed["x"][:] = 1
    drawn = buffer.sample(1)[0]
    drawn.data["x"][:] = 2
    drawn.data["t"][:] = 2
    assert not buffer.get(0).data["x"].any()
    assert buffer.update(item.index, pushed)
    pushed["x"][:] = 3
    assert buffer.sample(1, groupby=lambda item: 0)[0][0].data["x"].tolist() == [1, 1]


def test_use_time_check() -> None:
    buffer = filled(3)
    buffer.use(use_time_check(buffer, max_use=2))
    uses: Counter[int] = Counter()
    for left in (3, 3, 2, 2, 1, 1):
        assert buffer.count() <= left + 1
        item = buffer.sample(1)[0]
        uses[item.data] += 1
        assert item.meta["use_count"] == uses[item.data]
    assert max(uses.values()) <= 2
    while buffer.count():
        buffer.sample(buffer.count())
    assert buffer.count() == 0
    with pytest.raises(UsageError, match="max_use"):
        use_time_check(buffer, 0)


def test_use_time_check_returns_what_is_left_if_asked() -> None:
    for key in (None, "episode"):
        buffer = filled(3)
        buffer.use(use_time_check(buffer, max_use=2))
        with pytest.raises(ReplayUnderflowError, match="max_use=2 leaves"):
            buffer.sample(50, replace=True, groupby=key)
        assert buffer.count() == 3, "a draw that fails is undone"
        drawn = buffer.sample(50, replace=True, ignore_insufficient=True, groupby=key)
        items = [item for each in drawn for item in (each if key else [each])]
        assert Counter(item.data for item in items) == dict.fromkeys(range(3), 2)
        assert buffer.count() == 0


def test_an_index_of_another_buffer_is_refused() -> None:
    buffer, other = filled(3), filled(3)
    foreign = other.sample(1)[0].index
    view = buffer.view()
    for act in (buffer.update, buffer.delete, view.get_by_index):
        with pytest.raises(UsageError, match="of an item of another buffer"):
            act(foreign)
    assert buffer.count() == 3
    own = copy.deepcopy(buffer.sample(1)[0].index)
    assert view.update(own, "changed")
    assert buffer.update(str(foreign), "by text")
    state = buffer.state_dict()
    assert {type(each) for each in state["index"]} == {str}
    other.load_state_dict(state)
    assert other.update(own, "restored"), "the index is as old as the state"


def test_use_time_check_with_groups() -> None:
    buffer = filled(8)
    buffer.use(use_time_check(buffer, max_use=1))
    (group,) = buffer.sample(1, groupby="episode")
    assert len(group) == 4
    assert buffer.count() == 4


def test_staleness_check() -> None:
    """An item of update 0 with limit 10 is gone at update 10, not at 9."""
    buffer = filled(3)
    buffer.use(staleness_check(buffer, max_staleness=10))
    items = buffer.sample(3, train_iter_sample_data=9)
    assert {item.data: item.meta["staleness"] for item in items} == {0: 9, 1: 8, 2: 7}
    assert sorted(data(buffer.sample(2, train_iter_sample_data=10))) == [1, 2]
    assert buffer.count() == 2
    with pytest.raises(UsageError, match="train_iter_data_collected"):
        buffer.push(1)
    with pytest.raises(UsageError, match="train_iter_sample_data"):
        buffer.sample(1)


def test_priorities_are_followed() -> None:
    buffer = filled(4)
    priorities = PriorityExperienceReplay(
        buffer, priority_power_factor=1.0, IS_weight_power_factor=1.0
    )
    buffer.use(priorities)
    for item in buffer:
        buffer.update(item.index, None, {**item.meta, "priority": float(item.data + 1)})
    items = [item for _ in range(4000) for item in buffer.sample(4)]
    counts = Counter(data(items))
    for number, share in enumerate((0.1, 0.2, 0.3, 0.4)):
        assert counts[number] / 16000 == pytest.approx(share, rel=0.05)
    for item in items[:50]:
        assert item.meta["priority_IS"] == pytest.approx(1 / (item.data + 1))
    assert buffer.push(4).meta["priority"] == 4
    assert buffer.push(5, {"priority": 9}).meta["priority"] == 9
    buffer.delete([item.index for item in buffer if item.data != 2])
    assert set(data(buffer.sample(20, replace=True))) == {2}
    with pytest.raises(ReplayUnderflowError):
        buffer.sample(2)
    assert len(buffer.sample(2, ignore_insufficient=True)) == 1
    assert set(data(buffer.sample(1, sample_range=slice(0, 1)))) == {2}


def test_bad_priorities_are_refused() -> None:
    buffer = filled(2)
    buffer.use(PriorityExperienceReplay(buffer))
    for bad in (float("nan"), -1.0, float("inf")):
        with pytest.raises(ReplayPriorityError):
            buffer.push(9, {"priority": bad})
        with pytest.raises(ReplayPriorityError):
            buffer.update(buffer.get(0).index, None, {"priority": bad})
    assert buffer.count() == 2
    for options in ({"size": 1, "groupby": "episode"}, {"indices": []}):
        with pytest.raises(UsageError, match="single items"):
            buffer.sample(**options)


def test_the_state_of_priorities_is_exact() -> None:
    def made() -> DequeBuffer:
        buffer = DequeBuffer(6, rng=np.random.default_rng(3))
        return buffer.use(PriorityExperienceReplay(buffer, IS_weight_anneal_train_iter=20))

    buffer, twin = made(), made()
    for number in range(9):
        buffer.push(number, {"priority": number})
    buffer.delete([buffer.get(1).index, buffer.get(3).index])
    buffer.push(10)
    buffer.sample(2)
    twin.load_state_dict(buffer.state_dict())
    for _ in range(10):
        one, other = buffer.sample(3), twin.sample(3)
        assert one == other
        for each in (buffer, twin):
            each.update(one[0].index, None, {"priority": 2.5})
            each.push(11)
    with pytest.raises(UsageError, match="same middleware"):
        DequeBuffer(6).load_state_dict(buffer.state_dict())
    larger = DequeBuffer(60)
    larger.use(PriorityExperienceReplay(larger))
    larger.load_state_dict(buffer.state_dict())
    assert len(larger.sample(6)) == 6


@pytest.mark.parametrize("policy", ["random", "none"])
def test_padding(policy: Any) -> None:
    buffer = filled(10).use(padding(policy))
    groups = buffer.sample(3, groupby="episode")
    assert [len(group) for group in groups] == [4, 4, 4]
    (short,) = [group for group in groups if group[0].data == 8]
    extra = data(short[2:])
    assert extra == [None, None] if policy == "none" else set(extra) <= {8, 9}
    assert len(buffer.sample(4)) == 4
    with pytest.raises(UsageError, match="expected 'random' or 'none'"):
        padding("zero")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ordered", "most", "wanted"),
    [
        (True, True, {(0, 1, 2), (1, 2, 3), (4, 5)}),
        (True, False, {(0, 1, 2), (1, 2, 3), (2, 3), (3,), (4, 5), (5,)}),
    ],
)
def test_group_sample(ordered: bool, most: bool, wanted: set[tuple[int, ...]]) -> None:
    buffer = filled(6).use(group_sample(3, ordered, most))
    seen = {tuple(data(each)) for _ in range(60) for each in buffer.sample(2, groupby="episode")}
    assert seen == wanted
    with pytest.raises(UsageError, match="pass groupby"):
        buffer.sample(2)


def test_group_sample_in_random_order() -> None:
    buffer = filled(8).use(group_sample(2, ordered_in_group=False))
    seen = {tuple(data(each)) for _ in range(60) for each in buffer.sample(2, groupby="episode")}
    assert (3, 0) in seen
    assert all(a // 4 == b // 4 and a != b for a, b in seen)
    with pytest.raises(ReplayUnderflowError, match="have 4 items in a group"):
        filled(8).use(group_sample(5, False)).sample(1, groupby="episode")


# ---- as a replay buffer


def test_as_a_replay_buffer() -> None:
    """Limits and priorities work as in `advanced`; `buffer.use` adds middleware."""
    buffer = DequeReplayBuffer({"replay_buffer_size": 4, "max_use": 2, "max_staleness": 5})
    rows = {"x": np.arange(6), "collect_iter": np.array([0, 0, 0, 0, 0, 4])}
    assert buffer.push(Batch(dict(rows))) == range(6)
    assert (buffer.count(), buffer.push_count) == (4, 6)
    batch = buffer.sample_batch(4, 4)
    assert set(batch["x"].tolist()) == {2, 3, 4, 5}
    buffer.update({"replay_unique_id": [5, 0], "priority": np.array([7.0, 7.0])})
    assert buffer.buffer.get(-1).meta["priority"] == 7
    with pytest.raises(ReplayPriorityError):
        buffer.update({"replay_unique_id": [5], "priority": [np.nan]})
    batch = buffer.sample_batch(1, 5)
    assert (batch["x"].tolist(), batch["priority"].tolist()) == ([5], [7])
    assert buffer.count() == 0


class AgainstAList(RuleBasedStateMachine):
    """Pushes, updates, deletions, draws, failures and states beside a plain list."""

    SIZE = 6

    def __init__(self) -> None:
        super().__init__()
        self.buffer = self.made()
        self.items: list[BufferedData] = []
        self.number = 0

    def made(self) -> DequeBuffer:
        buffer = DequeBuffer(self.SIZE, rng=np.random.default_rng(0))
        self.priorities = PriorityExperienceReplay(buffer)
        return buffer.use(self.priorities)

    @rule(priority=st.floats(0, 9))
    def push(self, priority: float) -> None:
        item = self.buffer.push(self.number, {"priority": priority})
        self.number += 1
        self.items = [*self.items, item][-self.SIZE :]

    @precondition(lambda self: self.items)
    @rule(at=st.integers(0, 5), priority=st.floats(0, 9))
    def update(self, at: int, priority: float) -> None:
        item = self.items[at % len(self.items)]
        item.meta = {"priority": priority}
        assert self.buffer.update(item.index, None, item.meta)

    @rule(places=st.lists(st.integers(0, 5), max_size=3))
    def delete(self, places: list[int]) -> None:
        gone = [self.items[at].index for at in places if at < len(self.items)]
        self.buffer.delete(gone)
        self.items = [item for item in self.items if item.index not in gone]

    @rule(count=st.integers(1, 3))
    def draw(self, count: int) -> None:
        if len(self.items) < count:
            with pytest.raises(ReplayUnderflowError):
                self.buffer.sample(count)
            return
        for item in self.buffer.sample(count):
            item.meta.pop("priority_IS")
            assert item in self.items

    @rule()
    def fail(self) -> None:
        def failing(action: str, chain: Any, *args: Any, **kwargs: Any) -> Any:
            chain(*args, **kwargs)
            raise RuntimeError

        view = self.buffer.view().use(failing)
        for call in (lambda: view.push(1), view.clear):
            with pytest.raises(RuntimeError):
                call()

    @rule()
    def resume(self) -> None:
        state = self.buffer.state_dict()
        self.buffer = self.made()
        self.buffer.load_state_dict(state)

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.items = []

    @invariant()
    def agrees(self) -> None:
        assert self.buffer.export_data() == self.items
        assert self.priorities.check_valid() == (True, "")
        masses = sorted(max(item.meta["priority"], 1e-30) ** 0.6 for item in self.items)
        found = self.priorities._tree.masses
        np.testing.assert_allclose(np.sort(found[found > 0]), masses)


AgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAgainstAList = AgainstAList.TestCase


@pytest.mark.parametrize("size", [5, 6, 9])
def test_priorities_go_on_in_a_buffer_of_another_size(size: int) -> None:
    buffer = DequeReplayBuffer({"replay_buffer_size": 7})
    buffer.push(numbered_rows(5))
    buffer.update({"replay_unique_id": [4], "priority": [3.0]})
    other = DequeReplayBuffer({"replay_buffer_size": size})
    other.load_state_dict(buffer.state_dict())
    other.push(numbered_rows(20, 5))
    assert other.count() == size
    drawn = set(other.sample_batch(200, replace=True)["action"].tolist())
    assert drawn == {*range(25 - size, 25)}


def test_a_wrong_collect_iter_is_refused_whole() -> None:
    buffer = DequeReplayBuffer({})
    with pytest.raises(SchemaError, match=r"collect_iter: expected whole numbers \[3\]"):
        buffer.push(Batch({**numbered_rows(3).columns, "collect_iter": np.zeros(2)}, 3))
    assert (buffer.count(), buffer.push_count) == (0, 0)


@pytest.mark.parametrize("max_use", [1, 2, 3])
def test_one_draw_with_replacement_obeys_the_limit_too(max_use: int) -> None:
    buffer = filled(4)
    buffer.use(use_time_check(buffer, max_use=max_use))
    drawn = data(buffer.sample(4 * max_use, replace=True))
    assert sorted(drawn) == sorted([*range(4)] * max_use)
    assert len(buffer) == 0
    buffer = filled(4)
    buffer.use(use_time_check(buffer, max_use=max_use))
    with pytest.raises(ReplayUnderflowError, match=f"max_use={max_use} leaves"):
        buffer.sample(4 * max_use + 1, replace=True)
    assert len(buffer) == 4, "what could not be drawn is not used up"


def test_groups_obey_the_limit_in_one_draw_too() -> None:
    buffer = filled(8)
    buffer.use(use_time_check(buffer, max_use=1))
    drawn = buffer.sample(2, replace=True, groupby="episode")
    assert sorted(each for group in drawn for each in data(group)) == [*range(8)]


@pytest.mark.parametrize("by", ["rows", "groups", "windows", "priority", "indices"])
def test_samples_of_one_draw_share_no_data(by: str) -> None:
    buffer = DequeBuffer(2, rng=np.random.default_rng(0))
    index = buffer.push({"obs": np.zeros(2)}, {"episode": 0}).index
    if by == "priority":
        buffer.use(PriorityExperienceReplay(buffer))
    options = {
        "groups": {"groupby": "episode"}, "windows": {"groupby": "episode", "unroll_len": 1},
        "indices": {"indices": [index]},
    }  # fmt: skip
    drawn = buffer.sample(2, replace=True, **options.get(by, {}))
    first, second = (each[0] if isinstance(each, list) else each for each in drawn)
    second.data["obs"][:] = 7
    assert first.data["obs"].tolist() == [0, 0]
    assert buffer.get(0).data["obs"].tolist() == [0, 0]


def test_the_second_argument_may_be_replace() -> None:
    assert len(filled(2).sample(5, True)) == 5
    buffer = filled(2)
    buffer.use(PriorityExperienceReplay(buffer))
    assert len(buffer.sample(5, True)) == 5
