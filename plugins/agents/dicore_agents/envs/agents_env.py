"""Environments with dicts by agent (PettingZoo) in the form that policies of several agents read.

Shapes: A agents in the order of `possible_agents`, n actions, S numbers of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import ConfigError, EnvError
from dicore_agents.envs.form import agents_space
from dicore_agents.envs.rows import ActionRows, ObservationRows

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Space

__all__ = ["AgentsEnv", "IParallel"]

Step = tuple[Tree, Tree, bool, bool, "Info"]


class IParallel(Protocol):
    """What is read of a `pettingzoo.ParallelEnv`; `TurnsAsParallel` also has `to_play`."""

    possible_agents: list[Any]

    @property
    def agents(self) -> list[Any]:
        """Those that act in the next step."""

    def observation_space(self, agent: Any) -> Space: ...
    def action_space(self, agent: Any) -> Space: ...
    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]: ...
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]: ...


class AgentsEnv(gymnasium.Env[Tree, Tree]):
    """A parallel environment of PettingZoo, or one made of turns, with one row for each agent.

    Observations are a Dict of `obs` [A, ...], and where they exist `alive` [A], `action_mask`
    [A, n] and `state` [S]. Actions are int64 [A], or float32 [A, ...]; rewards are float32 [A].

    An agent that is gone, or did not come yet, is not alive: its row is its last observation, then
    zeros, its mask allows all, its reward is 0 and its action is ignored. The episode ends with the
    last agent. It is truncated if one of those that ended it was; these stay alive, because they
    would have acted. An agent that is truncated while others go on counts as dead.

    In a game of turns all agents are alive; see `turn_mask` for those that wait.

    Args:
        env: A `pettingzoo.ParallelEnv`, or a `TurnsAsParallel`.
        pad: Fill up the rows of agents that see less, or have fewer actions, than others.
        alive: Tell which agents act; False: all do to the end.
        state: Tell the global state, what `env.state()` returns.
        team_reward: Return the sum of all rewards, one number.
        info_mask: Masks are in the infos of the agents, not in their observations.

    Attributes:
        agent_ids: Names of the agents.
        to_play: Number of the agent whose turn it is; None: all act at once.

    Raises:
        ConfigError: agents are unlike and not padded, or there is no state.
        EnvError: it does not list its agents; in `reset` and `step`: nobody acts, a mask forbids
            all actions, masks are not where they should be, or an agent died with `alive=False`.
    """

    def __init__(
        self, env: Any, *, pad: bool = False, alive: bool = True, state: bool = False,
        team_reward: bool = False, info_mask: bool = False,
    ) -> None:  # fmt: skip
        self._names = [*(getattr(env, "possible_agents", None) or ())]
        if not self._names:
            raise EnvError(
                f"{env} does not list its agents", hint="set possible_agents in its __init__"
            )
        self.env, self._tells_alive, self._team = env, alive, team_reward
        self.agent_ids = tuple(str(name) for name in self._names)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._turns, self._info_mask = getattr(env, "turn_based", False), info_mask
        seen = [env.observation_space(name) for name in self._names]
        self._rows = ObservationRows(seen, self.agent_ids, pad=pad, turn=self._turns)
        acting = [env.action_space(name) for name in self._names]
        self._actions = ActionRows(acting, self.agent_ids, pad=pad)
        self.state_space = _state_space(env) if state else None
        masked = self._masked()
        self._has_masks = masked is not None
        self.observation_space = agents_space(
            self._rows.space, alive=alive, masked=masked, state=self.state_space
        )
        self.action_space = self._actions.space
        shape = () if team_reward else (len(self._names),)
        self.reward_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.to_play: int | None = None
        self._alive: npt.NDArray[np.int8] = np.zeros(len(self._names), np.int8)

    def _masked(self) -> int | None:
        """Returns n if there are masks."""
        sizes = self._actions.sizes
        if sizes is None:
            return None
        told = self._rows.masked or self._info_mask or self._turns or self._actions.unequal
        return max(sizes) if told else None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode.

        Raises:
            EnvError: nobody acts in it.
        """
        super().reset(seed=seed)  # for wrappers that draw from np_random
        obs, infos = self.env.reset(seed=seed, options=options)
        self._alive = np.array([name in self.env.agents for name in self._names], np.int8)
        if not self._alive.any():
            raise EnvError(
                f"{self.env}: nobody acts in an episode, agents is empty after reset",
                hint="list in `agents` those that act first",
            )
        if not self._has_masks and any("action_mask" in (infos.get(each) or ()) for each in infos):
            raise EnvError(
                f"{self.env}: the infos have an action_mask, which nobody would obey",
                hint="set env.info_mask=true",
            )
        return self._seen(obs, infos, over=False), _told(infos)

    def step(self, action: Tree) -> Step:
        """Steps the environment with the actions of those agents that are left."""
        acting, names = self.env.agents, self._names
        given = dict(zip(names, self._actions.split(action), strict=True))
        if len(acting) < len(names):
            given = {name: given[name] for name in names if name in acting}
        obs, rewards, terminated, truncated, infos = self.env.step(given)
        over = is_cut = False
        all_act = len(given) == len(self.env.agents) == len(names)
        if not all_act or any(terminated.values()) or any(truncated.values()):
            over, is_cut = self._lived(given, terminated, truncated)
        reward = np.array([rewards.get(name, 0.0) for name in names], np.float32)
        paid = float(reward.sum()) if self._team else reward
        return self._seen(obs, infos, over), paid, over and not is_cut, is_cut, _told(infos)

    def _lived(
        self, acted: Mapping[Any, Tree], terminated: Mapping[Any, Any], truncated: Mapping[Any, Any]
    ) -> tuple[bool, bool]:
        """Notes who acts next; returns whether the episode is over, and whether it was cut."""
        left = {*self.env.agents}
        ended = {name: bool(terminated.get(name, False)) for name in self._names}
        cut = {
            name: name in acted and bool(truncated.get(name, False)) and not ended[name]
            for name in self._names
        }
        goes_on = [name in left and not ended[name] and not cut[name] for name in self._names]
        over = not any(goes_on)
        is_cut = over and any(cut.values())
        self._alive = np.array([*cut.values()] if is_cut else goes_on, np.int8)
        return over, is_cut

    def render(self) -> Tree:
        """Returns what the environment's `render` returns."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def __str__(self) -> str:
        return f"<AgentsEnv<{self.env}>>"

    def _seen(self, obs: Mapping[Any, Tree], infos: Mapping[Any, Info], over: bool) -> Tree:
        turn = self.env.to_play if self._turns and not over else None
        self.to_play = None if turn is None else self._names.index(turn)
        seen = [obs.get(name) for name in self._names]
        told: dict[str, Tree] = {"obs": self._rows.join(seen, self.to_play)}
        if self._tells_alive:
            told["alive"] = self._alive.copy()
        elif not over and not self._alive.all():
            gone = self.agent_ids[int(self._alive.argmin())]
            raise EnvError(
                f"{self.env}: {gone} does not act while others do, but env.alive is false",
                hint="drop env.alive=false",
            )
        if self._has_masks:
            told["action_mask"] = self._masks(seen, infos, over)
        if self.state_space is not None:
            told["state"] = np.asarray(self.env.state(), np.float32).reshape(-1)
        return told

    def _masks(self, seen: list[Tree], infos: Mapping[Any, Info], over: bool) -> Tree:
        """Returns what agents may do next, int8 [A, n]; all, if they do not act."""
        sizes = self._actions.sizes or []
        masks = np.ones((len(sizes), max(sizes)), np.int8)
        for row, name in enumerate(self._names):
            if not self._alive[row]:
                continue
            holder = infos.get(name) if self._info_mask else seen[row]
            given = holder.get("action_mask") if isinstance(holder, Mapping) else None
            masks[row, sizes[row] :] = 0
            if self.to_play not in (None, row):
                masks[row, 1:] = 0
            elif given is not None and (np.any(given) or not over):
                masks[row, : sizes[row]] = np.asarray(given, np.int8)
        if not masks.any(1).all():
            stuck = self.agent_ids[int(masks.any(1).argmin())]
            raise EnvError(f"{self.env}: {stuck} acts next, but its mask forbids all actions")
        return masks


def _state_space(env: Any) -> spaces.Box:
    """Returns the space of the global state, float32 [S]."""
    space = getattr(env, "state_space", None)
    if not isinstance(space, spaces.Box) or not callable(getattr(env, "state", None)):
        raise ConfigError(
            f"env.state: {env} gives no global state: it has no state_space",
            hint="drop env.state; policies then read the observations of all agents",
        )
    with np.errstate(over="ignore"):
        low, high = (
            bound.astype(np.float32).reshape(-1) for bound in (space.low, space.high)
        )  # fmt: skip
    return spaces.Box(low, high, dtype=np.float32)


def _told(infos: Mapping[Any, Info]) -> Info:
    """Returns the infos by agent, those that say something beside masks."""
    if not any(infos.values()):
        return {}
    told = {
        str(name): kept
        for name, info in infos.items()
        if isinstance(info, Mapping)
        and (kept := {key: each for key, each in info.items() if key != "action_mask"})
    }
    return {"agents": told} if told else {}
