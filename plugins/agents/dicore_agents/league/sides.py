"""The sides of a game of several agents, each as an environment of its own.

Shapes: K environments, A agents, k of them on a side, n actions, `...` what an agent sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.envs.form import agents_space

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["Seats", "Sides"]

Seats: TypeAlias = npt.NDArray[np.int64]
"""Number of a side, int64 [K]."""

_WHERE = "env.env_wrapper: one_side"


class Sides:
    """Which agents of an environment play on which side, and what a side sees and does.

    A side of one agent is an environment of one agent: its observation is that of the agent, a Dict
    of `obs` and `action_mask` if there are masks, and its action a Discrete or a Box. A side of
    several is a team: observations keep their keys, with rows [k, ...].

    Args:
        spec: That of the environment, which has several agents.
        groups: Names of the agents by side; None: each agent is a side.

    Attributes:
        names: Names of the agents by side.

    Raises:
        ConfigError: there are not two sides, agents are unknown, missing or on two sides, sides
            have unequal numbers of agents, or the reward is not one number per agent.
    """

    def __init__(self, spec: EnvSpec, groups: Sequence[Sequence[str]] | None = None) -> None:
        parts: Any = getattr(spec.observation, "spaces", {})
        if not spec.agents or "obs" not in parts:
            raise ConfigError(
                f"{_WHERE}: expected a game of several agents, whose observations are a Dict with"
                f" 'obs'; got {spec.observation}",
                hint="choose an environment of several agents: dicore show env/tictactoe",
            )
        self.names = _checked_names(spec.agents, groups)
        if spec.reward_shape != (len(spec.agents),):
            raise ConfigError(
                f"{_WHERE}: the sides of a game have rewards of their own, but the environment"
                " rewards all agents together",
                hint="drop env.team_reward, or write a payoff of each agent",
            )
        self._spec = spec
        self._rows = np.array([[spec.agents.index(name) for name in side] for side in self.names])
        self._parts = parts
        self._masked, self._mortal = "action_mask" in parts, "alive" in parts
        self.spec = self._view()

    def __len__(self) -> int:
        """The number of sides."""
        return len(self.names)

    @property
    def of_one(self) -> bool:
        """Each side is one agent."""
        return bool(self._rows.shape[1] == 1)

    def seen(self, obs: Tree, seats: Seats) -> Tree:
        """Returns what sides see, copied.

        Args:
            obs: Observations of all agents [K, A, ...].
            seats: The side of each environment.
        """
        own = self._own(seats)
        if not self.of_one:
            return {key: leaf.copy() if key == "state" else leaf[own] for key, leaf in obs.items()}
        rows = obs["obs"][own][:, 0]
        return {"obs": rows, "action_mask": obs["action_mask"][own][:, 0]} if self._masked else rows

    def acts(self, obs: Tree, seats: Seats) -> npt.NDArray[np.bool_]:
        """Returns whether sides have a choice, bool [K]: an agent alive that may do more than 0.

        In a game of turns, who waits has none (see `turn_mask`); nor has who must choose 0.
        """
        own = self._own(seats)
        free: npt.NDArray[np.bool_] = np.ones(own[1].shape, np.bool_)
        if self._mortal:
            free &= obs["alive"][own] != 0
        if self._masked:
            free &= obs["action_mask"][own][..., 1:].any(-1)
        return np.asarray(free.any(1))

    def idle(self, count: int) -> npt.NDArray[Any]:
        """Returns actions 0 of all agents, [K, A] or [K, A, d]."""
        space: Any = self._spec.action
        if isinstance(space, Box):
            zero = np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        else:
            zero = np.zeros(space.shape, np.int64)
        return np.repeat(zero[None], count, 0)

    def put(self, actions: npt.NDArray[Any], seats: Seats, chosen: Tree) -> None:
        """Writes what sides chose, [K, ...] or [K, k, ...], into actions of all agents."""
        own = self._own(seats)
        actions[own] = np.asarray(chosen).reshape(actions[own].shape)

    def taken(self, actions: npt.NDArray[Any], seats: Seats) -> npt.NDArray[Any]:
        """Returns the part of sides, [K, k, ...], of actions of all agents."""
        part: npt.NDArray[Any] = actions[self._own(seats)]
        return part

    def earned(self, reward: npt.NDArray[np.float32], seats: Seats) -> npt.NDArray[np.float32]:
        """Returns rewards of sides: [K], or [K, k] of teams."""
        own = reward[self._own(seats)]
        return own[:, 0] if self.of_one else own

    def margin(self, returns: npt.NDArray[Any], seat: int) -> float:
        """Returns the mean return of a side's agents less that of the others, of returns [A]."""
        mine = np.zeros(len(returns), np.bool_)
        mine[self._rows[seat]] = True
        return float(returns[mine].mean() - returns[~mine].mean())

    def agents(self, seat: int) -> list[int]:
        """Returns the numbers of a side's agents."""
        return [int(row) for row in self._rows[seat]]

    def others(self, seat: int) -> list[int]:
        """Returns the numbers of the other sides."""
        return [side for side in range(len(self)) if side != seat]

    def _own(self, seats: Seats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.arange(len(seats))[:, None], self._rows[seats]

    def _view(self) -> EnvSpec:
        """Returns the spec of a side; bounds are those of all sides."""
        obs: Any = self._box(self._parts["obs"])
        action: Any = self._spec.action
        if isinstance(action, Box):
            action = self._box(action)
        else:
            action = MultiDiscrete(action.nvec[self._rows].max(0))
        size = int(action.nvec.max()) if isinstance(action, MultiDiscrete) else None
        masked = size if self._masked else None
        count = self._rows.shape[1]
        reward = Box(-np.inf, np.inf, () if self.of_one else (count,), np.float32)
        if self.of_one:
            action = _first(action)
            obs = _first(obs)
            if masked is not None:
                obs = Dict({"obs": obs, "action_mask": MultiBinary(masked)})
            return EnvSpec(obs, action, reward)
        state = self._parts.get("state")
        seen = agents_space(obs, alive=self._mortal, masked=masked, state=state)
        return EnvSpec(seen, action, reward, state, tuple(f"agent_{row}" for row in range(count)))

    def _box(self, box: Box) -> Box:
        low, high = box.low[self._rows].min(0), box.high[self._rows].max(0)
        return Box(low, high, dtype=box.dtype.type)


def _first(space: Any) -> Any:
    """Returns the space of the only agent of a side."""
    if isinstance(space, MultiDiscrete):
        return Discrete(int(space.nvec[0]))
    return Box(space.low[0], space.high[0], dtype=space.dtype.type)


def _checked_names(
    agents: Sequence[str], groups: Sequence[Sequence[str]] | None
) -> tuple[tuple[str, ...], ...]:
    sides = [[name] for name in agents] if groups is None else groups
    names = [name for side in sides for name in side]
    told = ", ".join(agents)
    if unknown := [name for name in names if name not in agents]:
        raise ConfigError(f"{_WHERE}.sides: unknown agent '{unknown[0]}'; expected {told}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"{_WHERE}.sides: agent '{twice[0]}' is named twice")
    if missing := [name for name in agents if name not in names]:
        raise ConfigError(f"{_WHERE}.sides: agent '{missing[0]}' is on no side; name {told}")
    if len(sides) < 2 or not all(sides):
        raise ConfigError(
            f"{_WHERE}.sides: a game has two sides or more, got {len(sides)}",
            hint="for instance sides=[[a, b], [c, d]]",
        )
    if len({len(side) for side in sides}) > 1:
        raise ConfigError(
            f"{_WHERE}.sides: sides have unequal numbers of agents,"
            f" {[len(side) for side in sides]}",
            hint="one policy plays every side, so that all have as many agents",
        )
    return tuple(tuple(side) for side in sides)
