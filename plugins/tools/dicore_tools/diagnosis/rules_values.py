"""Rules about values: discount, target network, and what returns allow."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Change, Finding, MissingEvidenceError

__all__ = ["ends_ignored", "frozen_target", "no_target", "short_horizon", "values_too_high"]

_SHORT: Final = 10.0
_SHARE: Final = 0.1
_FEW_UPDATES: Final = 500
_TOO_HIGH: Final = 1.5
_FROZEN: Final = 1e5
"""Updates that are more than those between the copies of any usual target network."""
_FREQ: Final = "policy.learn.target_update_freq"
_THETA: Final = "policy.learn.target_theta"
_Q_TAGS: Final = ("learner/target_q_value", "learner/q_value")


def short_horizon(run: Evidence) -> Finding | None:
    """The discount hides what comes later in an episode."""
    gamma = run.number("policy.discount_factor")
    length = run.episode_length
    if gamma >= 1:
        return None
    horizon = 1 / (1 - gamma) + float(run.option("policy.nstep", 1)) - 1
    if horizon >= _SHORT or horizon >= _SHARE * length:
        return None
    return Finding(
        f"the policy looks {horizon:.3g} steps ahead, and episodes have up to {length:.0f}",
        f"rewards count by {gamma:g} per step: what an action leads to later is not seen",
        (run.change("policy.discount_factor", f"{_fitting(length):g}: the order of an episode"),),
        {"discount_factor": gamma, "horizon": horizon, "episode_length": length},
        _Q_TAGS,
    )


def _fitting(length: float) -> float:
    """Returns a discount whose horizon is of the order of an episode."""
    return 0.9 if length < 20 else 0.95 if length < 50 else 0.99


def no_target(run: Evidence) -> Finding | None:
    """The target network is the network itself."""
    lag, distance = _lag(run)
    if lag > 2 or run.updates < _FEW_UPDATES:
        return None
    freq = run.option(_FREQ)
    options = [run.change(_THETA, "0.005 to 0.05: the share copied per update")]
    if freq is not None:
        options = [run.change(_FREQ, "100 and more updates between copies"), *options]
    return Finding(
        f"there is no target network: it follows the network within {lag:.3g} updates",
        "targets move with every update: values chase themselves, which oscillates or diverges",
        tuple(options),
        {"lag_updates": lag, "distance": distance},
        (*_Q_TAGS, "learner/total_loss"),
    )


def frozen_target(run: Evidence) -> Finding | None:
    """The target network hardly follows."""
    lag, distance = _lag(run)
    goes_on = run.data.state == "running" and lag < _FROZEN
    if run.updates < _FEW_UPDATES or lag < run.updates or goes_on:
        return None
    options = [run.change(_THETA, "0.005 to 0.05")]
    if run.option(_FREQ) is not None:
        options = [run.change(_FREQ, f"far below {run.updates}"), *options]
    return Finding(
        f"the target network hardly follows: in {lag:.3g} updates, and {run.updates} were made",
        "values are learned from those of the beginning: they cannot look further",
        tuple(options),
        {"lag_updates": lag, "distance": distance, "updates": float(run.updates)},
        _Q_TAGS,
    )


def _lag(run: Evidence) -> tuple[float, float]:
    """Returns in how many updates the target follows, and its distance to the network.

    The distance is relative to the parameters. Targets follow by `target_theta` per update; where
    that is not set, they are copied every `target_update_freq` updates.
    """
    model, target = run.networks("model"), run.networks("target_model")
    shared = [name for name in model if name in target]
    norm = math.sqrt(sum(float((model[name] ** 2).sum()) for name in shared))
    apart = math.sqrt(sum(float(((model[name] - target[name]) ** 2).sum()) for name in shared))
    theta, freq = run.option(_THETA), run.option(_FREQ)
    if theta is None and freq is None:
        raise MissingEvidenceError("the policy has no option of its target network")
    lag = float(freq) if theta is None else 1 / float(theta)
    return lag, apart / max(norm, 1e-12)


def ends_ignored(run: Evidence) -> Finding | None:
    """Episodes end, and values are learned as if they went on."""
    ends = float((run.column("done") > 0).sum())
    if not run.option("policy.learn.ignore_done") or ends == 0:
        return None
    return Finding(
        f"{ends:.0f} stored samples end an episode, and their targets count rewards after the end",
        "ignore_done is set: states that lead to an end are worth as much as others",
        (run.change("policy.learn.ignore_done", "false, unless only time limits end episodes"),),
        {"ends": ends, "samples": float(len(run.column("done")))},
        _Q_TAGS,
    )


def values_too_high(run: Evidence) -> Finding | None:
    """Q values are outside of what returns allow."""
    if run.option("policy.reward_model") is not None:
        raise MissingEvidenceError("a reward model changes the rewards")
    tag = next((each for each in _Q_TAGS if each in run.data.columns), None)
    if tag is None:
        raise MissingEvidenceError("the learner logs no Q values")
    value, gamma, factor = run.recent(tag), run.number("policy.discount_factor"), run.reward_factor
    low, high, best = (factor * each for each in _bounds(run, gamma))
    if low == high:
        raise MissingEvidenceError("no reward was other than 0 so far")
    slack = 0.1 * (high - low) + _bonus(run, gamma)
    above = value - high > slack or (best > 0 and value > _TOO_HIGH * best + slack)
    below = low - value > slack
    if not (above or below):
        return None
    what = f"Q values are {value:.4g}, and discounted returns so far at most {best:.4g}"
    if below or value > high:
        what = f"Q values are {value:.4g}, and rewards allow {low:.4g} to {high:.4g}"
    if factor != 1:
        what += f", by the factor {factor:g} of rewards"
    return Finding(
        what,
        "values are bootstrapped from values that are wrong already (overestimation, divergence)",
        (*_double(run), run.change("policy.learn.learning_rate", "lower it")),
        {"q_value": value, "best_discounted_return": best, "lowest": low, "highest": high},
        _Q_TAGS,
    )


def _double(run: Evidence) -> tuple[Change, ...]:
    if run.option("policy.learn.double") is False:
        return (run.change("policy.learn.double", "true: double Q-learning"),)
    return ()


def _bounds(run: Evidence, gamma: float) -> tuple[float, float, float]:
    """Returns the lowest and highest value that rewards allow, and the best one seen.

    Those of agents may be values of what each is paid, or of the team, which is paid the sum.
    """
    rewards = run.rewards
    if rewards.ndim > 1:
        rewards = np.concatenate([rewards.reshape(-1), rewards.sum(1)])
    ahead = 1 / (1 - gamma) if gamma < 1 else run.episode_length
    low, high = min(float(rewards.min()), 0.0) * ahead, max(float(rewards.max()), 0.0) * ahead
    best = -math.inf
    if run.returns_are_raw:
        return low, high, best
    for tag, length in (
        ("collector/reward_max", "collector/avg_envstep_per_episode"),
        ("evaluator/return_max", "evaluator/avg_envstep_per_episode"),
    ):
        if tag in run.data.columns:
            returns, steps = run.values(tag), np.maximum(run.values(length), 1.0)
            weight = (1 - gamma**steps) / (1 - gamma) if gamma < 1 else steps
            best = max(best, float((returns / steps * weight).max()))
    return low, high, best


def _bonus(run: Evidence, gamma: float) -> float:
    """Returns what the entropy bonus of maximum-entropy algorithms may add to values."""
    try:
        alpha, entropy = run.recent("learner/alpha"), abs(run.recent("learner/entropy"))
    except MissingEvidenceError:
        return 0.0
    return alpha * entropy / max(1 - gamma, 1e-3)
