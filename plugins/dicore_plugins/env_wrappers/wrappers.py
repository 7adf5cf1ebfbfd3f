"""Env wrappers that gymnasium does not have, or whose episodes it cannot reproduce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from dicore.data import Columns, Info, State, StateDict, Tree
from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = [
    "ActionRepeat",
    "DelayReward",
    "DiscretizeAction",
    "EpisodeReturn",
    "HybridDictAction",
    "MaxAndSkip",
    "NoopReset",
    "NormalizeObservation",
    "NormalizeReward",
    "PrevActionReward",
    "RewardInObs",
]

Step = tuple[Tree, Tree, bool, bool, Info]


class NoopReset(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Takes 1 to `noop_max` no-op steps after each reset; the seed determines their number.

    Their rewards are discarded. If the episode ends during these steps, the next episode begins
    without no-op steps.

    Args:
        env: With discrete actions.
        noop_max: Maximum number of no-op steps.
        noop_action: The no-op action.
    """

    def __init__(self, env: Env, noop_max: int = 30, noop_action: int = 0) -> None:
        super().__init__(env)
        self._noop_max, self._action = noop_max, noop_action

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.unwrapped.np_random.integers(1, self._noop_max + 1))):
            obs, _, terminated, truncated, info = self.env.step(self._action)
            if terminated or truncated:
                return self.env.reset(options=options)
        return obs, info


