"""Evaluates a policy on a data set by a metric, for supervised learning.

Shapes: B samples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dicore.config.compiler import as_config
from dicore.data import EnvBatch, State, StateDict, Tree
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.evaluator import EvalResult
from dicore.interfaces.policy import EvalMode, check_mode
from dicore_plugins.evaluators.metric.config import MetricEvaluatorConfig
from dicore_plugins.evaluators.scheduled import Asked, ScheduledEvaluator

if TYPE_CHECKING:
    from dicore.interfaces.env_manager import IEnvManager

__all__ = ["Accuracy", "IMetric", "MetricEvaluator"]


@runtime_checkable
class IMetric(Protocol):
    """Compares outputs of a policy with the labels of a data set."""

    def eval(self, inputs: Tree, label: Tree) -> Tree:
        """Returns the results of B samples: numbers by name, or one number [B]."""

    def reduce_mean(self, inputs: Sequence[Tree]) -> Tree:
        """Returns the mean of the results of several calls of `eval`, in the same form."""

    def gt(self, metric1: Tree, metric2: Tree) -> bool:
        """Returns whether the first result is better than the second."""


class Accuracy:
    """Share of samples whose action is the label."""

    def eval(self, inputs: Tree, label: Tree) -> Tree:
        """Returns 1 for each equal pair and 0 for others: float64 [B]."""
        same = np.asarray(inputs["action"]) == np.asarray(label)
        return same.reshape(len(same), -1).all(1).astype(np.float64)

    def reduce_mean(self, inputs: Sequence[Tree]) -> float:
        """Returns the mean over all samples."""
        return float(np.concatenate([np.atleast_1d(each) for each in inputs]).mean())

    def gt(self, metric1: Tree, metric2: Tree) -> bool:
        """Returns whether the first accuracy is higher."""
        return bool(metric1 > metric2)


class MetricEvaluator(ScheduledEvaluator):
    """Evaluates a policy on a data set; the contract is `ISerialEvaluator`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Not stepped; closed with the evaluator.
        policy: Eval mode of the policy.
        dataset: See `IDataset`; its samples have `obs` and the column `label` of the options.
        metric: See `IMetric`; None: `Accuracy`.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.

    Attributes:
        best_return: Best value so far; -inf before the first evaluation.
        last_result: Result of the latest evaluation, or None.

    Raises:
        UsageError: there is no data set, or it is empty.
    """

    config_class = MetricEvaluatorConfig

    def __init__(
        self,
        cfg: MetricEvaluatorConfig | Mapping[str, object] | None = None,
        env_manager: IEnvManager | None = None,
        policy: Any = None,
        *,
        dataset: Any = None,
        metric: IMetric | None = None,
        log: Any | None = None,
    ) -> None:
        self._cfg = as_config(cfg, MetricEvaluatorConfig)
        if dataset is None or not len(dataset):
            raise UsageError(
                "the metric evaluator has no samples", hint="pass a data set (dicore list dataset)"
            )
        if policy is not None:
            check_mode(policy, "eval", "forward")
        self._env, self._policy, self._dataset, self._log = env_manager, policy, dataset, log
        self._metric: IMetric = Accuracy() if metric is None else metric
        self._clear()

    def _clear(self) -> None:
        self._last_eval_iter = self._eval_iter_before = -1
        self._best: Tree = None
        self.best_return = float("-inf")
        self.last_result: EvalResult | None = None

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Uses the manager `env` from now on, which is only closed."""
        self._env = self._env if env is None else env

    def reset(self, policy: EvalMode | None = None, env: IEnvManager | None = None) -> None:
        """Resets the policy, and clears the results so far."""
        self.reset_env(env)
        self.reset_policy(policy)
        self._clear()

    def _evaluate(self, asked: Asked) -> EvalResult:
        """Compares all samples; there are no episodes, whatever number is asked for."""
        start, found = time.perf_counter(), []
        for first in range(0, len(self._dataset), self._cfg.batch_size):
            if asked.should_stop():
                self._last_eval_iter = self._eval_iter_before
                return EvalResult(False, [], interrupted=True)
            last = min(first + self._cfg.batch_size, len(self._dataset))
            found.append(self._compared(np.arange(first, last), asked.policy_kwargs))
        metric = self._metric.reduce_mean(found)
        value, parts = _value_of(metric)
        statistics = {
            "return_mean": value, **parts, "sample_count": float(len(self._dataset)),
            "evaluate_time": time.perf_counter() - start,
        }  # fmt: skip
        self._write(statistics, asked)
        if self._best is None or self._metric.gt(metric, self._best):
            self._best, self.best_return = metric, value
            if asked.save_ckpt_fn is not None:
                asked.save_ckpt_fn("ckpt_best.pth.tar")
        stop = asked.train_iter != 0 and self._reached(value, parts)
        self.last_result = EvalResult(stop, [value], statistics)
        return self.last_result

    def _reached(self, value: float, parts: Mapping[str, float]) -> bool:
        """Returns whether a value is as good as `stop_value`; that of the first of several."""
        wanted = self._cfg.stop_value
        if not math.isfinite(wanted):
            return False
        if parts:
            first = next(iter(parts))
            return value == wanted or self._metric.gt(parts, {**parts, first: wanted})
        return value == wanted or self._metric.gt(value, wanted)

    def _compared(self, index: Tree, kwargs: Mapping[str, object]) -> Tree:
        """Returns the results of the metric for samples by index."""
        samples, label = self._dataset.take(index), self._cfg.label
        if label not in samples:
            raise SchemaError(
                f"the data set has no column '{label}', only {', '.join(sorted(samples.keys()))}",
                hint="set policy.eval.evaluator.label",
            )
        self._policy.reset()
        obs = EnvBatch(np.arange(len(index)), samples["obs"])
        output = EnvBatch.of(self._policy.forward(obs, **kwargs)).value
        return self._metric.eval(output, samples[label])

    def state_dict(self) -> StateDict:
        """Returns the schedule and the best value."""
        return {
            "last_eval_iter": self._last_eval_iter,
            "best_return": self.best_return,
            "best": _value_of(self._best)[1] if isinstance(self._best, Mapping) else {},
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._last_eval_iter = self._eval_iter_before = int(state["last_eval_iter"])
        self.best_return = float(state["best_return"])
        none = self.best_return == float("-inf")
        self._best = None if none else dict(state["best"]) or self.best_return


def _value_of(metric: Tree) -> tuple[float, dict[str, float]]:
    """Returns the value that counts, the first of several, and all of several by name."""
    if isinstance(metric, Mapping):
        parts = {str(name): float(each) for name, each in metric.items()}
        return next(iter(parts.values())), parts
    return float(metric), {}
