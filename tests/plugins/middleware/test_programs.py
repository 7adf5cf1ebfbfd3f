"""The documents' programs: going from one school to another changes lines, in both modes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import numpy as np
import pytest

from dicore.errors import TaskError
from dicore.task import OnlineRLContext, task
from dicore_compat.middleware import (
    gae_estimator,
    offline_data_saver,
    priority_calculator,
    reward_estimator,
)
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.middleware import (
    CkptSaver,
    EpisodeCollector,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    eps_greedy_masker,
    inferencer,
    interaction_evaluator,
    multistep_trainer,
    offpolicy_data_fetcher,
    rolloutor,
    trainer,
)
from dicore_plugins.policies import DQNPolicy, PPOPolicy

PPO = ("policy.type=ppo", "policy.learn.epoch_per_collect=1", "policy.learn.update_per_collect=1")


def off_policy(
    cfg: Any, policy: Any, collector_env: Any, evaluator_env: Any, mode: bool, buffer_: Any
) -> Any:
    with task.start(async_mode=mode, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(data_pusher(cfg, buffer_))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(CkptSaver(cfg, policy, train_freq=100))
        task.run(max_step=4)
        return task.ctx


def on_policy(
    cfg: Any, policy: Any, collector_env: Any, evaluator_env: Any, mode: bool, buffer_: Any
) -> Any:
    with task.start(async_mode=mode, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(gae_estimator(cfg, policy.collect_mode))
        task.use(multistep_trainer(cfg, policy.learn_mode))
        task.use(CkptSaver(cfg, policy, train_freq=100))
        task.run(max_step=4)
        return task.ctx


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("program", [off_policy, on_policy])
def test_both_programs_run_in_both_modes(make: Any, program: Any, mode: bool) -> None:
    options = PPO if program is on_policy else ()
    cfg, env, evaluator_env = make(
        "env.stop_value=inf",
        "policy.collect.n_sample=16",
        "policy.learn.batch_size=16",
        "policy.eval.evaluator.eval_freq=1",
        *options,
    )
    policy = (PPOPolicy if program is on_policy else DQNPolicy)(cfg.policy)
    ctx = program(cfg, policy, env, evaluator_env, mode, NaiveReplayBuffer({}))
    assert (ctx.total_step, ctx.env_step) == (3, 64)
    assert ctx.train_iter == (4 if program is on_policy else 12)
    assert ctx.last_eval_iter >= 0


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("declared", [True, False])
def test_samples_that_no_middleware_reads_are_refused_before_the_first_step(
    make: Any, mode: bool, rolls: bool, declared: bool
) -> None:
    """A middleware that declares nothing may read them; then the program runs."""
    cfg, env, evaluator_env = make("env.stop_value=inf", "policy.collect.n_sample=16")
    policy, buffer = DQNPolicy(cfg.policy), NaiveReplayBuffer({})
    env.launch()
    steps: list[int] = []
    with task.start(async_mode=mode, ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        if rolls:
            task.use(inferencer(0, policy.collect_mode, env))
            task.use(rolloutor(policy.collect_mode, env))
        else:
            task.use(StepCollector(cfg, policy.collect_mode, env))
        task.use(priority_calculator())  # changes them only
        if not declared:
            task.use(lambda ctx: steps.append(len(ctx.trajectories)))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
        task.use(CkptSaver(cfg, policy, train_freq=100))
        if declared:
            told = "writes ctx.trajectories, which no other middleware reads: 'OffPolicyLearner'"
            with pytest.raises(TaskError, match=told):
                task.run(max_step=3)
        else:
            task.run(max_step=3)
        assert len(steps) == (0 if declared else 3)


def test_a_program_has_at_most_ten_lines() -> None:
    for program in (off_policy, on_policy):
        tree = ast.parse(textwrap.dedent(inspect.getsource(program)))
        body = tree.body[0].body[0]  # type: ignore[attr-defined]
        assert 1 + len(body.body) - 1 <= 10


# ---- further collectors


def test_whole_episodes_are_collected_and_pushed(make: Any, running: Any) -> None:
    cfg, env, _ = make()
    buffer, seen = NaiveReplayBuffer({}), []
    running.use(EpisodeCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, n_episode=6))
    running.use(lambda ctx: seen.append((ctx.episodes, ctx.env_step, ctx.env_episode)))
    running.use(data_pusher(cfg, buffer))
    running.run(max_step=2)
    for episodes, *_ in seen:
        assert len(episodes) == 6
        for episode in episodes:
            assert (episode["obs"][1:] == episode["next_obs"][:-1]).all()
            assert episode["end"].tolist() == [False] * (len(episode) - 1) + [True]
            assert len(np.unique(episode["env_id"])) == 1
    steps = [sum(map(len, episodes)) for episodes, *_ in seen]
    assert [each[1] for each in seen] == np.cumsum(steps).tolist()
    assert [each[2] for each in seen] == [6, 12]
    assert buffer.count() == sum(steps)


def test_random_episodes_come_first(make: Any, running: Any) -> None:
    cfg, env, _ = make()
    mode = DQNPolicy(cfg.policy).collect_mode
    running.use(EpisodeCollector(cfg, mode, env, 50, n_episode=2))
    running.use(lambda ctx: seen.append(sum(map(len, ctx.episodes))))
    seen: list[int] = []
    running.run(max_step=2)
    assert seen[0] >= 50
    assert running.ctx.env_episode >= 6


def test_nothing_is_explored_with_the_mask(running: Any) -> None:
    seen: list[Any] = []
    kwargs = running.ctx.collect_kwargs
    running.use(eps_greedy_masker()).use(lambda ctx: seen.append(dict(ctx.collect_kwargs)))
    running.run(max_step=1)
    assert seen == [{"eps": 0.0}]
    assert kwargs == {}


@pytest.mark.parametrize("late", ["priorities", "data_set", "rewards"])
def test_what_comes_after_the_one_that_takes_it_is_reported(
    make: Any, running: Any, late: str
) -> None:
    """It would find nothing, or what it writes would not be read."""
    cfg, env, _ = make()
    policy, buffer = DQNPolicy(cfg.policy), NaiveReplayBuffer({})
    running.use(StepCollector(cfg, policy.collect_mode, env)).use(data_pusher(cfg, buffer))
    running.use(offpolicy_data_fetcher(cfg, buffer)).use(trainer(cfg, policy.learn_mode))
    running.use({
        "priorities": priority_calculator,
        "data_set": lambda: offline_data_saver("x.npz"),
        "rewards": lambda: reward_estimator(cfg, object()),
    }[late]())  # fmt: skip
    with pytest.raises(TaskError, match=r"writes or leaves; 'StepCollector' does|has run"):
        running.run(max_step=1)
