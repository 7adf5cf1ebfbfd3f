"""The interaction evaluator over real environments and hand-made modes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.data import EnvBatch
from dicore.errors import ClosedError, UsageError
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.evaluators import BaseSerialEvaluator


class Ladder(gymnasium.Env):
    """Ends after as many steps as its number says; each step pays 1; notes its starts."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: float, starts: list[Any]) -> None:
        self.length, self.starts, self.steps = length, starts, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        self.starts.append(seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps >= self.length, False, {}


def mode() -> Any:
    """An eval mode of plain functions, and of plain dicts."""

    def forward(obs: Mapping[int, Any]) -> dict[int, Any]:
        return {env_id: {"action": 0} for env_id in obs}

    return SimpleNamespace(forward=forward, reset=lambda ids=None: None)


def evaluator(lengths: list[float], starts: list[Any] | None = None, **options: Any) -> Any:
    seen = [] if starts is None else starts
    manager = BaseEnvManager([lambda n=n: Ladder(n, seen) for n in lengths])
    manager.seed(0, role="evaluator")
    return BaseSerialEvaluator(options, manager, mode())


def test_it_unpacks_to_stop_and_returns() -> None:
    with_two = evaluator([3, 5], n_episode=4, stop_value=4.0)
    stop, returns = with_two.eval(train_iter=1)
    assert stop
    assert returns == [3, 3, 5, 5]
    result = with_two.last_result
    assert result.mean_return == 4
    assert result.statistics["return_max"] == 5
    assert [info["episode_length"] for info in result.episode_info] == [3, 3, 5, 5]
    with_two.close()


def test_quick_environments_are_not_over_represented() -> None:
    """Four episodes over two environments: two each, although one is twenty times as quick."""
    judge = evaluator([1, 20], n_episode=4)
    assert judge.eval().returns == [1, 1, 20, 20]
    judge.close()


@pytest.mark.parametrize(
    ("stop_value", "train_iter", "stop"), [(4, 1, True), (4.01, 1, False), (4, 0, False)]
)
def test_the_stop_rule(stop_value: float, train_iter: int, stop: bool) -> None:
    judge = evaluator([3, 5], n_episode=2, stop_value=float(stop_value))
    assert judge.eval(train_iter=train_iter).stop is stop
    judge.close()


def test_several_in_a_row() -> None:
    judge = evaluator([3], n_episode=1, stop_value=3.0, consecutive=2)
    assert [judge.eval(train_iter=i).stop for i in (1, 2, 3)] == [False, True, True]
    judge.close()


def test_when_it_is_due() -> None:
    judge = evaluator([3], n_episode=1, eval_freq=100)
    asked = [0, 0, 50, 99, 100, 100, 150, 230, 330]
    assert [judge.should_eval(i) for i in asked] == [
        True, False, False, False, True, False, False, True, True,
    ]  # fmt: skip
    judge.close()


def test_the_best_checkpoint_only_on_improvement() -> None:
    saved: list[str] = []
    judge = evaluator([3], n_episode=1)
    judge.eval(saved.append)
    judge.eval(saved.append)
    assert saved == ["ckpt_best.pth.tar"]
    judge.close()


@pytest.mark.parametrize(("fixed", "distinct"), [(False, 24), (True, 8)])
def test_each_evaluation_sees_fresh_starts_unless_told(fixed: bool, distinct: int) -> None:
    starts: list[Any] = []
    judge = evaluator([2] * 8, starts, n_episode=8, fixed_starts=fixed)
    used = []
    for _ in range(3):
        del starts[:]
        judge.eval()
        used += starts[:8]
    assert len(set(used)) == distinct
    judge.close()


def test_an_endless_episode_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    judge = evaluator([4, float("inf")], n_episode=4, max_episode_steps=50)
    with caplog.at_level(logging.WARNING, "dicore.evaluator"):
        assert judge.eval().returns == [4, 4, 50, 50]
        judge.eval()
    assert len(caplog.records) == 1
    judge.close()


def test_misuse_is_named() -> None:
    judge = evaluator([3, 3, 3], n_episode=2)
    with pytest.raises(UsageError, match="2 episodes"):
        judge.eval()
    judge.close()
    judge.close()
    with pytest.raises(ClosedError):
        judge.eval()


def test_an_env_batch_is_taken_as_it_is() -> None:
    judge = evaluator([3], n_episode=1)
    judge.reset_policy(
        SimpleNamespace(
            forward=lambda obs: EnvBatch(obs.env_id, {"action": np.zeros(len(obs), np.int64)}),
            reset=lambda ids=None: None,
        )
    )
    assert judge.eval().returns == [3]
    judge.close()


def test_what_is_no_eval_mode_is_told_so() -> None:
    with pytest.raises(UsageError, match="expected the eval mode of a policy, got list"):
        BaseSerialEvaluator(None, BaseEnvManager([lambda: Ladder(1, [])]), [])
