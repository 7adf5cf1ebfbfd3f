"""Collecting as middleware: exact numbers, and loops of inference and rollout against a journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import OnlineRLContext
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.evaluators import BaseSerialEvaluator
from dicore_plugins.middleware import (
    StepCollector,
    eps_greedy_handler,
    inferencer,
    interaction_evaluator,
    rolloutor,
)
from dicore_plugins.middleware.collect import TransitionList
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy
from tests.plugins.collectors.toy_envs import Journal, Step


def test_exactly_n_sample_per_step(make: Any, running: Any) -> None:
    cfg, env, _ = make()
    steps = []
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env))
    running.use(lambda ctx: steps.append((len(ctx.trajectories), ctx.env_step, ctx.env_episode)))
    running.run(max_step=6)
    assert [each[0] for each in steps] == [10] * 6
    assert [each[1] for each in steps] == [12 * n for n in range(1, 7)]
    assert steps[-1][2] > 0


def test_a_slow_collect_tells_how_far_it_is(
    make: Any, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg, env, _ = make("policy.collect.n_sample=40")
    now, told = [0.0], []
    monkeypatch.setattr("dicore_plugins.middleware.collect.time.monotonic", lambda: now[0])
    step = env.step_into
    monkeypatch.setattr(env, "step_into", lambda *a: now.__setitem__(0, now[0] + 0.2) or step(*a))
    log = SimpleNamespace(
        log_scalars=lambda *_, **__: None, log_progress=lambda **counts: told.append(counts)
    )
    run = SimpleNamespace(log=log, stop_requested=False)
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, run=run))
    running.run(max_step=1)
    assert told == [{"env_step": 4 * steps, "train_iter": 0} for steps in (3, 6, 9)]


def test_ends_are_told_with_the_samples(make: Any, running: Any) -> None:
    cfg, env, _ = make("policy.collect.n_sample=120")
    seen: list[Any] = []
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env))
    running.use(lambda ctx: seen.append((ctx.trajectories, ctx.trajectory_end_idx)))
    running.run(max_step=1)
    data, ends = seen[0]
    same = (data["next_obs"][:-4] == data["obs"][4:]).all(1)
    assert [index for index in ends if index < 116] == np.flatnonzero(~same).tolist()
    assert len(ends) >= 4


def test_warm_up_comes_first_and_counts(make: Any, running: Any) -> None:
    cfg, env, _ = make("policy.nstep=3")
    policy, acted = DQNPolicy(cfg.policy), []
    mode = policy.collect_mode

    def forward(obs: Any, **kwargs: Any) -> Any:
        acted.append(len(obs))
        return mode.forward(obs, **kwargs)

    mode = policy.collect_mode
    batches: list[Batch] = []
    collector = StepCollector(cfg, mode._replace(forward=forward), env, 40)
    running.use(collector)
    running.use(lambda ctx: batches.append(ctx.trajectories))
    running.run(max_step=1)
    assert (len(batches[0]), len(acted)) == (40, 0)
    assert collector.collector.envstep >= 40
    collector(running.ctx)
    assert len(acted) > 0
    assert running.ctx.trajectories.keys() == batches[0].keys()


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("warm_up", [0, 40])
@pytest.mark.parametrize(("budget", "made"), [(16, 16), (20, 20), (21, 24)])
def test_the_budget_ends_warm_up_and_collecting(
    make: Any, running: Any, nstep: int, warm_up: int, budget: int, made: int
) -> None:
    """Four environments step together; what n-step samples wait for counts too."""
    cfg, env, _ = make(f"pipeline.max_env_step={budget}", f"policy.nstep={nstep}")
    running.use(StepCollector(cfg, DQNPolicy(cfg.policy).collect_mode, env, warm_up))
    while running.ctx.env_step < budget:
        running.run(max_step=1)
    assert running.ctx.env_step == made


@pytest.mark.parametrize("env_step", [0, 10_000])
def test_epsilon_is_set_for_the_step_only(make: Any, running: Any, env_step: int) -> None:
    cfg, *_ = make()
    seen: list[Any] = []
    running.ctx.env_step = env_step
    kwargs = running.ctx.collect_kwargs
    running.use(eps_greedy_handler(cfg))
    running.use(lambda ctx: seen.append(dict(ctx.collect_kwargs)))
    running.run(max_step=1)
    expected = 0.1 + 0.85 * np.exp(-env_step / 10_000)
    assert seen == [{"eps": pytest.approx(expected)}]
    assert kwargs == {}


# ---- inference and rollout apart


def world(abnormal: tuple[int, ...] = ()) -> tuple[list[list[Step]], BaseEnvManager, DQNPolicy]:
    journals: list[list[Step]] = [[] for _ in range(3)]
    manager = BaseEnvManager(
        [lambda i=i: Journal(journals[i], abnormal if i == 1 else ()) for i in range(3)]
    )
    return journals, manager, DQNPolicy({}, model=DQN(2, 3, (4,)))


def matches(row: dict[str, Any], step: Step) -> bool:
    return (
        bool((row["obs"] == step["obs"]).all() and (row["next_obs"] == step["next_obs"]).all())
        and int(row["action"]) == step["action"]
        and np.isclose(row["reward"], step["reward"])
        and float(row["done"]) == float(step["terminated"])
    )


def test_inference_tells_what_it_saw_and_chose(running: Any) -> None:
    _, manager, policy = world()
    running.use(inferencer(0, policy.collect_mode, manager))
    seen: list[OnlineRLContext] = []
    running.use(seen.append)
    running.run(max_step=1)
    ctx = seen[0]
    assert list(ctx.obs) == list(ctx.action) == list(ctx.inference_output) == [0, 1, 2]
    assert (ctx.obs.value == manager.ready_obs.value).all()
    assert (ctx.action.value == ctx.inference_output.value["action"]).all()
    manager.close()


def test_a_loop_of_both_gives_what_the_environments_did(running: Any) -> None:
    journals, manager, policy = world()
    kept, mode = TransitionList(3), policy.collect_mode
    pushed: list[Any] = []
    running.use(inferencer(0, mode, manager))
    running.use(rolloutor(mode, manager, kept))
    running.use(lambda ctx: pushed.extend(ctx.trajectories))
    running.run(max_step=40)
    assert running.ctx.env_step == sum(map(len, journals)) == 120
    assert running.ctx.env_episode == sum(each["end"] for j in journals for each in j) > 10
    rows, ends = kept.to_trajectories()
    steps = [step for journal in journals for step in journal]
    assert len(rows) == 120
    assert all(matches(row, step) for row, step in zip(rows, steps, strict=True))
    assert ends == [i for i, each in enumerate(steps) if each["end"] or i % 40 == 39]
    by_turns = [journals[i % 3][i // 3] for i in range(120)]
    assert all(matches(row, step) for row, step in zip(pushed, by_turns, strict=True))
    manager.close()


def test_environments_that_answer_later_keep_what_they_saw(make: Any, running: Any) -> None:
    """Of a manager that waits for some of its environments only: x' = x + 0.02 v in CartPole."""
    cfg, manager, _ = make("env.manager=async_subprocess", "policy.nstep=1")
    mode, kept = DQNPolicy(cfg.policy).collect_mode, TransitionList(4)
    running.use(inferencer(0, mode, manager)).use(rolloutor(mode, manager, kept))
    running.run(max_step=40)
    rows, _ = kept.to_trajectories()
    obs, after = (np.stack([row[key] for row in rows]) for key in ("obs", "next_obs"))
    np.testing.assert_allclose(after[:, 0], obs[:, 0] + 0.02 * obs[:, 1], atol=1e-5)


