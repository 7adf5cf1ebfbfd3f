"""The advanced buffer: prioritized draws, their weights, limits, refusals, logs and state."""

from __future__ import annotations

import json
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dicore.data import Batch
from dicore.errors import ReplayPriorityError, SchemaError, UsageError
from dicore.interfaces.buffer import Refused
from dicore.run.launch import launch
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import AdvancedReplayBuffer, NaiveReplayBuffer, PriorityTree
from dicore_plugins.buffers.priority_tree import _compiled_or_none
from tests.soak import SOAK

KERNELS = ["numpy", *(["numba"] if find_spec("numba") else [])]


def buffer_of(capacity: int = 8, *, clock: Any = None, log: Any = None, **options: Any) -> Any:
    given = {} if clock is None else {"clock": clock}
    cfg = {"replay_buffer_size": capacity, "kernels": "numpy", **options}
    return AdvancedReplayBuffer(cfg, rng=np.random.default_rng(0), log=log, **given)


def with_priorities(*priority: float, **options: Any) -> Any:
    buffer = buffer_of(len(priority), priority_eps=1e-300, **options)
    buffer.push(numbered_rows(len(priority)))
    buffer.update({"replay_unique_id": range(len(priority)), "priority": priority})
    return buffer


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# ---- the tree


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("capacity", [1, 3, 4, 5, 16, 17, 1000, 1025, 5000])
def test_the_tree_finds_what_a_cumulated_sum_finds(capacity: int, kernels: Any) -> None:
    rng = np.random.default_rng(capacity)
    tree, masses = PriorityTree(capacity, kernels), np.zeros(capacity)
    for _ in range(30):
        slots = rng.integers(0, capacity, 8)
        given = np.round(rng.random(8) * (rng.random(8) < 0.7), 3)
        tree.set(slots, given)
        masses[slots] = given
        start = int(rng.integers(0, capacity))
        stop = int(rng.integers(start, capacity)) + 1
        tree.fill(start, stop, 0.5)
        masses[start:stop] = 0.5
        assert tree.check_valid() == (True, "")
        assert np.array_equal(tree.masses, masses)
        assert tree.minimum == masses[masses > 0].min()
        points = (rng.random(64) * 0.998 + 0.001) * masses.sum()
        found = tree.find(points)
        wanted = np.searchsorted(np.cumsum(masses), points, side="right")
        assert (found == wanted).mean() > 0.98  # a rounded sum may lie on the other side
        assert (masses[found] > 0).all()
        ends = tree.find(np.array([0.0, tree.total]))
        assert masses[ends].all()


@pytest.mark.skipif(len(KERNELS) < 2, reason="numba is not installed")
@pytest.mark.parametrize("capacity", [7, 1000, 5000])
def test_both_kernels_draw_the_same(capacity: int) -> None:
    twins = [buffer_of(capacity, kernels=kernels) for kernels in KERNELS]
    rng = np.random.default_rng(1)
    for start in range(0, 3 * capacity, 60):
        priority = rng.random(32)
        drawn = []
        for each in twins:
            each.push(numbered_rows(60, start))
            batch = each.sample_batch(32, replace=True)
            each.update({"replay_unique_id": batch["replay_unique_id"], "priority": priority})
            drawn.append(batch)
        shares = np.append(rng.random(20), [0.0, 1.0])  # in no order
        found = [each._tree.find(shares, shares=True).tolist() for each in twins]
        assert found[0] == found[1]
        for key in drawn[0].columns:
            assert np.array_equal(drawn[0][key], drawn[1][key]), key


def test_numba_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore_plugins.buffers.priority_tree.find_spec", lambda name: None)
    assert buffer_of(kernels="auto")._tree.kernels is None
    with pytest.raises(UsageError, match=r"dicore-plugins\[fast\]"):
        buffer_of(kernels="numba")


