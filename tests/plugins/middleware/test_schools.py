"""Middleware that other schools than replay need: settings, datasets, rewards, interruption."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.interfaces.policy import LearnMode
from dicore.task import OfflineRLContext, OnlineRLContext, StepInterrupted, Task, TaskState
from dicore_compat.deque import DequeBuffer
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.middleware import (
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    multistep_trainer,
    offline_data_fetcher,
    reward_model_trainer,
    settings_handler,
)
from dicore_plugins.policies import DQNPolicy, PPOPolicy
from dicore_plugins.policies.rewards import with_reward_model


def test_settings_come_from_the_command_mode(make: Any, running: Any) -> None:
    cfg, *_ = make()
    policy, seen = DQNPolicy(cfg.policy), []
    running.ctx.env_step = 10_000
    running.use(settings_handler(policy.command_mode))
    running.use(lambda ctx: seen.append(ctx.collect_kwargs))
    running.run(max_step=1)
    assert seen == [{"eps": pytest.approx(0.1 + 0.85 * np.exp(-1))}]


def learn_mode(cfg: Any, made: list[Any], updates: int = 1) -> LearnMode:
    def forward(data: Any, **settings: Any) -> Any:
        made.append((data, settings))
        return [{"total_loss": 0.0}] * updates

    return DQNPolicy(cfg.policy).learn_mode._replace(forward=forward)


@pytest.mark.parametrize("per_step", [0.25, 1.0, 2.5])
def test_updates_per_env_step(make: Any, running: Any, per_step: float) -> None:
    """As many as env steps ask for, whatever the size of a collect; no more after a warm-up."""
    cfg, env, _ = make(
        f"policy.learn.update_per_step={per_step}", "policy.learn.update_per_collect=null"
    )
    made: list[Any] = []
    buffer = NaiveReplayBuffer({})
    policy = DQNPolicy(cfg.policy)
    running.use(StepCollector(cfg, policy.collect_mode, env, 100))
    running.use(data_pusher(cfg, buffer))
    settings = lambda info: {"info": info}  # noqa: E731
    running.use(OffPolicyLearner(cfg, learn_mode(cfg, made), buffer, settings=settings))
    running.run(max_step=1)
    assert len(made) == 1  # 100 env steps of warm-up
    steps = running.ctx.env_step
    running.run(max_step=20)
    now = running.ctx.env_step
    assert len(made) == 1 + int(now * per_step) - int(steps * per_step)
    assert made[-1][1]["info"] == {
        "envstep": now,
        "learner_step": made[-1][1]["info"]["learner_step"],
    }


def test_env_steps_of_a_warm_up_ask_for_no_updates_after_pretraining(
    make: Any, running: Any
) -> None:
    cfg, env, _ = make("policy.learn.update_per_step=1", "policy.learn.update_per_collect=null")
    made: list[Any] = []
    buffer, mode = NaiveReplayBuffer({}), learn_mode(cfg, made)
    learner = cfg.policy.learn.learner.build(None, policy=mode)
    learner.train(None)  # an update of demonstrations
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, 100))
    running.use(data_pusher(cfg, buffer))
    running.use(OffPolicyLearner(cfg, learner, buffer))
    running.run(max_step=1)
    assert len(made) == 2
    before = running.ctx.env_step
    running.run(max_step=1)
    assert len(made) == 2 + running.ctx.env_step - before


@pytest.mark.parametrize(("warm_up", "begins"), [(4, 4), (64, 16), (0, 16)])
def test_updates_begin_after_a_warm_up_shorter_than_a_batch(
    make: Any, running: Any, warm_up: int, begins: int
) -> None:
    """Batches have their size from the first, drawn with replacement from fewer samples."""
    cfg, *_ = make(f"policy.collect.random_collect_size={warm_up}")
    made: list[Any] = []
    buffer, row = NaiveReplayBuffer({}), {"reward": 0.0}
    running.use(OffPolicyLearner(cfg, learn_mode(cfg, made), buffer))
    buffer.push([row] * (begins - 1))
    running.run(max_step=1)
    assert not made
    buffer.push(row)
    running.run(max_step=1)
    assert [len(data) for data, _ in made] == [16] * 3


def test_one_call_makes_several_updates(make: Any, running: Any) -> None:
    cfg, env, _ = make()
    made: list[Any] = []
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, reuse=True))
    running.use(
        multistep_trainer(cfg, learn_mode(cfg, made, updates=4), settings=lambda info: info)
    )
    running.run(max_step=3)
    assert running.ctx.train_iter == 12
    assert [len(data) for data, _ in made] == [10, 10, 10]
    assert made[2][1] == {"envstep": 36, "learner_step": 8}
    assert running.ctx.trajectories is None


@pytest.mark.parametrize("form", ["positions", "keywords"])
def test_several_updates_without_the_whole_config(make: Any, running: Any, form: str) -> None:
    """`multistep_trainer(policy, log_freq)`: the learner is that of the policy's options."""
    hooks = 'policy.learn.learner.hook={"log_show_after_iter": 100}'
    sizes = ("policy.learn.epoch_per_collect=2", "policy.collect.n_sample=32")
    cfg, env, _ = make("policy.type=ppo", *sizes, hooks)
    policy = PPOPolicy(cfg.policy)
    if form == "positions":
        trainer = multistep_trainer(policy.learn_mode, 3)
    else:
        trainer = multistep_trainer(policy=policy, log_freq=3)
    (learner,) = trainer.uses  # type: ignore[attr-defined]
    (hook,) = [each for each in learner.hooks["after_iter"] if each.name == "log_show_after_iter"]
    assert hook._interval.length == 3
    running.use(StepCollector(cfg, policy.collect_mode, env)).use(trainer)
    running.run(max_step=2)
    assert running.ctx.train_iter == 4


