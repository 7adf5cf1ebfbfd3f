"""Estimates the discounted return of a run's policy from recorded episodes.

Shapes: N steps, E episodes, B of the steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.config import Compiled
from dicore.data import Tree
from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore.interfaces.evaluator import EvalResult
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.random import seeded
from dicore_tools.components import build
from dicore_tools.evaluation.offline.estimators import (
    bootstrap_interval,
    doubly_robust,
    effective_episodes,
    lengths_of,
    log_weights,
    observed,
    of_episodes,
    weighted_importance_sampling,
)
from dicore_tools.evaluation.offline.recorded import Recorded, log_prob_of, recorded
from dicore_tools.evaluation.offline.target import Target
from dicore_tools.evaluation.policy_loader import find_policy
from dicore_tools.json_output.runs import OfflineEstimate
from dicore_tools.json_output.runs import OfflineEvaluation as OfflineFacts

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "Estimation",
    "OfflineEvaluation",
    "estimated",
    "evaluate_offline",
]

_log = logging.getLogger(__name__)
Floats = npt.NDArray[np.float64]
Estimator = Literal["fqe", "wis", "dr"]
ESTIMATORS: Final[tuple[Estimator, ...]] = ("fqe", "wis", "dr")
"""Fitted Q evaluation, weighted importance sampling, doubly robust."""
_FIT: Final = {"type": "fqe", "target_theta": 0.05}
"""One evaluation begins from nothing: its target follows faster than that of a training's."""
_ROUNDS: Final = 5
_LONG_S: Final = 5.0
"""Seconds left from which on the progress of a fit is told."""
_IMPROBABLE: Final = 0.1
_ENOUGH: Final = 100
"""Steps from which on a share of them tells something."""
_ERRORS: Final = 6.0
"""Standard errors by which a mean may be above the largest possible one."""
_FEW: Final = 0.1
"""Share of the episodes that weights have to leave, else what they give is told to be doubtful."""
_CHANGES: Final = 0.05
"""Share by which the fitted estimate may change in the last round before that is told."""


class _FittedQ(Protocol):
    """What is used of the evaluator `fqe`."""

    def eval(self, *, train_iter: int) -> EvalResult:
        """Fits the Q values."""

    def q_values(self, obs: Tree, action: Tree) -> Floats:
        """Computes them: float64 [B]."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated discounted return.

    Args:
        value: The estimate.
        interval: 95 % bootstrap interval over the episodes; None: there are too few.
    """

    value: float
    interval: tuple[float, float] | None

    def as_json(self) -> OfflineEstimate:
        """Returns the estimate as JSON has it."""
        return {
            "value": self.value if isfinite(self.value) else None,
            "interval_95": None if self.interval is None else [*self.interval],
        }

    def __str__(self) -> str:
        """Returns the line `12.3 (95 % interval 11.0 to 13.5)`."""
        if self.interval is None:
            return f"{self.value:.4g} (no interval)"
        low, high = self.interval
        return f"{self.value:.4g} (95 % interval {low:.4g} to {high:.4g})"


