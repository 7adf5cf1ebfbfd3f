"""Rules about what is learned from: rewards and observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Change, Finding, MissingEvidenceError

__all__ = [
    "constant_observations",
    "constant_rewards",
    "normalisation_drifts",
    "observation_scale",
    "reward_scale",
]

_FEW_EPISODES: Final = 10
_MANY_STEPS: Final = 1_000
"""Env steps without any return that tell as much as many episodes."""
_FEW_SAMPLES: Final = 64
_LARGE_OBS: Final = 300.0
_LARGE_REWARD: Final = 100.0
_TINY: Final = 1e-3
_SHIFTED: Final = 1.2
"""Mean of normalised observations; that of a number that grows evenly is the root of 3."""
_WRAPPERS: Final = "env.env_wrapper"
_RETURNS: Final = ("collector/reward_mean",)


def constant_rewards(run: Evidence) -> Finding | None:
    """All rewards are zero, or all episodes have the same return."""
    low = run.values("collector/reward_min")
    high = run.values("collector/reward_max")
    episodes = float(run.values("collector/total_episode_count")[-1])
    bounds = [each for each in run.option(_WRAPPERS, ()) if each.get("type") == "clip_reward"]
    clipped = bool(bounds) and _all_clipped(run, bounds[0])
    nothing = high.max() == low.min() == 0.0 and run.env_steps >= _MANY_STEPS
    if (episodes < _FEW_EPISODES and not nothing) or (high.max() > low.min() and not clipped):
        return None
    if not clipped and _may_cancel(run):
        raise MissingEvidenceError("returns are sums over agents, and what one wins another loses")
    what = "every episode of training has the same return"
    if high.max() == 0.0:
        what = "every episode of training has the return 0"
    if clipped:
        what = "all rewards that are learned from are equal"
    numbers = {"episodes": episodes, "return": float(high.max())}
    if "evaluator/return_mean" in run.data.columns:
        numbers["evaluation_return"] = float(run.values("evaluator/return_mean")[-1])
    cause = "no action is better than another one: the task gives no reward, or too rarely"
    advice = "look at the rewards that the environment gives; explore more, or shape the reward"
    if bounds:
        low_bound, high_bound = bounds[0].get("min_reward"), bounds[0].get("max_reward")
        cause = f"clip_reward clips rewards to [{low_bound}, {high_bound}]"
        advice = "remove clip_reward, or set bounds that keep the signs of rewards apart"
    return Finding(what, cause, (run.change(_WRAPPERS, advice),), numbers, _RETURNS)


def _may_cancel(run: Evidence) -> bool:
    """Returns whether rewards of several agents, of which returns are the sums, may not be 0."""
    agents = run.option("policy.model.agents")
    if not isinstance(agents, int) or agents < 2:
        return False
    try:
        return run.rewards.ndim > 1 and bool(run.rewards.any())
    except MissingEvidenceError:  # of on-policy algorithms
        return True


def _all_clipped(run: Evidence, bounds: Mapping[str, Any]) -> bool:
    """Returns whether nothing is left of the rewards between the bounds of `clip_reward`."""
    if bounds.get("min_reward") == bounds.get("max_reward"):
        return True
    try:
        return run.rewards.size > 0 and not run.rewards.any()
    except MissingEvidenceError:  # of on-policy algorithms
        return False


def observation_scale(run: Evidence) -> Finding | None:
    """A number of the observations is far from the order of 1."""
    size = np.sqrt((run.observations**2).mean(0))
    largest, median = float(size.max()), float(np.median(size))
    if _TINY < largest < _LARGE_OBS:
        return None
    numbers = {"largest": largest, "median": median, "samples": float(len(run.observations))}
    if largest == 0.0:
        return None  # constant_observations says so
    word = "large" if largest >= _LARGE_OBS else "small"
    return Finding(
        f"observations are {word}: their numbers have a root mean square of up to {largest:.3g}",
        "networks are initialised for inputs of the order of 1: activations saturate, and one"
        " learning rate does not fit all weights",
        (
            run.change(_WRAPPERS, "add obs_norm (running mean and deviation) or static_obs_norm"),
            run.change("policy.model.obs_norm", "true, if the model has the option"),
        ),
        numbers,
    )


def normalisation_drifts(run: Evidence) -> Finding | None:
    """Observations that obs_norm normalises do not have the mean 0: its statistics lag behind."""
    if all(each.get("type") != "obs_norm" for each in run.option(_WRAPPERS, ())):
        raise MissingEvidenceError("obs_norm is not among the wrappers")
    observations = run.observations
    shift = np.abs(observations.mean(0))
    if len(observations) < _FEW_SAMPLES or shift.max() < _SHIFTED:
        return None
    return Finding(
        f"number {int(shift.argmax())} of the normalised observations has the mean"
        f" {shift.max():.3g}, not 0",
        "it drifts: the running statistics of obs_norm, which are those of all steps so far, are"
        " behind, and the same state looks different later",
        (
            run.change(_WRAPPERS, "static_obs_norm, with fixed statistics, in place of obs_norm"),
            Change("env", "remove what grows without end from the observations (counters)"),
        ),
        {"mean": float(shift.max()), "samples": float(len(observations))},
    )


def constant_observations(run: Evidence) -> Finding | None:
    """The observations do not change."""
    samples = len(run.column("obs"))
    spread = float(run.observations.std(0).max())
    if samples < _FEW_EPISODES or spread > 0.0:
        return None
    return Finding(
        "all observations are equal",
        "the environment, or a wrapper, does not say anything about its state",
        (run.change(_WRAPPERS, "look at the observations, wrapper by wrapper"),),
        {"samples": float(samples), "std": spread},
    )


def reward_scale(run: Evidence) -> Finding | None:
    """Rewards are far from the order of 1."""
    factor = run.reward_factor
    try:
        size = factor * float(np.sqrt((run.rewards**2).mean()))
    except MissingEvidenceError:  # of on-policy algorithms: returns by lengths
        if run.returns_are_raw:
            raise
        length = run.values("collector/avg_envstep_per_episode")
        size = factor * float(np.median(np.abs(run.values("collector/reward_mean")) / length))
        if size < _LARGE_REWARD:  # of few rewards, such as one at the goal, this is no size
            return None
    if size == 0.0 or _TINY < size < _LARGE_REWARD:
        return None
    by = "" if factor == 1 else f", with the factor {factor:g} that the policy learns them by"
    change = run.change(_WRAPPERS, "add reward_norm, or scale the rewards to the order of 1")
    if factor != 1:
        change = run.change("policy.learn.reward_scale", "a factor that makes them of the order 1")
    word = "large" if size >= _LARGE_REWARD else "small"
    return Finding(
        f"rewards are {word}: {size:.3g} per env step{by}",
        "the gradient of the value loss is in proportion to the rewards: it drowns the other"
        " losses or vanishes in them",
        (change,),
        {"reward": size},
        ("learner/total_loss", "learner/value_loss", "learner/critic_loss"),
    )