def test_numba_that_does_not_load(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(name: str) -> Any:
        raise ImportError("numba needs another NumPy")

    monkeypatch.setattr("dicore_plugins.buffers.priority_tree.find_spec", lambda name: name)
    monkeypatch.setattr("dicore_plugins.buffers.priority_tree.import_module", fails)
    _compiled_or_none.cache_clear()
    try:
        assert all(buffer_of(kernels="auto")._tree.kernels is None for _ in range(2))
    finally:
        _compiled_or_none.cache_clear()
    assert caplog.messages == ["priorities by NumPy, numba fails: numba needs another NumPy"]
    with pytest.raises(ImportError):
        buffer_of(kernels="numba")


# ---- draws and weights


@pytest.mark.parametrize("kernels", KERNELS)
def test_draws_are_in_proportion_to_priority(kernels: Any) -> None:
    """G12, H07: 16.3 is the 0.999 quantile of chi-square with 3 degrees of freedom."""
    buffer = with_priorities(1, 2, 3, 4, alpha=1.0, kernels=kernels)
    batches = [buffer.sample_batch(1)["action"] for _ in range(5_000)]
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.bincount(np.concatenate(batches))
    assert ((counts - 5_000 * shares) ** 2 / (5_000 * shares)).sum() < 16.3
    drawn = buffer.sample_batch(40_000, replace=True)["action"]
    assert np.abs(np.bincount(drawn) / 40_000 / shares - 1).max() < 0.02


@pytest.mark.parametrize("kernels", KERNELS)
def test_sums_do_not_drift_and_an_empty_slot_is_never_drawn(kernels: Any) -> None:
    """H06: after a million random updates each node is the sum of its children, to the bit."""
    rng, capacity = np.random.default_rng(0), 3000
    tree = PriorityTree(capacity, kernels)
    for _ in range(1000):
        slots = rng.integers(0, capacity, 1000)
        tree.set(slots, rng.random(1000) ** 9 * (rng.random(1000) < 0.8) * 1e6)
    assert tree.check_valid() == (True, "")
    assert np.isclose(tree.total, tree.masses.sum(), rtol=1e-12)
    ends = np.array([0.0, np.nextafter(tree.total, 0), tree.total, tree.total * 2])
    points = np.concatenate([ends, np.cumsum(tree.masses), rng.random(10_000) * tree.total])
    assert tree.masses[tree.find(points)].all()


def test_alpha_shapes_the_draws_and_zero_is_uniform() -> None:
    for alpha in (0.0, 0.5):
        buffer = with_priorities(1, 4, 9, 16, alpha=alpha)
        wanted = np.array([1, 4, 9, 16]) ** alpha
        counts = np.bincount(buffer.sample_batch(40_000, replace=True)["action"], minlength=4)
        assert np.abs(counts / 40_000 - wanted / wanted.sum()).max() < 1e-3  # stratified


def test_each_part_of_the_sum_gives_one_sample() -> None:
    buffer = with_priorities(*[1.0] * 64)
    for _ in range(20):
        assert sorted(buffer.sample_batch(64)["action"].tolist()) == list(range(64))


def test_weights_are_those_of_the_paper() -> None:
    buffer = with_priorities(1, 2, 3, 4, alpha=1.0, beta=1.0)
    batch = buffer.sample_batch(40, replace=True)
    wanted = np.array([1, 1 / 2, 1 / 3, 1 / 4], np.float32)[batch["action"]]
    np.testing.assert_allclose(batch["IS"], wanted, rtol=1e-6)
    assert batch["IS"].dtype == batch["priority"].dtype == np.float32
    np.testing.assert_allclose(batch["priority"], batch["action"] + 1)


def test_beta_rises_to_one() -> None:
    buffer = buffer_of(beta=0.4, anneal_step=10)
    buffer.push(numbered_rows(8))
    seen = []
    for _ in range(12):
        seen.append(buffer.beta)
        buffer.sample_batch(2)
    np.testing.assert_allclose(seen, [*np.linspace(0.4, 1, 11), 1.0])
    assert buffer_of(beta=0.5, anneal_step=0).beta == 0.5


def test_new_samples_have_the_highest_priority_so_far_or_their_own() -> None:
    buffer = buffer_of(8, priority_eps=0.5)
    buffer.push(numbered_rows(2))
    buffer.update({"replay_unique_id": [0, 1], "priority": [3.0, 7.0]})
    buffer.push(numbered_rows(1, 2))
    own = Batch({**numbered_rows(2, 3).columns, "priority": np.array([2.0, 9.0])})
    buffer.push(own)
    buffer.push(numbered_rows(1, 5))
    batch = buffer.sample_batch(400, replace=True)
    found = dict(zip(batch["action"].tolist(), batch["priority"].tolist(), strict=True))
    assert found == {0: 3.5, 1: 7.5, 2: 7.5, 3: 2.5, 4: 9.5, 5: 9.5}
    assert buffer.push_count == 6


def test_every_sample_has_its_facts() -> None:
    buffer = buffer_of(4, instance_name="agent")
    rows = numbered_rows(6).columns
    buffer.push(Batch({**rows, "collect_iter": np.arange(6)}))
    batch = buffer.sample_batch(4, 10, replace=True)
    assert np.array_equal(batch["replay_unique_id"], batch["action"])
    assert np.array_equal(batch["staleness"], 10 - batch["action"])
    assert (batch["use"] >= 1).all()
    for row in buffer.sample(3, 10):
        assert row["replay_unique_id"] == f"agent_{row['action']}"
        buffer.update({"replay_unique_id": [row["replay_unique_id"]], "priority": [2.0]})
    assert buffer.check_valid() == (True, "")


def half(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.bfloat16 if isinstance(values[0], float) else None)


@pytest.mark.parametrize("form", [list, np.array, torch.tensor, half])
def test_priorities_come_in_any_form(form: Any) -> None:
    buffer = buffer_of(4, priority_eps=1e-12)
    buffer.push(numbered_rows(4))
    info = {"replay_unique_id": form([0, 1, 2, 3]), "priority": form([1.0, 2.0, 3.0, 4.0])}
    buffer.update(info)
    batch = buffer.sample_batch(40, replace=True)
    np.testing.assert_allclose(batch["priority"], batch["action"] + 1)


def test_an_overwritten_sample_is_skipped() -> None:
    buffer = buffer_of(2, priority_eps=1e-12)
    buffer.push(numbered_rows(3))
    buffer.update({"replay_unique_id": [0, 2], "replay_buffer_idx": [0, 0], "priority": [9, 4]})
    batch = buffer.sample_batch(40, replace=True)
    found = dict(zip(batch["action"].tolist(), batch["priority"].tolist(), strict=True))
    assert found == {1: 1.0, 2: 4.0}
    buffer.clear()
    buffer.push(numbered_rows(1))
    buffer.update({"replay_unique_id": [1, 2], "priority": [9, 9]})
    assert buffer.sample_batch(1)["priority"][0] == 4.0
    with pytest.raises(UsageError, match="77 was never pushed"):
        buffer.update({"replay_unique_id": [77], "priority": [1.0]})


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf, -math.inf])
def test_invalid_priorities_are_refused_whole(bad: float) -> None:
    buffer = buffer_of(4)
    buffer.push(numbered_rows(4))
    before = buffer.state_dict()["priority"].copy()
    with pytest.raises(ReplayPriorityError, match="index 2") as raised:
        buffer.update({"replay_unique_id": [0, 1, 2], "priority": [5.0, 6.0, bad]})
    assert raised.value.context["index"] == 2
    assert np.array_equal(buffer.state_dict()["priority"], before)
    with pytest.raises(ReplayPriorityError):
        buffer.push(Batch({**numbered_rows(2).columns, "priority": np.array([1.0, bad])}))
    assert buffer.push_count == 4
    assert buffer.check_valid() == (True, "")


