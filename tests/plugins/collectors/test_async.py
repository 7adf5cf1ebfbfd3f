"""Over environments at their own pace, samples and returns of each are those over `base`."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.interfaces.env_manager import EnvState
from dicore.run.random import seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import AsyncEnvManager, BaseEnvManager
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy

from .toy_envs import Journal, Step

N = 4


class Dawdler(Journal):
    """Takes a random time for steps and resets."""

    def step(self, action: Any) -> Any:
        time.sleep(random.random() * 2e-3)
        return super().step(action)

    def reset(self, **kwargs: Any) -> Any:
        time.sleep(random.random() * 5e-3)
        return super().reset(**kwargs)


def manager_of(kind: str, journals: list[list[Step]], abnormal: dict[int, tuple[int, ...]]) -> Any:
    cls = Journal if kind == "base" else Dawdler
    makes = [lambda i=i: cls(journals[i], abnormal.get(i, ())) for i in range(N)]
    if kind == "base":
        return BaseEnvManager(makes)
    return AsyncEnvManager(makes, {"children": "thread", "wait_num": 1, "step_wait_timeout": 0.0})


def policy_of(nstep: int = 1) -> DQNPolicy:
    seed_everything(0)
    torch.manual_seed(0)
    return DQNPolicy({"nstep": nstep, "discount_factor": 0.9}, model=DQN(2, 3, (4,)))


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("abnormal", [{}, {1: (5, 9), 3: (2,)}])
def test_samples_of_each_environment_are_those_of_base(
    nstep: int, abnormal: dict[int, tuple[int, ...]]
) -> None:
    found: dict[str, list[Batch]] = {}
    for kind in ("base", "async"):
        journals: list[list[Step]] = [[] for _ in range(N)]
        with manager_of(kind, journals, abnormal) as manager:
            manager.seed(3)
            collector = SampleCollector({}, manager, policy_of(nstep).collect_mode)
            options = {"policy_kwargs": {"eps": 0.0}, "drop_extra": False}
            numbers = (120,) if abnormal else (40, 7, 60, 1)  # a call drops what it has collected
            calls = [collector.collect_batch(n_sample=n, **options) for n in numbers]
            data = Batch.concat(calls)
            normal = sum(not step["abnormal"] for steps in journals for step in steps)
            assert collector.envstep <= normal
            found[kind] = [data[np.flatnonzero(data["env_id"] == i)] for i in range(N)]
    for one, other in zip(found["base"], found["async"], strict=True):
        count = min(len(one), len(other))
        assert count > 10
        for key in one.columns:
            np.testing.assert_array_equal(one[:count][key], other[:count][key], err_msg=key)


@pytest.mark.parametrize("abnormal", [{}, {1: (5,)}])
def test_evaluations_are_those_of_base(abnormal: dict[int, tuple[int, ...]]) -> None:
    results = []
    for kind in ("base", "async"):
        with manager_of(kind, [[] for _ in range(N)], abnormal) as manager:
            manager.seed(3, role="evaluator")
            evaluator = InteractionEvaluator(
                {"n_episode": 10, "stop_value": 1e9}, manager, policy_of().eval_mode
            )
            results.append([evaluator.eval(train_iter=i).returns for i in range(2)])
            evaluator.close()
    assert results[0] == results[1]


def test_an_environment_that_failed_is_reset_while_others_are_collected() -> None:
    """Its rows, the last of which is abnormal, give no samples."""
    go_on = threading.Event()

    class Fails(Journal):
        def step(self, action: Any) -> Any:
            if len(self.steps) == 3:
                self.steps.append({"abnormal": True})
                raise RuntimeError("gone")
            return super().step(action)

        def reset(self, **kwargs: Any) -> Any:
            if self.steps:
                go_on.wait(60)
            return super().reset(**kwargs)

    steps: list[Step] = []
    options = {"children": "thread", "restart_budget": 1, "step_wait_timeout": 0.0}
    with AsyncEnvManager([lambda: Fails(steps), lambda: Journal([])], options) as manager:
        collector = SampleCollector({}, manager, policy_of(3).collect_mode)
        for _ in range(40):
            data = collector.collect_batch(n_sample=2, policy_kwargs={"eps": 0.5})
            assert np.isfinite(data["reward"]).all()
        assert manager.env_state(0) is EnvState.RESET
        go_on.set()
        while 0 not in collector.collect_batch(n_sample=2, policy_kwargs={"eps": 0.5})["env_id"]:
            pass
