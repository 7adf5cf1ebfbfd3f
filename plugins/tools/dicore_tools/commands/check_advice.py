"""Advice about an environment that fulfils its contract: wrappers, manager, algorithms."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gymnasium.wrappers import NormalizeReward

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore.interfaces.env import Env

__all__ = ["Sample", "advice", "sampled"]

_STEPS: Final = 500
_SECONDS: Final = 10.0
"""Time of all steps at most."""
_LARGE_OBS, _LARGE_REWARD, _SLOW_MS = 10.0, 10.0, 1.0
_IMAGE_DIMS: Final = 3
_NATURE: Final = 36
"""Pixels in height and width that the convolutions of Mnih et al. 2015 need."""


@dataclass(slots=True)
class Sample:
    """What random actions showed of an environment.

    Args:
        env: The environment.
        steps: Number of env steps.
        episodes: Episodes that ended.
        seconds: Time of all steps.
        rewards: Scalar rewards, or means of vectors.
        largest: Largest absolute number in observations; 0 if there is none.
    """

    env: Any
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    rewards: list[float] = field(default_factory=list)
    largest: float = 0.0


def advice(make: Callable[[], Any]) -> list[str]:
    """Returns sentences about an environment, most important first.

    Args:
        make: Returns a new environment with the Gymnasium API.
    """
    env = make()
    try:
        sample = sampled(env)
    finally:
        env.close()
    parts = (_seeds, _episodes, _observations, _actions, _rewards, _speed, _pictures)
    return [line for part in parts for line in part(sample)]


def sampled(env: Any, steps: int = _STEPS) -> Sample:
    """Steps an environment with random actions.

    Args:
        env: An environment with the Gymnasium API.
        steps: Number of env steps.
    """
    found = Sample(env)
    env.action_space.seed(0)
    obs, info = env.reset(seed=0)
    ends = time.monotonic() + _SECONDS
    for _ in range(steps):
        if time.monotonic() > ends:
            break
        found.largest = max(found.largest, _largest(obs))
        action = _allowed(env, info)
        began = time.perf_counter()
        obs, reward, terminated, truncated, info = env.step(action)
        found.seconds += time.perf_counter() - began
        found.steps += 1
        found.rewards.append(float(np.mean(reward)))
        if terminated or truncated:
            found.episodes += 1
            obs, info = env.reset()
    return found


def _allowed(env: Env, info: Any) -> object:
    mask = info.get("action_mask") if isinstance(info, dict) else None
    if mask is None or not hasattr(env.action_space, "n"):
        return env.action_space.sample()
    return env.action_space.sample(mask=np.asarray(mask, np.int8))


def _largest(obs: Tree) -> float:
    if isinstance(obs, dict):
        return max((_largest(each) for each in obs.values()), default=0.0)
    if isinstance(obs, tuple):
        return max((_largest(each) for each in obs), default=0.0)
    array = np.asarray(obs)
    if array.dtype.kind not in "fiu" or array.dtype == np.uint8 or not array.size:
        return 0.0
    return float(np.abs(array.astype(np.float64)).max())


def _seeds(sample: Sample) -> Iterator[str]:
    inner: Any = getattr(sample.env.unwrapped, "env", None)  # of an older API, which is adapted
    roots = {base.__module__.partition(".")[0] for base in type(inner).__mro__}
    if "gymnasium" in roots and "seed" not in inspect.signature(inner.reset).parameters:
        yield (
            "reset takes no seed, so that no episode can be repeated: def reset(self, *, seed=None,"
            " options=None), and super().reset(seed=seed) in it"
        )


def _episodes(sample: Sample) -> Iterator[str]:
    limit = getattr(getattr(sample.env, "spec", None), "max_episode_steps", None)
    if not sample.episodes and limit is None:
        yield (
            f"no episode ended in {sample.steps} random steps and there is no time limit; add one:"
            " env.env_wrapper=[{type: time_limit, max_episode_steps: 1000}]"
        )


def _observations(sample: Sample) -> Iterator[str]:
    space = sample.env.observation_space
    if hasattr(space, "spaces") and "achieved_goal" in getattr(space, "spaces", {}):
        yield (
            "observations have goals: policy.reward_model=her, policy.other.replay_buffer=episode"
            " learn from those that were missed"
        )
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    if getattr(space, "dtype", None) in (np.uint8, np.bool_) and len(shape) == _IMAGE_DIMS:
        channels_last = shape[-1] in (1, 3, 4) or shape[0] == shape[1] != shape[2]
        sides = shape[:2] if channels_last else shape[1:]
        more = " (the CNN moves the channels to the front)" if channels_last else ""
        conv = "nature (or small)" if min(sides) >= _NATURE else "small"
        yield f"observations are images {[*shape]}: policy.model.conv={conv}{more}"
        if min(sides) > 100:
            yield "the images are large: env.env_wrapper=[warp_frame] makes them 84 x 84 and grey"
    elif sample.largest > _LARGE_OBS:
        flat = "flat_obs, " * (not shape)
        std = f"{float(f'{sample.largest:.2g}'):g}"
        wrapper = f"[{flat}{{type: static_obs_norm, std: {std}}}]"
        yield (
            f"observations reach {sample.largest:.3g}; networks learn best from numbers near 1:"
            " policy.model.obs_norm=true (ppo, sac, td3, a2c, …), or with dqn and its relatives"
            f" 'env.env_wrapper={wrapper}'"
        )


_FITTING: Final = {
    "Discrete": "dqn, rainbow, ppo",
    "MultiDiscrete": "bdq, ppo",
    "Box": "sac, td3, ppo",
    "Tuple": "ppo",
    "Dict": "pdqn, ppo",
}


def _actions(sample: Sample) -> Iterator[str]:
    space = sample.env.action_space
    names = _FITTING.get(type(space).__name__)
    if names:
        yield f"actions are {type(space).__name__}: begin with -p {names.replace(', ', ' or -p ')}"
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is not None and high is not None and type(space).__name__ == "Box":
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            yield "the actions have no bounds; give the Box finite ones, or wrap the environment"
        elif np.ptp(high - low) > 0 or not np.allclose(low, -high):
            yield (
                "the ranges of the actions differ or are not centred: env.env_wrapper="
                "[rescale_action] makes them -1 to 1"
            )


def _rewards(sample: Sample) -> Iterator[str]:
    rewards = np.asarray(sample.rewards)
    if not rewards.any():
        yield (
            f"{sample.steps} random steps gave no reward: exploration will need help"
            " (policy.reward_model=rnd, demonstrations), or a shaped reward"
        )
    elif np.abs(rewards).max() > _LARGE_REWARD and not _normalised(sample.env):
        yield (
            f"rewards reach {np.abs(rewards).max():.3g}; with ppo and a2c scale them:"
            " env.env_wrapper=[reward_norm] (evaluation reports the unscaled return); begin sac,"
            " td3 and dqn without it"
        )


def _normalised(env: Any) -> bool:
    """Tells whether a wrapper normalises rewards."""
    while env is not None and not isinstance(env, NormalizeReward):
        env = getattr(env, "env", None)
    return env is not None


def _speed(sample: Sample) -> Iterator[str]:
    milliseconds = 1e3 * sample.seconds / max(sample.steps, 1)
    if milliseconds > _SLOW_MS:
        yield (
            f"a step takes {milliseconds:.1f} ms: collect in processes, env.manager=sync_subprocess"
            " env.collector_env_num=8"
        )
    else:
        yield f"a step takes {1e3 * milliseconds:.0f} µs: the default manager, base, is best"


def _pictures(sample: Sample) -> Iterator[str]:
    modes = (getattr(sample.env, "metadata", None) or {}).get("render_modes") or []
    if not {"rgb_array", "human", "ansi"} & set(modes):
        yield "it cannot be seen: add render() for dicore enjoy, videos and pictures"