def test_a_learner_logs_by_its_own_hooks(make: Any) -> None:
    cfg, *_ = make()
    learner = cfg.policy.learn.learner.build(None, policy=DQNPolicy(cfg.policy).learn_mode)
    with pytest.raises(UsageError, match="log_freq has no effect on a learner"):
        multistep_trainer(learner, 3)


class Numbers:
    """A dataset of the numbers from 0."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def take(self, index: Any) -> Batch:
        return Batch({"number": np.arange(self.count)[index]})


@pytest.mark.parametrize("count", [16, 33, 40])
def test_each_sample_once_per_epoch(make: Any, count: int) -> None:
    cfg, *_ = make()
    epochs: dict[int, list[int]] = {}

    def read(ctx: Any) -> None:
        assert len(ctx.train_data) <= 16
        epochs.setdefault(ctx.train_epoch, []).extend(ctx.train_data["number"].tolist())

    per_epoch = -(-count // 16)
    for first, steps in ((0, per_epoch + 1), (per_epoch + 1, per_epoch * 2 - 1)):  # resumed
        with Task().start(ctx=OfflineRLContext(total_step=first)) as task:
            task.use(offline_data_fetcher(cfg, Numbers(count)))
            task.use(read)
            task.run(max_step=steps)
    assert sorted(epochs) == [0, 1, 2]
    assert all(sorted(found) == list(range(count)) for found in epochs.values())
    assert epochs[0] != epochs[1] != list(range(count))
    with pytest.raises(UsageError, match="empty"):
        offline_data_fetcher(cfg, Numbers(0))


def test_a_data_set_of_torch_is_fetched_too(make: Any) -> None:
    cfg, *_ = make("policy.learn.batch_size=3")
    buffer, fetched = DequeBuffer(5), []
    for number in range(5):
        buffer.push({"obs": np.full(2, number, np.float32)})
    loaded = next(iter(DataLoader(buffer, batch_size=5)))  # type: ignore[arg-type]
    assert loaded["obs"][:, 0].tolist() == [0, 1, 2, 3, 4]
    with Task().start(ctx=OfflineRLContext()) as task:
        task.use(offline_data_fetcher(cfg, buffer))
        task.use(lambda ctx: fetched.extend(ctx.train_data["obs"][:, 0].tolist()))
        task.run(max_step=2)
    assert sorted(fetched) == [0, 1, 2, 3, 4]


# ---- pieces of one environment


@pytest.mark.parametrize("group", [None, True])
def test_pieces_do_not_mix_environments(make: Any, running: Any, group: Any) -> None:
    """Interleaved samples of 4 environments become pieces in order, unfinished ones too."""
    cfg, env, _ = make("policy.collect.n_sample=200")
    pushed: list[Batch] = []
    buffer = SimpleNamespace(push=lambda data, cur_collector_envstep: pushed.append(data))
    seen: list[Batch] = []
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env))
    running.use(lambda ctx: seen.append(ctx.trajectories))
    running.use(data_pusher(cfg, buffer, group_by_env=group))
    running.run(max_step=1)
    data = seen[0]
    assert not any({"end", "env_id"} & {*piece.keys()} for piece in pushed)
    if not group:
        assert [len(piece) for piece in pushed] == [200]
        return
    assert len(pushed) == data["end"].sum() + (~data["end"][-4:]).sum() > 8
    wanted = [data["obs"][data["env_id"] == env_id] for env_id in range(4)]
    assert (np.concatenate([piece["obs"] for piece in pushed]) == np.concatenate(wanted)).all()
    for piece in pushed:
        assert (piece["obs"][1:] == piece["next_obs"][:-1]).all()


# ---- rewards


class Bonus:
    """Adds 100 to every reward; remembers what it was given."""

    def __init__(self) -> None:
        self.rows: list[Batch] = []
        self.trained = 0

    def collect_data(self, data: Batch) -> None:
        self.rows.append(data.copy())

    def estimate(self, data: Batch) -> Batch:
        return Batch({**data.columns, "reward": data["reward"] + 100}, len(data))

    def train(self) -> None:
        self.trained += 1


@pytest.mark.parametrize("nstep", [1, 3])
def test_rewards_come_before_returns(make: Any, running: Any, nstep: int) -> None:
    cfg, env, _ = make(f"policy.nstep={nstep}", "policy.collect.n_sample=20")
    bonus, mode = Bonus(), DQNPolicy(cfg.policy).collect_mode
    samples: list[Batch] = []
    running.use(StepCollector(cfg, with_reward_model(mode, bonus), env))
    running.use(reward_model_trainer(bonus))
    running.use(lambda ctx: samples.append(ctx.trajectories))
    running.run(max_step=10)
    assert bonus.trained == 10
    collected = Batch.concat(bonus.rows)
    assert len(collected) == running.ctx.env_step  # each row once
    assert set(collected["reward"].tolist()) == {1.0}  # CartPole's
    gamma = cfg.policy.discount_factor
    full = sum(101 * gamma**k for k in range(nstep))
    rewards = Batch.concat(samples)["reward"]
    assert np.isclose(rewards.max(), full)
    assert (rewards > 100).all()


# ---- interruption


@pytest.mark.parametrize("nstep", [1, 3])
def test_an_interrupted_collect_goes_on(make: Any, running: Any, nstep: int) -> None:
    """The samples are those of an undisturbed collect, also with another collector."""
    options = (f"policy.nstep={nstep}", "policy.collect.n_sample=40")
    runs = []
    for _ in range(2):
        cfg, env, _ = make(*options)
        collector = SampleCollector(
            cfg.policy.collect.collector, env, DQNPolicy(cfg.policy).collect_mode
        )
        runs.append(collector)
    plain, stopped = runs
    kwargs = {"policy_kwargs": {"eps": 0.0}}
    wanted = [plain.collect_batch(n_sample=40, **kwargs) for _ in range(3)]
    found = []
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked % 4 == 0

    while len(found) < 3:
        data = stopped.collect_batch(n_sample=40, should_stop=stop, **kwargs)
        if len(data):
            found.append(data)
        else:
            stopped.load_state_dict(stopped.state_dict())
    assert asked > 12
    for one, other in zip(wanted, found, strict=True):
        assert all((one[key] == other[key]).all() for key in one.keys())  # noqa: SIM118


def test_a_step_that_is_interrupted_is_repeated() -> None:
    seen: list[int] = []
    closed: list[int] = []
    task = Task()

    def suspended(ctx: Any) -> Iterator[None]:
        try:
            yield
        finally:
            closed.append(ctx.total_step)

    def interrupt(ctx: Any) -> None:
        seen.append(ctx.total_step)
        if ctx.total_step == 1:
            raise StepInterrupted

    with task.start(ctx=OnlineRLContext()):
        task.use(suspended)
        task.use(interrupt)
        task.use(lambda ctx: seen.append(-1))
        task.run()
        assert task.finish
        assert TaskState(task).state_dict()["total_step"] == 1
    assert (seen, closed) == ([0, -1, 1], [0, 1])


def test_a_warm_up_is_followed_by_whole_episodes(make: Any, running: Any) -> None:
    """The outputs of the random policy have fewer columns than those of the policy after it."""
    cfg, env, _ = make("policy.traj_len_inf=true", "policy.nstep=3")
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, 30))
    batches: list[Batch] = []
    running.use(lambda ctx: batches.append(ctx.trajectories))
    running.run(max_step=4)
    assert all(data["end"][-1] for data in batches)
    assert sum(map(len, batches)) <= running.ctx.env_step


def test_an_interrupted_warm_up_is_finished_when_resumed(make: Any, running: Any) -> None:
    """Its env steps are no samples yet, however many they are."""
    cfg, env, _ = make("policy.nstep=3", "policy.collect.n_sample=8")
    stops = iter([True])
    run = SimpleNamespace(log=None, stop_requested=False)
    step = StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, 10, run=run)
    forward = step.collector._step

    def interrupted(action: Any) -> Any:
        run.stop_requested = step.collector.envstep >= 10 and next(stops, False)
        return forward(action)

    step.collector._step = interrupted
    with pytest.raises(StepInterrupted):
        step(running.ctx)
    assert step.collector.envstep > 10
    run.stop_requested = False
    step(running.ctx)
    assert len(running.ctx.trajectories) == 10


def test_sequences_keep_the_ends_of_episodes(make: Any, running: Any) -> None:
    """After them, a recurrent state is reset; those of single steps only tell where they end."""
    cfg, *_ = make()
    for shape, kept in (((6, 3), True), ((6,), False)):
        buffer = NaiveReplayBuffer({})
        columns = {"reward": np.zeros(shape, np.float32), "end": np.ones(shape, np.bool_)}
        running.ctx.trajectories = Batch({**columns, "env_id": np.zeros(6, np.int64)}, 6)
        data_pusher(cfg, buffer)(running.ctx)
        assert ("end" in buffer.sample_batch(2)) is kept