def test_priorities_of_samples_that_are_gone_are_counted() -> None:
    """H05, by id; a slot names what is in it now."""
    buffer = buffer_of(4, max_use=3)
    buffer.push(numbered_rows(6))
    buffer.update({"replay_unique_id": [0, 1, 2], "priority": [5.0, 5.0, 5.0]})
    assert buffer.skipped == 2
    buffer.sample_batch(12, replace=True)
    buffer.update({"replay_buffer_idx": [0, 1], "priority": [5.0, 5.0]})
    assert (buffer.skipped, buffer.count()) == (4, 0)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors count as those of a GPU."""
    monkeypatch.setattr("dicore_plugins.buffers.advanced.buffer.is_far", torch.is_tensor)


def test_priorities_of_a_device_are_set_one_update_later(far: None) -> None:
    """Nobody waits for the device; the draws in between are the same in every run."""
    buffer = buffer_of(4, priority_eps=1e-9)
    buffer.push(numbered_rows(4))

    def stored() -> list[float]:
        return buffer.state_dict()["priority"].round(3).tolist()

    ids = np.array([0, 1])
    buffer.update({"replay_unique_id": ids, "priority": torch.tensor([5.0, 6.0])})
    ids[:] = 3  # the batch of the ids is recycled
    assert stored() == [1, 1, 1, 1]
    twin = buffer_of(4, priority_eps=1e-9)
    twin.load_state_dict(buffer.state_dict())
    for each in (buffer, twin):
        each.update({"replay_unique_id": [2], "priority": torch.tensor([math.nan])})
        assert each.state_dict()["priority"].round(3).tolist() == [5, 6, 1, 1]
    with pytest.raises(ReplayPriorityError, match="nan at index 0"):
        buffer.update({"replay_unique_id": [3], "priority": torch.tensor([9.0])})
    assert stored() == [5, 6, 1, 1]
    buffer.update({"replay_unique_id": [0], "priority": torch.tensor([1.0])})
    assert stored() == [5, 6, 1, 9]
    assert buffer.check_valid() == (True, "")


def test_a_state_that_contradicts_itself_is_refused() -> None:
    buffer, other = buffer_of(4), buffer_of(4)
    buffer.push(numbered_rows(4))
    other.push(numbered_rows(3, 50))
    good = buffer.state_dict()
    for key, value, text in (
        ("priority", np.ones(3), "3 values of 'priority' for 4 samples"),
        ("mass", np.array([1, 1, math.nan, 1]), "'mass' that are negative or not finite"),
        ("collect_iter", np.zeros(9), "9 values of 'collect_iter'"),
        ("cursor", 9, "contradicts itself"),
        ("push_count", 2, "4 samples contradicts itself"),
    ):
        with pytest.raises(SchemaError, match=text):
            other.load_state_dict({**good, key: value})
        assert sorted(other.sample_batch(3)["action"].tolist()) == [50, 51, 52]
        assert other.check_valid() == (True, "")


def test_other_mistakes_of_an_update() -> None:
    buffer = buffer_of(4)
    buffer.push(numbered_rows(4))
    for info, message in (
        ({"replay_unique_id": [0, 1], "priority": [1.0]}, "1 priorities for 2 samples"),
        ({"priority": [1.0]}, "needs replay_unique_id"),
        ({"replay_buffer_idx": [4], "priority": [1.0]}, "from 0 to 3"),
    ):
        with pytest.raises(UsageError, match=message):
            buffer.update(info)
    buffer.update({"replay_unique_id": [0]})
    buffer.update({"replay_unique_id": [], "priority": []})


# ---- limits


def test_samples_are_removed_after_max_use() -> None:
    buffer = buffer_of(4, max_use=2)
    buffer.push(numbered_rows(4))
    drawn = np.concatenate([buffer.sample_batch(4, replace=True)["action"] for _ in range(2)])
    assert np.bincount(drawn).tolist() == [2, 2, 2, 2]
    assert buffer.count() == 0
    assert buffer.removed == {"full": 0, "use": 4, "stale": 0}
    assert len(buffer.samples()) == 0
    refused = buffer.sample_batch(1)
    assert refused == Refused("drawing 1 samples: max_use=2 and max_staleness=inf leave 0")


def test_samples_that_were_removed_are_not_read_again(tmp_path: Path) -> None:
    buffer, twin = buffer_of(8, max_use=1), buffer_of(8, alpha=0.3)
    buffer.push(numbered_rows(5))
    drawn = set(buffer.sample_batch(3)["action"].tolist())
    buffer.save_data(tmp_path / "data")
    twin.load_samples(tmp_path / "data")
    assert set(twin.samples()["action"].tolist()) == {*range(5)} - drawn
    assert twin.check_valid() == (True, "")


def test_one_draw_keeps_to_max_use() -> None:
    buffer = with_priorities(1e-6, 1e-6, 1e6, alpha=1.0, max_use=1)
    assert sorted(buffer.sample_batch(3)["action"].tolist()) == [0, 1, 2]


def test_a_draw_that_max_use_does_not_leave_is_refused_whole() -> None:
    buffer = with_priorities(1.0, 1.0, max_use=2)
    refused = buffer.sample_batch(5, replace=True)
    assert refused == Refused("drawing 5 samples: max_use=2 leaves 4 draws")
    assert buffer.use_count.tolist() == [0, 0]
    assert sorted(buffer.sample_batch(4, replace=True)["action"].tolist()) == [0, 0, 1, 1]


def test_a_loaded_state_may_have_samples_beyond_max_use() -> None:
    """Those count for nothing; others can be drawn."""
    first = buffer_of(8)
    first.push(numbered_rows(8))
    for _ in range(40):
        first.sample_batch(4)
    buffer = buffer_of(8, max_use=2)
    buffer.load_state_dict(first.state_dict())
    assert "leaves 0 draws" in buffer.sample_batch(2).reason
    buffer.push(numbered_rows(4, 8))
    drawn = np.concatenate([buffer.sample_batch(2)["action"] for _ in range(4)])
    assert sorted(drawn.tolist()) == [8, 8, 9, 9, 10, 10, 11, 11]
    assert not buffer.sample_batch(1)
    assert buffer.check_valid() == (True, "")


def test_samples_become_stale_within_several_batches() -> None:
    """There is an update after each batch."""
    buffer = buffer_of(8, max_staleness=3)
    buffer.push(Batch({**numbered_rows(4).columns, "collect_iter": np.zeros(4, int)}))
    assert [each["staleness"][0] for each in buffer.sample_batches(5, 2, 1)] == [1, 2]


def test_a_draw_that_staleness_does_not_leave_is_refused() -> None:
    buffer = buffer_of(8, max_staleness=10)
    buffer.push(Batch({**numbered_rows(4).columns, "collect_iter": np.array([0, 0, 5, 5])}))
    batches = buffer.sample_batches(2, 3, 10)
    with pytest.raises(StopIteration) as ended:
        next(batches)
    assert "max_staleness=10 leave 2" in ended.value.value.reason


def test_stale_samples_are_removed_when_drawing() -> None:
    buffer = buffer_of(8, max_staleness=10)
    columns = numbered_rows(6).columns
    buffer.push(Batch({**columns, "collect_iter": np.array([0, 5, 0, 3, 9, 9])}))
    assert set(buffer.sample_batch(60, 9, replace=True)["action"].tolist()) == set(range(6))
    assert set(buffer.sample_batch(60, 10, replace=True)["action"].tolist()) == {1, 3, 4, 5}
    assert (buffer.count(), buffer.removed["stale"]) == (4, 2)
    newest = buffer.sample_batch(60, 14, sample_range=slice(0, 2), replace=True)
    assert set(newest["action"].tolist()) == {1, 4}


def test_throughput_control_refuses_pushes_and_draws() -> None:
    clock = Clock()
    limit = {"push_sample_rate_limit": {"max": 2.0, "min": 0.5}, "window_seconds": 10.0}
    buffer = buffer_of(100, thruput_controller=limit, clock=clock)
    buffer.push(numbered_rows(10))  # nothing drawn yet: no ratio to keep
    assert len(buffer.sample_batch(8)) == 8
    refused = buffer.push(numbered_rows(7))
    assert isinstance(refused, Refused)
    assert not refused
    assert "17.0 pushed to 8.0 drawn" in refused.reason
    assert (buffer.count(), buffer.push_count) == (10, 10)
    assert len(buffer.sample_batch(10)) == 10
    refused = buffer.sample_batch(3)
    assert "21.0 drawn; the limit is 0.5" in refused.reason
    assert not buffer.sample(3)
    clock.now = 10.0  # both counts are at 1 %
    assert "1.1 pushed to 0.2 drawn" in buffer.push(numbered_rows(1)).reason
    assert np.isclose(buffer.state_dict()["thruput"]["pushed"], 0.1)
    assert np.isclose(buffer.state_dict()["thruput"]["drawn"], 0.18)


def test_replace_does_not_lift_the_limit_of_the_rate() -> None:
    limit = {"push_sample_rate_limit": {"min": 0.5}}
    buffer = buffer_of(8, thruput_controller=limit, clock=Clock())
    buffer.push(numbered_rows(4))
    assert len(buffer.sample_batch(8, replace=True)) == 8
    assert "the limit is 0.5" in buffer.sample_batch(8, replace=True).reason


def test_a_draw_needs_several_times_its_samples() -> None:
    buffer = buffer_of(8, thruput_controller={"sample_min_limit_ratio": 2.0})
    buffer.push(numbered_rows(5))
    assert not buffer.sample_batch(3)
    assert len(buffer.sample_batch(2)) == 2
    assert list(buffer.sample_batches(2, 3)) == []


# ---- log


class Log:
    def __init__(self) -> None:
        self.scalars: list[dict[str, float]] = []
        self.texts: list[str] = []

    def log_scalars(self, scalars: Any, *, env_step: int, train_iter: int) -> None:
        self.scalars.append({**scalars, "env_step": env_step, "train_iter": train_iter})

    def log_text(self, text: str, *, channel: str) -> None:
        self.texts.append(text)


def test_the_log_has_the_calls_that_were_made() -> None:
    log, clock = Log(), Clock()
    monitor = {"sampled_data_attr": {"print_freq": 0}, "periodic_thruput": {"seconds": 60.0}}
    buffer = buffer_of(8, monitor=monitor, log=log, clock=clock)
    buffer.push(numbered_rows(6), 6)
    buffer.push(numbered_rows(6), 12)
    buffer.sample_batch(4, 1)
    assert log.scalars == []
    clock.now = 60.0
    buffer.sample_batch(4, 2)
    assert log.scalars == [
        {"buffer/pushed_in": 12, "buffer/sampled_out": 8, "buffer/removed": 4,
         "buffer/current_have": 8, "env_step": 12, "train_iter": 2}
    ]  # fmt: skip
    assert log.texts == ["pushed_in 12, sampled_out 8, removed 4, current_have 8"]


def test_the_log_averages_over_the_last_draws() -> None:
    log = Log()
    monitor = {"sampled_data_attr": {"print_freq": 4, "average_range": 2}}
    buffer = buffer_of(2, monitor=monitor, log=log, priority_eps=1e-12)
    buffer.push(Batch({**numbered_rows(2).columns, "collect_iter": np.zeros(2, np.int64)}))
    buffer.update({"replay_unique_id": [0, 1], "priority": [1.0, 1.0]})
    for train_iter in range(4):
        buffer.sample_batch(2, train_iter)
    (found,) = log.scalars
    assert found["buffer/use_avg"] == 3.5  # 3 and 4
    assert found["buffer/use_max"] == 3.5
    assert found["buffer/staleness_avg"] == found["buffer/staleness_max"] == 2.5
    assert found["buffer/priority_avg"] == found["buffer/priority_min"] == 1.0


def test_what_a_training_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G23, G24: tags of TensorBoard and lines of metrics.jsonl, whose numbers are right."""
    event = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.chdir(tmp_path)
    launch(
        env="cartpole", policy="dqn", exp_name="run", max_env_step=160,
        overrides=[
            "pipeline.logger=['tensorboard']", "policy.priority=true",
            "policy.priority_IS_weight=true", "policy.collect.n_sample=16",
            "policy.learn.batch_size=16", "policy.learn.update_per_collect=4",
            "policy.learn.update_per_step=null", "policy.nstep=1",
            "policy.collect.random_collect_size=0",
            "replay_buffer.monitor.sampled_data_attr.print_freq=10",
            "replay_buffer.monitor.periodic_thruput.seconds=1e-9",
            "policy.eval.evaluator.eval_freq=100000",
        ],
    )  # fmt: skip
    events = event.EventAccumulator(str(next(Path("run").rglob("events*")).parent)).Reload()
    tags = {tag for tag in events.Tags()["scalars"] if "buffer/" in tag}
    names = {tag[tag.index("buffer/") :] for tag in tags}
    of_draws = {"use_avg", "use_max", "priority_avg", "priority_max", "priority_min"}
    of_draws |= {"staleness_avg", "staleness_max"}
    of_time = {"pushed_in", "sampled_out", "removed", "current_have"}
    assert {name.removeprefix("buffer/") for name in names} == of_draws | of_time
    text = next(Path("run").rglob("metrics.jsonl")).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]

    def found(key: str) -> list[float]:
        return [line[f"buffer/{key}"] for line in lines if f"buffer/{key}" in line]

    assert sum(found("pushed_in")) == 160
    assert sum(found("sampled_out")) == 40 * 16
    assert min(found("priority_min")) > 0