@dataclass(frozen=True, slots=True)
class OfflineEvaluation:
    """Estimates of the discounted return of a policy.

    Args:
        estimates: By estimator: `fqe`, `wis`, `dr`.
        not_estimated: Estimators that do not apply, and why.
        behaviour: Discounted return of the recorded episodes themselves.
        episodes: Number of episodes.
        steps: Number of steps.
        effective_episodes: Episodes that tell as much as the weighted ones; None: no weights.
        discount_factor: Discount.
        checkpoint: Name of the checkpoint.
        sampled: Whether the policy draws its actions, as in training.
        change: Change of the fitted estimate by the last fifth of the updates, as a share of it;
            None: nothing was fitted.
    """

    estimates: Mapping[str, Estimate]
    not_estimated: Mapping[str, str]
    behaviour: Estimate
    episodes: int
    steps: int
    effective_episodes: float | None
    discount_factor: float
    checkpoint: str
    sampled: bool
    change: float | None = None

    def as_json(self) -> OfflineFacts:
        """Returns what `dicore eval --offline --json` prints."""
        return {
            "estimates": {name: each.as_json() for name, each in self.estimates.items()},
            "not_estimated": dict(self.not_estimated),
            "behaviour": self.behaviour.as_json(),
            "episodes": self.episodes,
            "steps": self.steps,
            "effective_episodes": self.effective_episodes,
            "discount_factor": self.discount_factor,
            "checkpoint": self.checkpoint,
            "sampled": self.sampled,
            "change": self.change,
        }

    def __str__(self) -> str:
        """Returns a line per estimate, then what they were computed from."""
        lines = [f"{name:<10}{each}" for name, each in self.estimates.items()]
        lines += [f"{name:<10}not estimated: {why}" for name, why in self.not_estimated.items()]
        if self.change is not None and abs(self.change) > _CHANGES:
            lines.append(
                f"{'':<10}fqe changed by {self.change:+.0%} in the last fifth of its updates:"
                " raise --updates"
            )
        effective = self.effective_episodes
        if effective is not None and effective < max(2.0, _FEW * self.episodes):
            lines.append(
                f"{'':<10}wis and dr are doubtful: by their weights, {effective:.3g} of"
                f" {self.episodes} episodes count; the policy acts otherwise, or log_prob is wrong"
            )
        weights = "" if effective is None else f", {effective:.3g} of them by weight"
        return "\n".join(
            [
                *lines,
                f"{'data':<10}{self.behaviour}",
                f"discounted returns (discount {self.discount_factor:g}) of"
                f" {'sampled' if self.sampled else 'greedy'} actions, checkpoint {self.checkpoint},"
                f" from {self.episodes} episodes ({self.steps} steps){weights}",
            ]
        )


