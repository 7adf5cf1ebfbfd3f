"""Rules about the policy: exploration, entropy, and how far an update changes it."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding, MissingEvidenceError

__all__ = [
    "actions_saturated",
    "entropy_collapsed",
    "entropy_dominates",
    "exploration_ended",
    "exploration_goes_on",
    "kl_spikes",
    "mostly_clipped",
]

_EPS: Final = "policy.other.eps"
_WEIGHT: Final = "policy.learn.entropy_weight"
_FEW_UPDATES: Final = 50
_FEW_STEPS: Final = 1_000
_RETURNS: Final = ("collector/reward_mean", "evaluator/return_mean")
_ENTROPY: Final = ("learner/entropy",)


def exploration_ended(run: Evidence) -> Finding | None:
    """Epsilon reached its end before anything was learned."""
    start, end, last_step = _schedule(run)
    first = run.points("learner/total_loss")
    made = float(np.interp(last_step, first[:, 0], first[:, 1], left=0.0))
    if start <= end or end > 0.1 or made >= _FEW_UPDATES or run.env_steps < 4 * last_step:
        return None
    return Finding(
        f"epsilon fell from {start:g} to {end:g} within {last_step:.0f} env steps, when"
        f" {made:.0f} updates had been made",
        "exploration ends before the policy knows anything: the rest is collected by its first"
        " guesses",
        (
            run.change(
                f"{_EPS}.decay", f"{max(run.budget * 0.1, 1000):.0f}: a tenth of the budget"
            ),
            run.change(f"{_EPS}.end", "0.05"),
        ),
        {"start": start, "end": end, "ended_at_env_step": last_step, "updates_then": made},
        _RETURNS,
    )


def exploration_goes_on(run: Evidence) -> Finding | None:
    """Epsilon is still high at the end of the budget."""
    start, end, _ = _schedule(run)
    now = _epsilon(run, run.env_steps)
    early = run.env_steps < max(0.5 * run.budget, _FEW_STEPS)
    if now < 0.75 or early:
        return None
    cause = "the schedule of exploration is longer than the training"
    change = run.change(f"{_EPS}.decay", f"{run.part_of_budget(0.2):.0f} or less")
    if start <= end:
        cause = "the last epsilon is as high as the first one"
        change = run.change(f"{_EPS}.end", "0.01 to 0.1")
    return Finding(
        f"after {run.env_steps} env steps {now:.0%} of the actions are still random",
        cause,
        (change,),
        {"epsilon": now, "env_steps": float(run.env_steps)},
        _RETURNS,
    )


def _schedule(run: Evidence) -> tuple[float, float, float]:
    """Returns the first and last epsilon, and the env step from which on it is the last one."""
    length = run.number(f"{_EPS}.decay")
    stretch = 1.0 if run.option(f"{_EPS}.type") == "linear" else 3.0
    if run.option("policy.model.noisy"):
        raise MissingEvidenceError("noisy layers explore, not epsilon")
    return run.number(f"{_EPS}.start"), run.number(f"{_EPS}.end"), stretch * length


def _epsilon(run: Evidence, step: float) -> float:
    start, end, length = _schedule(run)
    if run.option(f"{_EPS}.type") == "linear":
        return start + (end - start) * min(step / length, 1.0)
    return end + (start - end) * math.exp(-3.0 * step / length)


def entropy_dominates(run: Evidence) -> Finding | None:
    """The policy stays uniform, and the entropy bonus is large."""
    most, entropy = _most(run), run.recent("learner/entropy", at_least=2)
    weight = run.number(_WEIGHT)
    if weight < 0.05 or entropy < 0.95 * most or run.updates < 4 * _FEW_UPDATES:
        return None
    return Finding(
        f"the policy is still random: its entropy is {entropy / most:.1%} of the largest",
        f"the entropy bonus (weight {weight:g}) is larger than what actions differ by",
        (run.change(_WEIGHT, "0 to 0.01"),),
        {"entropy": entropy, "largest_entropy": most, "entropy_weight": weight},
        _ENTROPY,
    )


def entropy_collapsed(run: Evidence) -> Finding | None:
    """The policy has become deterministic, and learns no more."""
    if run.option("policy.action_low") is None:
        return _discrete_collapse(run)
    numbers = len(run.option("policy.action_low"))
    entropy = run.recent("learner/entropy", at_least=2) / max(numbers, 1)
    if entropy > -3.0:
        return None
    option, advice = _WEIGHT, "raise it: 0.001 to 0.01"
    if run.option("policy.learn.alpha") is not None:
        option, advice = "policy.learn.auto_alpha", "true, which keeps the entropy at its target"
    return Finding(
        f"the entropy is {entropy:.2f} per number of an action: as good as deterministic",
        "nothing keeps the policy random: it explores no more",
        (run.change(option, advice), run.change("policy.learn.alpha", "0.05 to 1")),
        {"entropy_per_number": entropy, "alpha": float(run.option("policy.learn.alpha", 0.0))},
        _ENTROPY,
    )


def _discrete_collapse(run: Evidence) -> Finding | None:
    most = _most(run)
    values = run.values("learner/entropy", at_least=4) / most
    half = len(values) // 2
    returns = run.values("evaluator/return_mean", at_least=4)
    middle = len(returns) // 2
    improves = returns[middle:].max() > returns[:middle].max() + returns.std() / 2
    if values[half:].max() > 0.05 or improves:
        return None
    return Finding(
        f"the entropy of the policy is {values[-1]:.1%} of the largest since half of the run,"
        " and returns do not improve",
        "the policy became deterministic before it was good: it explores no more",
        (
            run.change(_WEIGHT, "raise it: 0.01"),
            run.change("policy.learn.learning_rate", "lower it: large updates end exploration"),
        ),
        {"entropy_share": float(values[-1]), "best_return": float(returns.max())},
        _ENTROPY,
    )


def _most(run: Evidence) -> float:
    """Returns the entropy of the uniform policy."""
    actions = run.option("policy.model.action_shape")
    if not isinstance(actions, int) or actions < 2 or run.option("policy.action_low") is not None:
        raise MissingEvidenceError("the actions are not one choice of several")
    return math.log(actions)


def kl_spikes(run: Evidence) -> Finding | None:
    """Updates change the policy too much."""
    values = run.values("learner/approx_kl", at_least=2)
    typical, largest = float(np.median(values)), float(values.max())
    if typical < 0.08 and np.mean(values > 0.5) < 0.1:
        return None
    options = [run.change("policy.learn.learning_rate", "lower it")]
    if run.option("policy.learn.epoch_per_collect") is not None:
        options = [
            run.change("policy.learn.target_kl", "0.02 ends the passes over a collect in time"),
            run.change("policy.learn.epoch_per_collect", "10 or less"),
            *options,
        ]
    return Finding(
        f"the KL divergence of an update is {typical:.2g}, and up to {largest:.2g}",
        "the policy of an update is another one than that which has collected its samples",
        tuple(options),
        {"median": typical, "largest": largest},
        ("learner/approx_kl", "learner/clipfrac"),
    )


def mostly_clipped(run: Evidence) -> Finding | None:
    """The ratio of most samples is clipped, although the policy hardly changes."""
    share, ratio = run.recent("learner/clipfrac", 2), run.number("policy.learn.clip_ratio")
    divergence = run.recent("learner/approx_kl", 2)
    if share < 0.5 or divergence > 0.02:
        return None
    return Finding(
        f"{share:.0%} of the samples are clipped, at a KL divergence of {divergence:.2g}",
        f"clip_ratio ({ratio:g}) is so small that most samples have no gradient",
        (run.change("policy.learn.clip_ratio", "0.1 to 0.3"),),
        {"clipped": share, "kl": divergence, "clip_ratio": ratio},
        ("learner/clipfrac",),
    )


def actions_saturated(run: Evidence) -> Finding | None:
    """The policy takes the bounds of the actions, whatever it sees."""
    action = run.column("action")
    if action.dtype.kind != "f" or run.updates < 500:
        raise MissingEvidenceError("the actions are not real numbers, or were not learned")
    action = np.abs(action.reshape(len(action), -1))[-max(len(action) // 4, 1) :]
    share = float((action > 0.8 * np.maximum(action.max(0), 1e-12)).mean())
    if share < 0.95:
        return None
    return Finding(
        f"{share:.0%} of the actions are at their bounds",
        "the actor is saturated (tanh): it has no gradient there",
        (
            run.change("policy.learn.learning_rate", "lower it"),
            run.change("env.env_wrapper", "obs_norm or reward_norm, if their scales are large"),
        ),
        {"share": share},
        ("learner/actor_loss", "learner/q_value"),
    )
