"""The evaluator contract: a good evaluator passes, and each check catches a planted fault."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from dicore.data import EnvBatch
from dicore.errors import ClosedError, UsageError
from dicore.interfaces.evaluator import EvalResult
from dicore.testing.evaluator import EvaluatorContract

from .faults import Fault, catches


class GoodEvaluator:
    """An evaluator as plainly as it can be written."""

    def __init__(self, env: Any, policy: Any, options: Mapping[str, Any]) -> None:
        self.env, self.policy, self.options = env, policy, options
        self.closed = False
        self.last = self.before = -1
        self.starts: Any = None
        self.best_return = float("-inf")
        self.last_result: EvalResult | None = None

    def should_eval(self, train_iter: int) -> bool:
        due = self.last < 0 or train_iter - self.last >= self.options["eval_freq"]
        if due and train_iter != self.last:
            self.before, self.last = self.last, train_iter
            return True
        return False

    def eval(
        self, save_ckpt_fn: Any = None, train_iter: int = -1, envstep: int = -1,
        n_episode: int | None = None, *, should_stop: Any = None,
    ) -> EvalResult:  # fmt: skip
        if self.closed:
            raise ClosedError("closed")
        self.should_stop = should_stop or (lambda: False)
        try:
            returns, steps = self.play(n_episode or self.options["n_episode"])
        except InterruptedError:
            return self.interrupted()
        sums = [self.total(each) for each in returns]
        mean = sum(sums) / len(sums)
        if self.improves(mean):
            self.best_return = mean
            if save_ckpt_fn is not None:
                save_ckpt_fn("ckpt_best.pth.tar")
        self.last_result = EvalResult(
            self.stops(mean, train_iter), returns, self.tell(sums, steps), [{} for _ in returns]
        )
        return self.last_result

    def total(self, value: Any) -> float:
        return float(np.sum(value))

    def improves(self, mean: float) -> bool:
        return mean > self.best_return

    def stops(self, mean: float, train_iter: int) -> bool:
        return mean >= self.options["stop_value"] and train_iter != 0

    def tell(self, returns: list[float], steps: int) -> dict[str, float]:
        return {
            "return_mean": statistics.fmean(returns),
            "return_std": statistics.pstdev(returns),
            "return_max": max(returns),
            "return_min": min(returns),
            "return_median": statistics.median(returns),
            "episode_count": float(len(returns)),
            "envstep_count": float(steps),
        }

    def interrupted(self) -> EvalResult:
        self.last = self.before
        self.env.close()
        self.env.load_state_dict(self.starts)
        return EvalResult(False, [], interrupted=True)

    def begin(self) -> None:
        self.starts = self.env.state_dict()
        self.env.launch() if self.env.closed else self.env.reset()
        self.policy.reset()

    def play(self, count: int) -> tuple[list[float], int]:
        if count < self.env.env_num:
            raise UsageError("too few episodes")
        self.begin()
        share, rest = divmod(count, self.env.env_num)
        quota = {env_id: share + (env_id < rest) for env_id in range(self.env.env_num)}
        returns: list[float] = []
        steps = 0
        while any(quota.values()):
            if self.should_stop():
                raise InterruptedError
            ready = self.env.ready_obs
            obs = {env_id: ready[env_id] for env_id in ready if quota[env_id]}
            answer = self.env.step(EnvBatch.of(self.policy.forward(obs)) if obs else {})
            steps += len(answer)
            for env_id in answer:
                step = answer[env_id]
                if step.done:
                    self.policy.reset([env_id])
                if step.done and self.counts(step):
                    returns.append(step.info["eval_episode_return"])
                    quota[env_id] -= 1
        return returns, steps

    def counts(self, step: Any) -> bool:
        return not step.info.get("abnormal")

    def reset_env(self, env: Any = None) -> None:
        self.env = env or self.env

    def reset_policy(self, policy: Any = None) -> None:
        self.policy = policy or self.policy

    def reset(self, policy: Any = None, env: Any = None) -> None:
        self.last, self.best_return = -1, float("-inf")

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last, "best": self.best_return, "env": self.env.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.last, self.best_return = state["last"], state["best"]
        self.env.load_state_dict(state["env"])

    def close(self) -> None:
        self.closed = True
        self.env.close()


def one_short(self: Any, *args: Any, **kwargs: Any) -> EvalResult:
    result = GoodEvaluator.eval(self, *args, **kwargs)
    return EvalResult(result.stop, result.returns[1:], result.statistics, result.episode_info)


def whoever_is_first(self: Any, count: int) -> tuple[list[float], int]:
    self.begin()
    returns: list[float] = []
    steps = 0
    while len(returns) < count:
        answer = self.env.step(EnvBatch.of(self.policy.forward(self.env.ready_obs)))
        steps += len(answer)
        returns += [
            answer[each].info["eval_episode_return"] for each in answer if answer[each].done
        ]
    return returns[:count], steps


def in_lockstep(self: Any, count: int) -> tuple[list[float], int]:
    env, step = self.env, self.env.step
    self.env = SimpleNamespace(
        env_num=env.env_num, closed=env.closed, launch=env.launch, reset=env.reset,
        ready_obs={each: [each] for each in range(env.env_num)}, step=step,
        state_dict=env.state_dict,
    )  # fmt: skip
    try:
        return GoodEvaluator.play(self, count)
    finally:
        self.env = env


def few_are_fine(self: Any, count: int) -> tuple[list[float], int]:
    return GoodEvaluator.play(self, max(count, self.env.env_num))


def twice_for_one(self: Any, train_iter: int) -> bool:
    return train_iter % int(self.options["eval_freq"]) == 0


def continues(self: Any) -> None:
    if self.env.closed:
        self.env.launch()
    self.policy.reset()


def closes_once(self: Any) -> None:
    self.env.close()
    self.env = None


FAULTS: list[Fault] = [
    ("has_the_methods", {"reset": None}),
    ("returns_one_return_per_episode", {"eval": one_short}),
    ("returns_of_any_shape", {"total": lambda self, value: float(np.mean(value))}),
    ("envs_give_equally_many_episodes", {"play": whoever_is_first}),
    ("works_with_asynchronous_managers", {"play": in_lockstep}),
    ("an_interrupted_evaluation_is_repeated",
     {"interrupted": lambda self: EvalResult(False, [], interrupted=True)}),
    ("fewer_episodes_than_envs_raise", {"play": few_are_fine}),
    ("stops_at_stop_value",
     {"stops": lambda self, mean, at: mean > self.options["stop_value"] and at != 0}),
    ("stops_at_stop_value",
     {"stops": lambda self, mean, at: mean >= self.options["stop_value"]}),
    ("is_due_at_intervals", {"should_eval": twice_for_one}),
    ("only_a_new_best_is_saved",
     {"improves": lambda self, mean: mean >= self.best_return}),
    ("returns_statistics",
     {"tell": lambda self, returns, steps:
      {**GoodEvaluator.tell(self, returns, steps), "return_std": statistics.stdev(returns)}}),
    ("policy_is_reset_for_each_episode",
     {"policy": property(lambda self: self.mode._replace(reset=lambda data_id=None: None),
                         lambda self, mode: setattr(self, "mode", mode))}),
    ("abnormal_episodes_are_replaced", {
        "counts": lambda self, step: step.info.setdefault("eval_episode_return", 0.0) is not None}),
    ("evaluations_start_new_episodes", {"begin": continues}),
    ("state_round_trip", {"load_state_dict": lambda self, state: None}),
    ("reset_env_and_reset_policy_replace_them", {"reset_env": lambda self, env=None: None}),
    ("reset_env_and_reset_policy_replace_them", {"reset_policy": lambda self, policy=None: None}),
    ("reset_clears_the_best", {"reset": lambda self, policy=None, env=None: None}),
    ("close_is_final", {"close": closes_once}),
    ("close_is_final", {"close": lambda self: self.env.close()}),
]  # fmt: skip
PLANTED = {EvaluatorContract: [check for check, _ in FAULTS]}


class TestGoodEvaluator(EvaluatorContract):
    def make(self, env_manager: Any, eval_mode: Any, options: Mapping[str, Any]) -> GoodEvaluator:
        return GoodEvaluator(env_manager, eval_mode, options)


test_each_check_catches_its_fault = catches(EvaluatorContract, GoodEvaluator, FAULTS)
