"""Turn-based environments of PettingZoo (AEC) with the API of parallel ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore.data import Info, Tree

__all__ = ["TurnsAsParallel"]


class TurnsAsParallel:
    """A `pettingzoo.AECEnv` in which all agents take each step, but one of them acts.

    A step is the turn of one agent; each agent receives what the environment pays it for the turn,
    also while it waits. Turns of agents that are done, which AEC wants to be confirmed, are made
    without being asked.

    Args:
        env: The environment.
    """

    turn_based = True

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents: list[Any] = [*(getattr(env, "possible_agents", None) or ())]
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        space = getattr(env, "state_space", None)
        if space is not None:
            self.state_space = space

    @property
    def agents(self) -> list[Any]:
        """Those that are in the game."""
        return list(self.env.agents)

    @property
    def to_play(self) -> Any:
        """The agent whose turn it is; None: the game is over."""
        return self.env.agent_selection if self.env.agents else None

    def observation_space(self, agent: Any) -> Any:
        """Returns what an agent sees."""
        return self.env.observation_space(agent)

    def action_space(self, agent: Any) -> Any:
        """Returns what an agent can do."""
        return self.env.action_space(agent)

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[Any, Tree], dict[Any, Info]]:
        """Begins a game."""
        self.env.reset(seed=seed, options=options)
        self._confirm()
        return self._observed(), dict(self.env.infos)

    def step(self, actions: dict[Any, Tree]) -> tuple[dict[Any, Tree], Any, Any, Any, Any]:
        """Makes a turn: the action of the agent `to_play`; others are ignored."""
        self.env.step(actions[self.env.agent_selection])
        rewards, infos = dict(self.env.rewards), dict(self.env.infos)
        terminated, truncated = dict(self.env.terminations), dict(self.env.truncations)
        last = self._observed()
        self._confirm()
        infos.update(self.env.infos)
        return {**last, **self._observed()}, rewards, terminated, truncated, infos

    def state(self) -> Tree:
        """Returns the global state."""
        return self.env.state()

    def render(self) -> Tree:
        """Returns what the environment's `render` returns."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def __str__(self) -> str:
        return str(self.env)

    def _observed(self) -> dict[Any, Tree]:
        return {agent: self.env.observe(agent) for agent in self.env.agents}

    def _confirm(self) -> None:
        """Makes the turns of agents that are done, until one is to play that is not."""
        while self.env.agents:
            turn = self.env.agent_selection
            if not self.env.terminations[turn] and not self.env.truncations[turn]:
                return
            self.env.step(None)