class MaxAndSkip(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Repeats each action `skip` times; returns the element-wise maximum of the last two frames.

    Unlike in gymnasium, an episode that ends within a skip returns its own last frames, not those
    of an earlier step.

    Args:
        env: Observations are arrays.
        skip: Env steps per action.
    """

    def __init__(self, env: Env, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Tree) -> Step:
        total: Tree = 0.0
        before = None
        for number in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total = total + _number(reward)
            if terminated or truncated or number == self._skip - 1:
                break
            before = np.array(obs)  # the next step may write the same array
        frame = np.array(obs) if before is None else np.maximum(before, obs)
        return frame, total, terminated, truncated, info


class ActionRepeat(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Repeats each action and returns the summed reward, also of several agents or objectives.

    Args:
        env: Any environment.
        repeat: Env steps per action.
    """

    def __init__(self, env: Env, repeat: int) -> None:
        super().__init__(env)
        self._repeat = repeat

    def step(self, action: Tree) -> Step:
        total: Tree = 0.0
        for _ in range(self._repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total = total + _number(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class DelayReward(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Accumulates rewards; returns the sum every n steps and at the end of the episode.

    Args:
        env: Any environment.
        delay_reward_step: n.
    """

    def __init__(self, env: Env, delay_reward_step: int) -> None:
        super().__init__(env)
        self._every = delay_reward_step
        self._sum: Tree = 0.0
        self._steps = 0

    def reset(self, **kwargs: Any) -> tuple[Tree, Info]:
        self._sum, self._steps = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action: Tree) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._sum = self._sum + _number(reward)
        self._steps += 1
        delayed = self._sum * 0.0
        if terminated or truncated or self._steps == self._every:
            delayed, self._sum, self._steps = self._sum, 0.0, 0
        return obs, delayed, terminated, truncated, info


class EpisodeReturn(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Adds the return of the episode to its last info, as `eval_episode_return`.

    Put it inside a wrapper that changes rewards to evaluate the returns of the environment.

    Args:
        env: Any environment.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._return: Tree = 0.0

    def reset(self, **kwargs: Any) -> tuple[Tree, Info]:
        self._return = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Tree) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        reward = _number(reward)
        self._return = self._return + reward
        if terminated or truncated:
            info = {**info, "eval_episode_return": self._return}
        return obs, reward, terminated, truncated, info


class PrevActionReward(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Adds the previous action and reward to the observation.

    Observations become `{obs, prev_action, prev_reward}`; after a reset, `prev_action` is zero (or
    the value of the action space closest to it) and `prev_reward` is 0. `prev_reward` is float32,
    [1] or of the shape of the env's `reward_space`.

    Args:
        env: Actions are numbers or arrays.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._reward = _reward_box(env)
        self.observation_space = Dict({
            "obs": env.observation_space,
            "prev_action": env.action_space,
            "prev_reward": self._reward,
        })  # fmt: skip

    def reset(self, **kwargs: Any) -> tuple[Tree, Info]:
        obs, info = self.env.reset(**kwargs)
        return self._with_previous(obs, _neutral_action(self.action_space), 0.0), info

    def step(self, action: Tree) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        shown = self._with_previous(obs, action, reward)
        return shown, _number(reward), terminated, truncated, info

    def _with_previous(self, obs: Tree, action: Tree, reward: Tree) -> Columns:
        action = np.array(action, self.action_space.dtype)
        last = np.empty(self._reward.shape, np.float32)
        last[...] = reward
        return {"obs": obs, "prev_action": action, "prev_reward": last}


class RewardInObs(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Adds the last reward to the observation, as a dict (decision transformers).

    Observations become `{obs, reward}`; `reward` is float32, [1] or of the shape of the env's
    `reward_space`, and 0 after a reset.

    Args:
        env: Any environment.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        box = _reward_box(env)
        self._shape = box.shape
        self.observation_space = Dict({"obs": env.observation_space, "reward": box})

    def reset(self, **kwargs: Any) -> tuple[Tree, Info]:
        obs, info = self.env.reset(**kwargs)
        return {"obs": obs, "reward": np.zeros(self._shape, np.float32)}, info

    def step(self, action: Tree) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        last = np.array(reward, np.float32).reshape(self._shape)
        return {"obs": obs, "reward": last}, reward, terminated, truncated, info


class HybridDictAction(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Takes hybrid actions as a dict: the discrete type and all continuous arguments as one vector.

    Actions are `{action_type, action_args}`; `action_args` is float32 [A], the arguments of all
    types in order, from which each gets its own.

    Args:
        env: Its action space is `Tuple(Discrete, Box, Box, …)`, with flat boxes.

    Raises:
        ConfigError: the action space has another form.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        space = env.action_space
        kinds, *boxes = space.spaces if isinstance(space, Tuple) and space.spaces else (None,)
        flat = [box for box in boxes if isinstance(box, Box) and len(box.shape) == 1]
        if not isinstance(kinds, Discrete) or not flat or len(flat) < len(boxes):
            raise ConfigError(
                "env.env_wrapper: 'gym_hybrid_dict_action' needs actions Tuple(Discrete, Box, …),"
                f" but wraps an environment with {space}"
            )
        low, high = (
            np.concatenate([getattr(box, bound) for box in flat]) for bound in ("low", "high")
        )
        self.action_space = Dict({"action_type": kinds, "action_args": Box(low, high)})
        self._ends = np.cumsum([box.shape[0] for box in flat])[:-1]

    def step(self, action: Tree) -> Step:
        parts = np.split(np.asarray(action["action_args"], np.float32), self._ends)
        return self.env.step((action["action_type"], *parts))


class NormalizeObservation(wrappers.NormalizeObservation[Tree, Tree, Tree]):
    """Gymnasium's, with statistics that a checkpoint stores."""

    def state_dict(self) -> StateDict:
        """Returns mean, variance and count."""
        return _statistics(self.obs_rms)

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        vars(self.obs_rms).update(state)


class NormalizeReward(wrappers.NormalizeReward[Tree, Tree]):
    """Gymnasium's, with statistics that a checkpoint stores."""

    def state_dict(self) -> StateDict:
        """Returns mean, variance and count, and the discounted return so far."""
        return {**_statistics(self.return_rms), "discounted_reward": self.discounted_reward}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self.discounted_reward = state["discounted_reward"]
        vars(self.return_rms).update({name: state[name] for name in ("mean", "var", "count")})


def _reward_box(env: Env) -> Box:
    """Returns the space of rewards as a part of observations, float32 with at least one axis."""
    shape = getattr(getattr(env.unwrapped, "reward_space", None), "shape", ()) or (1,)
    return Box(-np.inf, np.inf, shape, np.float32)


def _number(reward: Tree) -> Tree:
    """Returns a scalar reward as a float, others as float64 arrays."""
    if reward.__class__ is float or np.ndim(reward) == 0:
        return float(reward)
    return np.asarray(reward, np.float64)


def _statistics(running: Any) -> StateDict:
    return {"mean": running.mean, "var": running.var, "count": running.count}


def _neutral_action(space: Any) -> Tree:
    """Returns the `prev_action` after a reset."""
    if isinstance(space, Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    return np.zeros(space.shape, space.dtype) + getattr(space, "start", 0)


class DiscretizeAction(gymnasium.ActionWrapper[Tree, Tree, Tree]):
    """Offers `bins` evenly spaced values of each action, its bounds among them, as choices.

    The actions are `Discrete(bins)` if the environment takes one number, else `MultiDiscrete` with
    a choice for each.

    Args:
        env: With bounded continuous actions.
        bins: Values of each action.
    """

    def __init__(self, env: Env, bins: int = 11) -> None:
        super().__init__(env)
        space: Any = env.action_space
        self._shape: tuple[int, ...] = space.shape
        self._values = np.linspace(space.low, space.high, bins, dtype=space.dtype)
        one = self._values[0].size == 1
        self.action_space = Discrete(bins) if one else MultiDiscrete(np.full(space.shape, bins))

    def action(self, action: Tree) -> Tree:
        """Returns the values [...] of the choices, which are one number or int [...]."""
        chosen = np.asarray(action, np.int64).reshape(1, *self._shape)
        return np.take_along_axis(self._values, chosen, 0)[0]