def test_weights_change_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`policy.priority=true` alone uses this buffer, and its weights only if they are asked for."""
    monkeypatch.chdir(tmp_path)

    def values(name: str, *more: str) -> Any:
        drawn: list[Any] = []
        draw = AdvancedReplayBuffer.sample_batch
        with monkeypatch.context() as patch:
            patch.setattr(
                AdvancedReplayBuffer, "sample_batch",
                lambda *a, **k: drawn.append(draw(*a, **k)) or drawn[-1],
            )  # fmt: skip
            policy = launch(
                env="cartpole", policy="dqn", exp_name=name, max_env_step=96,
                overrides=["pipeline.logger=[]", "policy.learn.batch_size=8",
                           "policy.learn.update_per_collect=16", "pipeline.final_eval=false",
                           "policy.collect.random_collect_size=32",
                           "policy.collect.n_sample=16", *more],
            ).policy  # fmt: skip
        assert bool(drawn) == bool(more)
        weights = [each.detach().numpy().ravel() for each in policy._model.parameters()]
        return np.concatenate(weights)

    plain = values("plain")
    prior = values("prior", "policy.priority=true")
    weighted = values("weighted", "policy.priority=true", "policy.priority_IS_weight=true")
    assert not np.array_equal(plain, prior)
    assert not np.array_equal(prior, weighted)


# ---- threads


@pytest.mark.parametrize("kernels", KERNELS)
def test_threads_push_draw_update_and_save(kernels: Any, tmp_path: Path) -> None:
    """G8, H13: no sample is torn, sums and counts hold, and no call waits for ever."""
    buffer = buffer_of(300, kernels=kernels, max_staleness=5)
    wide = 300

    def numbered(start: int, count: int) -> Batch:
        number = np.arange(start, start + count)
        obs = np.repeat(number[:, None], wide, 1)
        return Batch({"id": number, "obs": obs, "end": number, "collect_iter": number // 3000})

    buffer.push(numbered(0, 300))
    buffer.sample_batch(8)
    stop, torn = time.monotonic() + 0.8, [0]

    def push() -> None:
        start = 300
        while time.monotonic() < stop:
            buffer.push(numbered(start, 32))
            start += 32

    def draw() -> None:
        while time.monotonic() < stop:
            batch = buffer.sample_batch(32, buffer.push_count // 3000, reuse=True)
            whole = all(np.array_equal(batch["id"], batch[key])
                        for key in ("end", "replay_unique_id"))  # fmt: skip
            whole = whole and bool((batch["obs"] == batch["id"][:, None]).all())
            torn[0] += not whole
            ids = batch["replay_unique_id"]
            buffer.update({"replay_unique_id": ids, "priority": ids % 7 + 0.5})

    def look() -> None:
        while time.monotonic() < stop:
            assert buffer.check_valid() == (True, "")
            assert buffer.use_count.min() >= 0
            buffer.save_data(tmp_path / "data")
            twin = buffer_of(300)
            twin.load_data(tmp_path / "data")
            assert twin.check_valid() == (True, "")
            batch = twin.sample_batch(64)
            torn[0] += not (batch["obs"] == batch["id"][:, None]).all()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            for each in [threads.submit(each) for each in (push, draw, draw, look)]:
                each.result(timeout=200)
    finally:
        sys.setswitchinterval(interval)
    assert buffer.check_valid() == (True, "")
    assert torn == [0]


# ---- state


@pytest.mark.parametrize("size", [5, 8])
def test_state_goes_on_as_it_would_have(size: int) -> None:
    options = {"max_use": 9, "max_staleness": 30}
    buffer, twin = buffer_of(5, **options), buffer_of(size, **options)
    for start in range(0, 8, 2):
        stamped = {**numbered_rows(2, start).columns, "collect_iter": np.full(2, start)}
        buffer.push(Batch(stamped))
        batch = buffer.sample_batch(2)
        buffer.update({"replay_unique_id": batch["replay_unique_id"], "priority": [start, 1.0]})
    twin.push(Batch({**numbered_rows(3, 50).columns, "collect_iter": np.zeros(3, np.int64)}))
    twin.load_state_dict(buffer.state_dict())
    for each in (buffer, twin):
        assert each.check_valid() == (True, "")
    assert (twin.count(), twin.beta, twin.removed) == (buffer.count(), buffer.beta, buffer.removed)
    if size == 5:
        for _ in range(6):
            one, other = buffer.sample_batch(3, 20), twin.sample_batch(3, 20)
            for key in one.columns:
                assert np.array_equal(one[key], other[key]), key
    else:
        for first in range(5):  # by age
            chosen = slice(first, first + 1)
            one, other = buffer.sample_batch(1, 20, chosen), twin.sample_batch(1, 20, chosen)
            for key in one.columns.keys() - {"replay_buffer_idx", "IS"}:
                assert np.array_equal(one[key], other[key]), key


def test_the_state_of_a_naive_buffer_is_loaded_with_equal_priorities() -> None:
    naive, buffer = NaiveReplayBuffer({"replay_buffer_size": 4}), buffer_of(4)
    naive.push(numbered_rows(6))
    buffer.load_state_dict(naive.state_dict())
    assert buffer.check_valid() == (True, "")
    assert sorted(buffer.sample_batch(4)["action"].tolist()) == [2, 3, 4, 5]


def test_a_buffer_loads_its_own_state() -> None:
    """Its state has views of what loading overwrites."""
    buffer = with_priorities(1.0, 2.0, 3.0)
    buffer.push(numbered_rows(1, 3))
    buffer.sample_batch(3)
    uses, masses = buffer.use_count.copy(), buffer._tree.masses.copy()
    buffer.load_state_dict(buffer.state_dict())
    assert buffer.count() == 3
    assert np.array_equal(buffer._tree.masses, masses)
    assert np.array_equal(buffer.use_count, uses)


@pytest.mark.parametrize(
    "stamps",
    [np.zeros((3, 2)), np.zeros(2, int), np.full(3, np.nan), np.full(3, 2.5), np.full(3, 1 << 40),
     np.array([1, 2, -(1 << 63)]), np.array([*"abc"])],
)  # fmt: skip
def test_a_wrong_collect_iter_is_refused_whole(stamps: Any) -> None:
    buffer = buffer_of()
    with pytest.raises(SchemaError, match=r"collect_iter: expected whole numbers \[3\]"):
        buffer.push(Batch({**numbered_rows(3).columns, "collect_iter": stamps}, 3))
    assert (buffer.count(), buffer.push_count) == (0, 0)
    assert buffer.check_valid() == (True, "")


def test_a_refused_push_changes_nothing() -> None:
    buffer = buffer_of(4)
    buffer.push(numbered_rows(3))
    with pytest.raises(SchemaError):
        buffer.push(Batch({**numbered_rows(2).columns, "more": np.zeros(2)}))
    assert (buffer.count(), buffer.push_count) == (3, 3)
    assert len(buffer.push([])) == 0
    assert buffer.check_valid() == (True, "")


class AgainstAList(RuleBasedStateMachine):
    """Pushes, draws, updates, limits and states beside a plain list of samples."""

    CAPACITY, MAX_USE, MAX_STALENESS = 7, 4, 6

    def __init__(self) -> None:
        super().__init__()
        self.buffer = self.made()
        self.samples: dict[int, dict[str, float]] = {}
        self.pushed, self.iter, self.highest = 0, 0, 1.0

    def made(self) -> Any:
        options = {"max_use": self.MAX_USE, "max_staleness": self.MAX_STALENESS}
        return buffer_of(self.CAPACITY, priority_eps=1e-9, alpha=1.0, **options)

    @rule(count=st.integers(0, 9))
    def push(self, count: int) -> None:
        columns = numbered_rows(count, self.pushed).columns
        self.buffer.push(Batch({**columns, "collect_iter": np.full(count, self.iter)}, count))
        for number in range(self.pushed, self.pushed + count):
            self.samples[number] = {"priority": self.highest, "use": 0, "iter": self.iter}
        self.pushed += count
        for number in [n for n in self.samples if n < self.pushed - self.CAPACITY]:
            del self.samples[number]

    @rule(steps=st.integers(1, 3))
    def train(self, steps: int) -> None:
        self.iter += steps

    @precondition(lambda self: self.samples)
    @rule(data=st.data())
    def update(self, data: Any) -> None:
        numbers = st.lists(st.integers(0, self.pushed - 1), min_size=1, unique=True)
        for number in data.draw(numbers):
            priority = data.draw(st.floats(0, 100))
            self.buffer.update({"replay_unique_id": [number], "priority": [priority]})
            if number in self.samples:
                self.samples[number]["priority"] = priority + 1e-9
                self.highest = max(self.highest, priority + 1e-9)

    @rule(count=st.integers(1, 4))
    def draw(self, count: int) -> None:
        stale = self.iter - self.MAX_STALENESS
        fresh = {n: s for n, s in self.samples.items() if s["iter"] > stale}
        if len(fresh) < count:
            assert isinstance(self.buffer.sample_batch(count, self.iter), Refused)
        else:
            batch = self.buffer.sample_batch(count, self.iter)
            numbers = batch["action"].tolist()
            for row, number in enumerate(numbers):
                fresh[number]["use"] += 1
                assert batch["staleness"][row] == self.iter - fresh[number]["iter"]
                assert np.isclose(batch["priority"][row], fresh[number]["priority"])
            uses = {number: fresh[number]["use"] for number in numbers}
            assert batch["use"].tolist() == [uses[number] for number in numbers]
        self.samples = {n: s for n, s in fresh.items() if s["use"] < self.MAX_USE}
        assert all(s["use"] <= self.MAX_USE for s in fresh.values())

    @rule()
    def resume(self) -> None:
        twin = self.made()
        twin.load_state_dict(self.buffer.state_dict())
        self.buffer = twin

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.samples.clear()

    @invariant()
    def agrees(self) -> None:
        assert self.buffer.check_valid() == (True, "")
        assert self.buffer.count() == len(self.samples)
        assert self.buffer.push_count == self.pushed


AgainstAList.TestCase.settings = settings(
    max_examples=60 if SOAK else 25, stateful_step_count=40, deadline=None
)
TestAgainstAList = AgainstAList.TestCase


def test_ids_of_another_buffer_are_refused() -> None:
    """Their numbers are those of other samples here."""
    agent, demo = (buffer_of(instance_name=name) for name in ("agent", "demo_2"))
    for each in (agent, demo):
        each.push(numbered_rows(4))
    ids = [row["replay_unique_id"] for row in demo.sample(2)]
    before = agent.state_dict()["priority"].copy()
    with pytest.raises(UsageError, match=r"'demo_2_\d' is of the buffer 'demo_2'; this .* 'agent'"):
        agent.update({"replay_unique_id": ids, "priority": [9.0, 9.0]})
    assert np.array_equal(agent.state_dict()["priority"], before)
    demo.update({"replay_unique_id": ids, "priority": [9.0, 9.0]})
