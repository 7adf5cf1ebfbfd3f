"""Data on its way into buffers and out of them, and learning from it."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers import AdvancedReplayBuffer, NaiveReplayBuffer
from dicore_plugins.middleware import (
    OffPolicyLearner,
    data_pusher,
    offpolicy_data_fetcher,
    trainer,
)
from dicore_plugins.policies import DQNPolicy


def rows(count: int, mark: float = 0.0) -> Batch:
    rng = np.random.default_rng(0)
    return Batch(
        {
            "obs": rng.normal(size=(count, 4)).astype(np.float32),
            "next_obs": rng.normal(size=(count, 4)).astype(np.float32),
            "action": rng.integers(0, 2, count),
            "reward": np.full(count, mark, np.float32),
            "done": np.zeros(count, np.float32),
        }
    )


def filled(count: int = 100, mark: float = 0.0) -> NaiveReplayBuffer:
    buffer = NaiveReplayBuffer({}, rng=np.random.default_rng(0))
    buffer.push(rows(count, mark))
    return buffer


def mode(cfg: Any) -> Any:
    """A learn mode that takes the batches of several buffers by name too."""
    learn = DQNPolicy(cfg.policy).learn_mode
    return learn._replace(
        forward=lambda data: learn.forward(data["a"] if isinstance(data, dict) else data)
    )


class Told(NaiveReplayBuffer):
    """Numbers its draws as prioritized buffers do, and remembers the priorities it is told."""

    def __init__(self) -> None:
        super().__init__({})
        self.infos: list[Any] = []

    def sample_batch(self, batch_size: int, *args: Any, **kwargs: Any) -> Batch:
        drawn = super().sample_batch(batch_size, *args, **kwargs)
        ids = self._rng.integers(0, 1000, batch_size)
        return Batch({**drawn.columns, "replay_unique_id": ids}, batch_size)

    def update(self, info: Any) -> None:
        self.infos.append(
            {key: torch.as_tensor(value).numpy().copy() for key, value in info.items()}
        )


@pytest.mark.parametrize("group", [None, True])
def test_what_was_collected_is_pushed_and_cleared(make: Any, running: Any, group: Any) -> None:
    cfg, *_ = make()
    buffer, pushes = NaiveReplayBuffer({}), []
    push = buffer.push
    buffer.push = lambda data, **kw: pushes.append(len(data)) or push(data, **kw)  # type: ignore[method-assign]
    middleware = data_pusher(cfg, buffer, group_by_env=group)
    middleware(running.ctx)
    assert pushes == []
    data = rows(10)
    data.columns["reward"] = np.arange(10, dtype=np.float32)
    running.ctx.trajectories, running.ctx.trajectory_end_idx = data, [3, 6]
    middleware(running.ctx)
    assert buffer.count() == 10
    assert pushes == ([4, 3, 3] if group else [10])
    assert running.ctx.trajectories is None
    running.ctx.episodes = [data[:4].rows(), data[4:9].rows()]
    middleware(running.ctx)
    assert (buffer.count(), running.ctx.episodes) == (19, None)


def test_samples_without_their_marks_are_of_another_schema(make: Any, running: Any) -> None:
    """A buffer that was filled with the marks (`end`, `env_id`) refuses those without."""
    cfg, *_ = make()
    buffer, data = NaiveReplayBuffer({}), rows(10)
    marks = {"end": np.zeros(10, np.bool_), "env_id": np.zeros(10, np.int64)}
    data = Batch({**data.columns, **marks}, 10, ("one", "schema"))
    buffer.push(data)
    running.ctx.trajectories = data
    with pytest.raises(SchemaError, match="missing"):
        data_pusher(cfg, buffer)(running.ctx)


def test_a_fetch_hands_priorities_back(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.priority=true")
    buffer, policy = Told(), DQNPolicy(cfg.policy)
    buffer.push(rows(50))
    drawn: list[Any] = []
    running.use(offpolicy_data_fetcher(cfg, buffer))
    running.use(lambda ctx: drawn.append(np.array(ctx.train_data["replay_unique_id"])))
    running.use(trainer(cfg, policy.learn_mode))
    running.run(max_step=3)
    assert running.ctx.train_iter == 3
    assert len(buffer.infos) == 3
    for ids, info in zip(drawn, buffer.infos, strict=True):
        assert info["replay_unique_id"].tolist() == ids.tolist()
        assert info["priority"].shape == (16,)
        assert (info["priority"] >= 0).all()


def test_each_of_several_buffers_hears_of_its_own_rows(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.priority=true")
    one, two, policy = Told(), Told(), DQNPolicy(cfg.policy)
    for buffer in (one, two):
        buffer.push(rows(50))
    drawn: list[Any] = []
    running.use(offpolicy_data_fetcher(cfg, [(one, 0.25), (two, 0.75)]))
    running.use(lambda ctx: drawn.append(np.array(ctx.train_data["replay_unique_id"])))
    running.use(trainer(cfg, policy.learn_mode))
    running.run(max_step=2)
    assert [len(each.infos) for each in (one, two)] == [2, 2]
    for ids, *infos in zip(drawn, one.infos, two.infos, strict=True):
        assert [info["replay_unique_id"].tolist() for info in infos] == [
            ids[:4].tolist(),
            ids[4:].tolist(),
        ]
        assert [len(info["priority"]) for info in infos] == [4, 12]


def test_buffers_by_name_hear_of_priorities_by_name(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.priority=true")
    buffers = {"own": Told(), "expert": Told()}
    for buffer in buffers.values():
        buffer.push(rows(50))
    running.use(offpolicy_data_fetcher(cfg, buffers))

    def learn(ctx: Any) -> None:
        ctx.train_output = {"priority": {"expert": torch.full((16,), 2.0)}}

    running.use(learn)
    running.run(max_step=1)
    assert buffers["own"].infos == []
    assert set(buffers["expert"].infos[0]["priority"].tolist()) == {2.0}


def test_a_fetch_by_shares_or_by_name(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.learn.batch_size=64")
    one, two = filled(mark=1.0), filled(mark=2.0)
    seen: list[Any] = []
    for source in ([(one, 0.25), (two, 0.75)], {"own": one, "expert": two}):
        running.use(offpolicy_data_fetcher(cfg, source))
        running.use(lambda ctx: seen.append(ctx.train_data))
    running.run(max_step=1)
    joined, by_name = seen
    assert [(joined["reward"] == mark).sum() for mark in (1, 2)] == [16, 48]
    rewards = {name: batch["reward"].tolist() for name, batch in by_name.items()}
    assert rewards == {"own": [1.0] * 64, "expert": [2.0] * 64}


@pytest.mark.parametrize("shares", [(0.9, 0.9), (1.5, -0.5), (0.5, 0.4)])
def test_shares_that_are_no_whole_are_refused(make: Any, shares: tuple[float, float]) -> None:
    cfg, *_ = make()
    with pytest.raises(UsageError, match="1 in sum"):
        offpolicy_data_fetcher(cfg, [(filled(), share) for share in shares])


@pytest.mark.parametrize("form", ["one", "shares", "names"])
def test_a_shortage_skips_the_update_and_warns_once(
    make: Any, running: Any, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    cfg, *_ = make()
    short = filled(3)
    sources = {"one": short, "shares": [(filled(), 0.5), (short, 0.5)], "names": {"a": short}}
    quiet = offpolicy_data_fetcher(cfg, sources[form], data_shortage_warning=False)
    running.use(quiet).use(offpolicy_data_fetcher(cfg, sources[form]))
    running.use(trainer(cfg, mode(cfg)))
    with caplog.at_level(logging.WARNING, "dicore.data"):
        running.run(max_step=3)
    assert [record.message for record in caplog.records] == [
        f"no update yet: the buffer has 3 samples, a batch needs {8 if form == 'shares' else 16}"
    ]
    assert (running.ctx.train_iter, running.ctx.train_output) == (0, None)
    short.push(rows(20))
    running.run(max_step=1)
    assert running.ctx.train_iter == 1


def test_a_trainer_without_data_counts_nothing(make: Any, running: Any) -> None:
    cfg, *_ = make()
    middleware = trainer(cfg, DQNPolicy(cfg.policy).learn_mode)
    middleware(running.ctx)
    assert (running.ctx.train_iter, running.ctx.train_output) == (0, None)
    running.ctx.train_data = rows(16)
    middleware(running.ctx)
    assert running.ctx.train_iter == 1
    assert np.isfinite(float(running.ctx.train_output[0]["total_loss"]))


def test_a_learner_updates_as_often_as_configured(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.priority=true")
    buffer = Told()
    running.use(OffPolicyLearner(cfg, DQNPolicy(cfg.policy).learn_mode, buffer))
    seen: list[Any] = []
    running.use(lambda ctx: seen.append((ctx.train_iter, ctx.train_output)))
    running.run(max_step=1)
    buffer.push(rows(50))
    running.run(max_step=2)
    assert [each[0] for each in seen] == [0, 3, 6]
    assert [len(each[1] or ()) for each in seen] == [0, 3, 3]
    assert len(buffer.infos) == 6


def test_a_learner_stops_at_its_budget(make: Any, running: Any) -> None:
    cfg, *_ = make("pipeline.max_train_iter=4")
    running.use(OffPolicyLearner(cfg, DQNPolicy(cfg.policy).learn_mode, filled()))
    running.run(max_step=3)
    assert running.ctx.train_iter == 4


def test_a_reward_model_estimates_before_learning(make: Any, running: Any) -> None:
    cfg, *_ = make("policy.learn.update_per_collect=1", "policy.discount_factor=0.0")

    class Thousand:
        def estimate(self, data: Batch) -> Batch:
            return Batch({**data.columns, "reward": np.full(len(data), 1e3, np.float32)})

    mode, buffer = DQNPolicy(cfg.policy).learn_mode, filled()
    running.use(OffPolicyLearner(cfg, mode, buffer, Thousand()))
    losses: list[float] = []
    running.use(lambda ctx: losses.append(float(ctx.train_output[0]["total_loss"])))
    running.run(max_step=1)
    assert losses[0] == pytest.approx(1e3, rel=0.01)
    assert set(buffer.sample_batch(100)["reward"]) == {0.0}


class Refuses(NaiveReplayBuffer):
    """Refuses every push and draw, as throughput control may."""

    def push(self, *args: Any, **kwargs: Any) -> Any:
        return Refused("too fast")

    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        return Refused("too fast")

    def count(self) -> int:
        return 1000


def test_refused_samples_are_reported_once(
    make: Any, running: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cfg, *_ = make()
    push = data_pusher(cfg, Refuses({}))
    with caplog.at_level(logging.WARNING, "dicore.data"):
        for _ in range(2):
            running.ctx.trajectories = rows(4)
            push(running.ctx)
    assert [r.getMessage() for r in caplog.records] == [
        "the buffer drops samples that it refuses: too fast"
    ]


@pytest.mark.parametrize("form", ["one", "shares", "named"])
def test_a_refused_draw_is_no_update(
    make: Any, running: Any, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    cfg, *_ = make()
    source = {
        "one": Refuses({}),
        "shares": [(filled(), 0.5), (Refuses({}), 0.5)],
        "named": {"a": filled(), "b": Refuses({})},
    }[form]
    offpolicy_data_fetcher(cfg, source)(running.ctx)
    assert running.ctx.train_data is None
    assert caplog.messages == ["updates are skipped while the buffer refuses: too fast"]


@pytest.mark.parametrize("priority", [True, False])
def test_samples_that_are_used_up_end_the_updates(
    make: Any, running: Any, priority: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 8 samples, each drawn twice, there are 4 batches; the fifth update is skipped."""
    cfg, *_ = make(f"policy.priority={priority}", "policy.learn.update_per_collect=9")
    size = cfg.policy.learn.batch_size
    buffer = AdvancedReplayBuffer({"max_use": 2, "replay_buffer_size": 2 * size})
    buffer.push(rows(2 * size))
    learner = OffPolicyLearner(cfg, DQNPolicy(cfg.policy).learn_mode, buffer)
    for _ in range(2):
        learner(running.ctx)
    assert 1 < running.ctx.train_iter <= 4
    told = [each for each in caplog.messages if "updates are skipped" in each]
    assert len(told) == 1
    assert "max_use=2" in told[0]