def test_an_abnormal_step_drops_its_episode(running: Any) -> None:
    journals, manager, policy = world(abnormal=(5, 20))
    forgotten: list[Any] = []
    mode = policy.collect_mode._replace(reset=forgotten.append)
    kept = TransitionList(3)
    running.use(inferencer(0, mode, manager))
    running.use(rolloutor(mode, manager, kept))
    running.run(max_step=30)
    spoilt = {step["episode"] for step in journals[1] if step["abnormal"]}
    assert len(spoilt) == 2
    wanted = [
        step
        for env_id, journal in enumerate(journals)
        for step in journal
        if env_id != 1 or step["episode"] not in spoilt
    ]
    rows, _ = kept.to_trajectories()
    assert all(matches(row, step) for row, step in zip(rows, wanted, strict=True))
    assert forgotten.count([1]) == len({step["episode"] for step in journals[1] if step["end"]}) + 2
    assert running.ctx.env_step == 90 - 2
    manager.close()


@pytest.mark.parametrize("nothing", [None, []])
def test_a_collector_that_brings_nothing_is_refused(make: Any, running: Any, nothing: Any) -> None:
    """It would go on for ever: no env step is ever made, so no budget ends."""
    cfg, env, _ = make()

    class Idle(SampleCollector):
        def collect_batch(self, *args: Any, **options: Any) -> Any:
            return nothing

    mode = DQNPolicy(cfg.policy).collect_mode
    idle = Idle(cfg.policy.collect.collector, env, mode)
    running.use(StepCollector(cfg, mode, env, collector=idle))
    with pytest.raises(UsageError, match=r"Idle\.collect_batch returned no samples"):
        running.run(max_step=3)


def test_an_evaluator_of_another_form_is_told_so(make: Any, running: Any) -> None:
    cfg, _, env = make("policy.eval.evaluator.eval_at_start=true")

    class Bare(BaseSerialEvaluator):
        def eval(self, *args: Any, **options: Any) -> Any:
            return 5.0

    mode = DQNPolicy(cfg.policy).eval_mode
    bare = Bare(cfg.policy.eval.evaluator, env, mode)
    running.use(interaction_evaluator(cfg, mode, env, evaluator=bare))
    with pytest.raises(UsageError, match=r"Bare\.eval returned a float") as told:
        running.run(max_step=1)
    assert "EvalResult" in told.value.hint
