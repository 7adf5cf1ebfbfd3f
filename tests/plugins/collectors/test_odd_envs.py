"""Environments that behave oddly: every collect and evaluation ends, with data or one error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.errors import DicoreError, EnvError, NonFiniteError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext, task
from dicore_plugins.collectors import EpisodeCollector, SampleCollector
from dicore_plugins.env_managers import BaseEnvManager, ThreadEnvManager
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.middleware import (
    StepCollector,
    inferencer,
    interaction_evaluator,
    rolloutor,
)

STEPS = (
    "goes on", "ends", "is cut", "abnormal", "abnormal and ends", "abnormal array", "empty info",
    "raises", "exits", "nan obs", "nan reward", "no info", "wrong shape", "wrong dtype", "no obs",
    "text reward", "four results", "slow",
)  # fmt: skip
RESETS = (
    "begins", "raises", "exits", "nan obs", "abnormal", "no info", "wrong shape", "wrong dtype",
)  # fmt: skip
OBSERVED = {
    "nan obs": np.full(2, np.nan, np.float32), "wrong shape": np.zeros(3, np.float32),
    "wrong dtype": np.array(["a", "b"]), "no obs": None,
}  # fmt: skip
OBS, ACTIONS = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)
LIMIT = 30_000
"""Steps and resets after which a loop is taken to be endless."""
ENDLESS: list[gym.Env[Any, Any]] = []
"""Environments that were stepped so often."""


class OddEnv(gym.Env[Any, Any]):
    """Does what two scripts say, again and again."""

    def __init__(self, steps: Sequence[str], resets: Sequence[str]) -> None:
        self.observation_space, self.action_space = OBS, ACTIONS
        self._steps, self._resets, self.count, self.begun = steps, resets, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        kind = self._resets[self.begun % len(self._resets)]
        self.begun += 1
        if kind == "raises":
            raise RuntimeError("no start")
        if kind == "exits":
            raise SystemExit(3)
        info = {"abnormal": True} if kind == "abnormal" else {}
        return OBSERVED.get(kind, np.zeros(2, np.float32)), None if kind == "no info" else info

    def step(self, action: Any) -> Any:
        kind = self._steps[self.count % len(self._steps)]
        self.count += 1
        if self.count + self.begun > LIMIT:
            ENDLESS.append(self)
            raise RuntimeError("this would go on for ever")
        if kind == "raises":
            raise RuntimeError("broken")
        if kind == "exits":
            raise SystemExit(3)
        info: Any = {"abnormal": "lost contact"} if kind.startswith("abnormal") else {"x": 1}
        info = {"abnormal": np.array([True])} if kind == "abnormal array" else info
        info = {"empty info": {}, "no info": None}.get(kind, info)
        obs = OBSERVED.get(kind, np.zeros(2, np.float32))
        reward = {"nan reward": float("nan"), "text reward": "1"}.get(kind, 1.0)
        if kind == "slow":
            time.sleep(0.001)
        if kind == "four results":
            return obs, reward, False, info
        return obs, reward, kind in ("ends", "abnormal and ends"), kind == "is cut", info


def policy_of(name: str, *overrides: str) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": name}}, overrides=overrides
    )
    seed_everything(0)
    return bind(compiled, EnvSpec(OBS, ACTIONS)).policy.build(None)


POLICIES = {
    "dqn": policy_of("dqn"), "ppo": policy_of("ppo"), "pg": policy_of("pg"),
    "dqn_to_the_end": policy_of("dqn", "policy.traj_len_inf=true"),
}  # fmt: skip


def play(way: str, name: str, manager: Any, other: Any = None) -> int:
    """Collects or evaluates, or both in a task; returns what came of it."""
    policy = POLICIES[name]
    if way.startswith("task"):
        options = {"n_episode": 2, "max_episode_steps": 50, "eval_at_start": True, "eval_freq": 1}
        with task.start(async_mode=way == "task beside", ctx=OnlineRLContext()):
            evaluator = InteractionEvaluator(options, manager, policy.eval_mode)
            task.use(interaction_evaluator(None, policy.eval_mode, None, evaluator=evaluator))
            amount = {"n_episode": 2} if name == "pg" else {"n_sample": 8}
            collector = SampleCollector(amount, other, policy.collect_mode)
            task.use(StepCollector(None, policy.collect_mode, None, collector=collector))
            task.run(max_step=3)
            return int(task.ctx.env_step)
    if way == "evaluator":
        evaluator = InteractionEvaluator(
            {"n_episode": 3, "max_episode_steps": 50}, manager, policy.eval_mode
        )
        return len(evaluator.eval().returns)
    cls: Any = EpisodeCollector if way == "episode" else SampleCollector
    collector = cls(None, manager, policy.collect_mode)
    amount = {"n_episode": 4} if way != "sample" or name == "pg" else {"n_sample": 24}
    budget = {"should_stop": lambda: collector.envstep >= 400}  # as that of a run
    return len(collector.collect_batch(**amount, **budget))


WAYS = ("sample", "sampled episodes", "episode", "evaluator", "task", "task beside")
SCRIPTS = st.tuples(
    st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), min_size=1, max_size=2),
    st.lists(st.sampled_from(RESETS), min_size=1, max_size=3),
    st.sampled_from(WAYS),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from((BaseEnvManager, ThreadEnvManager)),
)


def ends(steps: list[list[str]], resets: list[str], way: str, name: str, kind: Any) -> None:
    ENDLESS.clear()
    options = {"restart_budget": 20, "retry_waiting_time": 0}
    limit = 400 if way.startswith("task") else LIMIT  # a task has no budget of steps
    makers = [lambda each=each: TimeLimit(OddEnv(each, resets), limit) for each in steps]
    with (
        kind(makers, options) as manager,
        kind(makers, options) as other,
        contextlib.suppress(DicoreError),
    ):
        play(way, name, manager, other)
    assert not ENDLESS


def test_waiting_for_an_episode_that_never_ends_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_plugins.collectors.sample.collector._LONG", 100)
    with BaseEnvManager([lambda: OddEnv(["goes on"], ["begins"])]) as manager:
        assert play("episode", "pg", manager) == 0
    assert "no episode has ended in 100 steps, and PGPolicy waits for one" in caplog.text


@settings(max_examples=15, deadline=None)
@given(SCRIPTS)
def test_whatever_an_environment_does_the_call_ends(script: Any) -> None:
    ends(*script)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(SCRIPTS)
def test_whatever_an_environment_does_the_call_ends_in_many_cases(script: Any) -> None:
    ends(*script)


@pytest.mark.parametrize("way", ["episode", "sampled episodes", "evaluator", "to the end"])
@pytest.mark.parametrize("step", ["abnormal", "abnormal and ends", "abnormal array"])
def test_nothing_but_abnormal_episodes_is_an_error_with_env_and_reason(way: str, step: str) -> None:
    manager = BaseEnvManager([lambda: OddEnv(["goes on", step], ["begins"])] * 2)
    name = "dqn_to_the_end" if way == "to the end" else "dqn"
    reason = "its info has 'abnormal'" if step == "abnormal array" else "lost contact"
    with pytest.raises(EnvError, match=rf"all abnormal and give no data; env [01]: {reason}"):
        play("sample" if way == "to the end" else way, name, manager)
    assert manager.env_attr("count")[0] <= 300
    manager.close()


def test_samples_of_steps_name_the_reason_too() -> None:
    manager = BaseEnvManager([lambda: OddEnv(["goes on", "abnormal"], ["begins"])] * 2)
    with pytest.raises(UsageError, match=r"the latest of env [01]: lost contact"):
        play("sample", "dqn", manager)
    manager.close()


def test_an_evaluation_leaves_out_episodes_with_an_abnormal_step() -> None:
    steps = ["goes on", "goes on", "abnormal", "goes on", "ends"]
    manager = BaseEnvManager([lambda: OddEnv(steps, ["begins"])])
    evaluator = InteractionEvaluator({"n_episode": 2}, manager, POLICIES["dqn"].eval_mode)
    assert evaluator.eval().returns == [2.0, 2.0]
    manager.close()


def test_the_step_form_ends_as_well() -> None:
    manager = BaseEnvManager([lambda: OddEnv(["abnormal"], ["begins"])])
    mode = POLICIES["dqn"].collect_mode
    with manager, task.start(ctx=OnlineRLContext()):
        task.use(inferencer(0, mode, manager))
        task.use(rolloutor(mode, manager))
        with pytest.raises(EnvError, match="the last 100 episodes were all abnormal"):
            task.run(max_step=1_000)


@pytest.mark.parametrize("way", ["sample", "episode", "evaluator"])
def test_a_network_of_nan_is_named_with_its_policy_and_env_step(way: str) -> None:
    policy = policy_of("dqn")
    manager = BaseEnvManager([lambda: OddEnv(["goes on", "ends"], ["begins"])] * 2)
    collector = SampleCollector(None, manager, policy.collect_mode)
    collector.collect_batch(n_sample=6)
    with torch.no_grad():
        for each in policy.learn_mode.get_attribute("model").parameters():
            each.fill_(torch.nan)
    if way == "evaluator":
        evaluator = InteractionEvaluator({"n_episode": 2}, manager, policy.eval_mode)
        with pytest.raises(NonFiniteError, match="DQNPolicy at env step 6, in an evaluation: row"):
            evaluator.eval(envstep=6)
    else:
        amount = {"n_episode": 2} if way == "episode" else {"n_sample": 4}
        with pytest.raises(NonFiniteError, match="DQNPolicy at env step 6: row 0: the network"):
            collector.collect_batch(**amount)
    manager.close()