class Estimation:
    """Computes estimates from recorded episodes; what several of them need is computed once.

    Args:
        data: The episodes.
        target: The policy.
        context: Spaces.
        compiled: Config of the run.
        updates: Gradient updates of the fitted Q values.
    """

    def __init__(
        self,
        data: Recorded,
        target: Target,
        context: BuildContext,
        compiled: Compiled,
        updates: int,
    ) -> None:
        self._data, self._target, self._context = data, target, context
        self._evaluator, self._updates = compiled.policy.eval.evaluator, updates
        self.change: float | None = None
        self.gamma = float(compiled.policy.discount_factor)
        self.reward = of_episodes(data.reward, data.end)
        self._rng = np.random.default_rng(compiled.seed)

    def behaviour(self) -> Estimate:
        """Returns the discounted return of the episodes themselves."""
        return self._by_weights(self._observed)

    def weighted(self) -> Estimate:
        """Returns the estimate of weighted importance sampling.

        Raises:
            UsageError: no episode acts like the policy.
        """
        weights = log_weights(self.log_ratio) + self._observed
        never = np.flatnonzero(weights.max(0) == -np.inf)
        if len(never):
            raise UsageError(
                f"{self._data.path}: no episode acts like the policy up to step {never[0]}: all"
                " weights are 0",
                hint="record more episodes or more random ones, or use fqe",
            )
        return self._by_weights(weights)

    @cached_property
    def _observed(self) -> Floats:
        end = self._data.end
        return observed(lengths_of(end), ~self._data.terminated[end])

    def _by_weights(self, weights: Floats) -> Estimate:
        (value,) = weighted_importance_sampling(self.reward, weights, self.gamma)
        interval = bootstrap_interval(
            lambda count: weighted_importance_sampling(self.reward, weights, self.gamma, count),
            len(self.reward),
            self._rng,
        )
        return Estimate(float(value), interval)

    def fitted(self) -> Estimate:
        """Returns the mean fitted value of first states."""
        starts = np.flatnonzero(np.append(True, self._data.end[:-1]))
        first = self._data.dataset.take(starts)["obs"]
        return self._mean(self._target.value(first, self._fit.q_values))

    def robust(self) -> Estimate:
        """Returns the doubly robust estimate."""
        log_ratio, end = self.log_ratio, self._data.end
        q, value = self._values()
        last = self._data.dataset.take(np.flatnonzero(end))
        after = self._target.value(last["next_obs"], self._fit.q_values)
        found = doubly_robust(
            self.reward,
            log_ratio,
            of_episodes(q, end),
            of_episodes(value, end),
            np.where(self._data.terminated[end], 0.0, after),
            lengths_of(end),
            self.gamma,
        )
        return self._mean(found)

    @cached_property
    def log_ratio(self) -> Floats:
        """Log pi(a|s) - log mu(a|s) of the steps, float64 [E, T].

        Raises:
            SchemaError: the data set does not have log mu.
            UsageError: the policy does not have log pi.
            NonFiniteError: the policy returns NaN.
        """
        data = self._data
        before = log_prob_of(data, discrete=isinstance(self._context.action_space, spaces.Discrete))
        parts = [self._target.log_prob(part["obs"], part["action"]) for part in data.parts()]
        now = np.concatenate(parts)
        if np.isnan(now).any():
            raise NonFiniteError(
                "the policy returns NaN for recorded observations",
                hint="evaluate another checkpoint: --load-path NAME",
            )
        return of_episodes(plausible(data.path, now - before), data.end)

    @cached_property
    def _fit(self) -> _FittedQ:
        """The evaluator `fqe`, fitted."""
        section = self._evaluator
        own = dict(section) if section.get("type") == "fqe" else _FIT
        each = max(1, self._updates // _ROUNDS)
        options = {**own, "updates": each, "discount_factor": self.gamma}
        evaluator: _FittedQ = build(
            "evaluator", options, self._context, policy=self._target, dataset=self._data.dataset
        )
        begun, means = time.monotonic(), []
        for done in range(1, _ROUNDS + 1):
            means.append(evaluator.eval(train_iter=1).mean_return)
            left = (time.monotonic() - begun) / done * (_ROUNDS - done)
            if left > _LONG_S:
                _log.info("fqe: update %d of %d, %.0f s left", done * each, _ROUNDS * each, left)
        if not isfinite(means[-1]):
            raise NonFiniteError(
                f"fqe: the fitted Q values are {means[-1]}",
                hint="lower the learning rate: policy.eval.evaluator=fqe"
                " policy.eval.evaluator.learning_rate=0.0001",
            )
        self.change = (means[-1] - means[-2]) / max(abs(means[-1]), 1e-9)
        return evaluator

    def _values(self) -> tuple[Floats, Floats]:
        """Computes q(s, a) and v(s) of all steps: float64 [N] each."""
        q, value = [], []
        for part in self._data.parts():
            q.append(self._fit.q_values(part["obs"], part["action"]))
            value.append(self._target.value(part["obs"], self._fit.q_values))
        return np.concatenate(q), np.concatenate(value)

    def _mean(self, values: Floats) -> Estimate:
        interval = bootstrap_interval(
            lambda count: count @ values / count.sum(1), len(values), self._rng
        )
        return Estimate(float(values.mean()), interval)


def plausible(path: str, log_ratio: Floats) -> Floats:
    """Returns log rho_t as it is, if it can be that of actions that mu drew.

    The mean of rho_t over mu is 1 at most, so 1 % are above 100 at most (Markov's inequality).

    Args:
        path: The data set.
        log_ratio: float64 [N].

    Raises:
        SchemaError: the mean is far above 1, or more than one of ten are above 100.
    """
    share = float((log_ratio > np.log(100)).mean())
    ratio = np.exp(np.minimum(log_ratio, np.log(100)))
    error = ratio.std() / np.sqrt(len(ratio))
    problem = ""
    if share > _IMPROBABLE:
        problem = f"the policy gives {share:.0%} of the actions more than 100 times the recorded"
    elif ratio.mean() - _ERRORS * error > 1.01:
        problem = f"the policy gives actions on average {ratio.mean():.3g} times the recorded"
    if problem and len(log_ratio) >= _ENOUGH:
        raise SchemaError(
            f"{path}: log_prob: {problem} probability; if they were drawn with that, the mean is 1"
            " at most",
            hint="write the natural logarithm of the probability with which each action was drawn",
        )
    return log_ratio


def evaluate_offline(  # noqa: PLR0913 - the options of the command
    run: str | Path,
    data: str,
    *,
    estimators: Sequence[str] = (),
    sample: bool = False,
    updates: int = 5000,
    load_path: str | Path | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    trust: bool = False,
) -> OfflineEvaluation:
    """Estimates the discounted return of a run's policy from a data set, without env steps.

    `fqe` fits Q values to the policy (Le et al. 2019). `wis` weights the recorded rewards by how
    much likelier the policy acts like that, per decision, and normalises the weights. `dr` corrects
    the fitted values by such weights (Jiang and Li 2016). The last two need the column `log_prob`.

    Args:
        run: The run folder, or the folder of one of its checkpoints.
        data: File, folder or id of a data set; see `pipeline.dataset`.
        estimators: Which of `ESTIMATORS`; one that does not apply is then an error. Empty: all that
            apply.
        sample: Evaluate the distribution that the policy draws actions from in training.
        updates: Gradient updates of the fitted Q values.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest valid one.
        overrides: `a.b=c`, on top of the run's config.
        seed: Random seed of fit and intervals; None takes the run's.
        trust: Run code that `config.json` names by path instead of a registered name.

    Raises:
        UsageError: an estimator does not apply, or the data set has no ends of episodes.
        SchemaError: the data set is of other spaces, or lacks columns.
        NonFiniteError: the data set holds a NaN or an infinity, or a weight overflows.
        CheckpointError: there is no valid checkpoint.
    """
    unknown = [name for name in estimators if name not in ESTIMATORS]
    if unknown:
        raise UsageError(f"estimator '{unknown[0]}': expected {', '.join(ESTIMATORS)}")
    trained = find_policy(run, load_path, seed=seed, overrides=overrides, trust=trust)
    compiled = trained.compiled
    with seeded(compiled.seed):
        context = BuildContext(spec_of(compiled.env, compiled.seed), seed=compiled.seed)
        gamma = float(compiled.policy.discount_factor)
        steps = recorded(data, context, gamma)
        policy, state = trained.build(context)
        if state.env_states:
            _log.warning(
                "env wrappers of this run measure statistics (env.env_wrapper): the data set has to"
                " have been recorded with those, as dicore collect does for this run alone"
            )
        if sample and state.policy is not None:
            policy.collect_mode.load_state_dict(state.policy)
        scaled = bool(compiled.policy.get("action_scaling", True))
        target = Target(policy, context.action_space, sample=sample, scaled=scaled)
        job = Estimation(steps, target, context, compiled, updates)
        estimates, reasons = estimated(job, estimators)
        weights = None if {*estimates} <= {"fqe"} else log_weights(job.log_ratio)
        return OfflineEvaluation(
            estimates,
            reasons,
            job.behaviour(),
            len(job.reward),
            len(steps.end),
            None if weights is None else effective_episodes(weights),
            gamma,
            state.name or trained.name,
            sample,
            job.change,
        )


def estimated(job: Estimation, wanted: Sequence[str]) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Computes the estimates; returns them, and why others could not be computed.

    Args:
        job: What they are computed from.
        wanted: Names of estimators, one that does not apply being an error; empty: all.
    """
    estimates, reasons = dict[str, Estimate](), dict[str, str]()

    def tried(name: str, estimate: Callable[[], Estimate]) -> None:
        try:
            estimates[name] = estimate()
        except (NonFiniteError, SchemaError, UsageError) as error:
            if wanted:
                raise
            reasons[name] = error.message

    names = wanted or ESTIMATORS
    for name, estimate in (("wis", job.weighted), ("dr", job.robust), ("fqe", job.fitted)):
        if name in names:
            tried(name, estimate)
    return {name: estimates[name] for name in ESTIMATORS if name in estimates}, reasons
