"""Wrappers that change what each agent of a team sees; masks, `alive` and `state` stay.

Shapes: A agents, n frames, `...` one observation of an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.data import State, StateDict, Tree
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Env

__all__ = ["AgentFrameStack", "AgentObsNorm"]

Rows = npt.NDArray[Any]
_FEW = 1e-4
"""Observations that the first mean 0 and variance 1 count for, as in Gymnasium."""


class _AgentRows(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Base class: passes on what a subclass makes of `obs`.

    Args:
        env: An environment of several agents.
        name: Name of the wrapper, for errors.
        instead: The wrapper for one agent.

    Raises:
        ConfigError: it has one agent, or observations of another form.
    """

    def __init__(self, env: Env, name: str, instead: str) -> None:
        super().__init__(env)
        spec = EnvSpec.of(env)
        parts = dict(getattr(spec.observation, "spaces", None) or {})
        rows = parts.get("obs")
        if not spec.agents or not isinstance(rows, spaces.Box):
            raise ConfigError(
                f"env.env_wrapper: '{name}' needs the observations of several agents,"
                f" Dict(obs: Box(A, ...)), but wraps an environment with {spec.observation}",
                hint=f"for one agent: {instead}",
            )
        self.rows: spaces.Box = rows
        self.observation_space = spaces.Dict({**parts, "obs": self._space()})

    def _space(self) -> spaces.Box:
        """Returns the space of what agents see."""
        raise NotImplementedError

    def _changed(self, rows: Rows, alive: Rows, *, first: bool) -> Rows:
        """Returns what agents see instead of rows [A, ...], of which those of `alive` [A] act."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._seen(obs, first=True), info

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Steps the environment."""
        obs, *told = self.env.step(action)
        return (self._seen(obs, first=False), *told)

    def _seen(self, obs: Mapping[str, Any], *, first: bool) -> Tree:
        rows = np.asarray(obs["obs"])
        alive = np.asarray(obs["alive"]) != 0 if "alive" in obs else np.ones(len(rows), np.bool_)
        return {**obs, "obs": self._changed(rows, alive, first=first)}


class AgentFrameStack(_AgentRows):
    """Stacks the last n observations of each agent, the newest last: [A, n, ...].

    The stack of an agent begins with its first observation: that of the reset, or that with which
    it comes late.

    Args:
        env: An environment of several agents.
        n_frames: n.

    Raises:
        ConfigError: it has one agent, or observations of another form.
    """

    def __init__(self, env: Env, n_frames: int = 4) -> None:
        self._count = n_frames
        super().__init__(env, "agent_frame_stack", "frame_stack")
        self._frames: Rows = np.zeros(self._space().shape, self.rows.dtype)
        self._alive: Rows = np.ones(len(self._frames), np.bool_)

    def _space(self) -> spaces.Box:
        low, high = (
            np.repeat(bound[:, None], self._count, 1) for bound in (self.rows.low, self.rows.high)
        )
        return spaces.Box(low, high, dtype=self.rows.dtype.type)

    def _changed(self, rows: Rows, alive: Rows, *, first: bool) -> Rows:
        newest = rows[:, None].astype(self._frames.dtype, copy=False)
        frames = np.concatenate([self._frames[:, 1:], newest], 1)
        fresh = np.ones_like(alive) if first else alive & ~self._alive
        frames[fresh] = newest[fresh]
        self._frames, self._alive = frames, alive
        return frames.copy()


class AgentObsNorm(_AgentRows):
    """Normalises what each agent sees by its own running mean and standard deviation.

    An agent that does not act changes no statistics, and sees zeros. Statistics belong to the
    environment, as those of `obs_norm`; checkpoints have them.

    Args:
        env: An environment of several agents.
        epsilon: Added to the variance.

    Raises:
        ConfigError: it has one agent, or observations of another form.
    """

    def __init__(self, env: Env, epsilon: float = 1e-8) -> None:
        super().__init__(env, "agent_obs_norm", "obs_norm")
        shape = self.rows.shape
        self._epsilon = epsilon
        self._mean, self._var = np.zeros(shape), np.ones(shape)
        self._seen_count = np.full((shape[0], *(1,) * (len(shape) - 1)), _FEW)

    def _space(self) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, self.rows.shape, np.float32)

    def _changed(self, rows: Rows, alive: Rows, *, first: bool) -> Rows:
        at = np.flatnonzero(alive)
        x, before = rows[at].astype(np.float64), self._seen_count[at]
        total, mean = before + 1, self._mean[at]
        delta = x - mean
        mean = mean + delta / total
        spread = self._var[at] * before + delta * delta * before / total
        self._mean[at], self._var[at], self._seen_count[at] = mean, spread / total, total
        found = np.zeros(rows.shape, np.float32)
        found[at] = (x - mean) / np.sqrt(self._var[at] + self._epsilon)
        return found

    def state_dict(self) -> StateDict:
        """Returns mean, variance and number of the observations of each agent."""
        return {"mean": self._mean, "var": self._var, "count": self._seen_count}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._mean, self._var = np.array(state["mean"]), np.array(state["var"])
        self._seen_count = np.array(state["count"])
