"""Environments of several agents of other packages: their options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from dicore.config.schema import REQUIRED, component, frozen, option
from dicore.config.sections import EnvConfig, ManagerConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.run.env_factory import BuildContext

__all__ = ["AgentsConfig", "GymnasiumAgentsConfig", "LBForagingConfig", "OpenSpielConfig",
           "PettingZooAgentsConfig", "RWAREConfig", "VmasConfig"]  # fmt: skip


@frozen(kw_only=True)
class AgentsConfig(EnvConfig):
    """Options of all environments whose columns have a row for each agent."""

    env_id: str = option(REQUIRED, "id of the environment")
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of the environment")
    pad: bool = option(
        False, "fill up what unlike agents see with zeros, and forbid actions that some lack"
    )
    alive: bool = option(
        True, "tell which agents act, `alive` [A]; false: all agents act to the end"
    )
    state: bool = option(False, "tell the global state, `state` [S]")
    team_reward: bool = option(False, "return the sum of all rewards instead of one per agent")
    n_evaluator_episode: int = option(20, "episodes per evaluation", ge=1)
    stop_value: float = option(math.inf, "mean episode return at which training stops; inf: never")

    def with_pictures(self) -> Self:
        """Returns this config with rendering enabled, for videos."""
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def form(self) -> dict[str, bool]:
        """Returns the arguments of `AgentsEnv`."""
        named = {"pad": self.pad, "alive": self.alive, "state": self.state}
        return {**named, "team_reward": self.team_reward}


@frozen(kw_only=True)
class PettingZooAgentsConfig(AgentsConfig):
    """Any PettingZoo environment by id, parallel or of turns, for policies of several agents."""

    env_id: str = option(
        REQUIRED, "id, e.g. classic.tictactoe_v3, or a module with `parallel_env` or `env`"
    )
    api: str = option(
        "auto", "parallel: all agents act at once; aec: in turn; auto: parallel, if it has both",
        choices=("auto", "parallel", "aec"),
    )  # fmt: skip
    info_mask: bool = option(False, "masks are in the infos of agents, not in what they observe")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: there is no such environment, not with this API, its agents are unlike, or
                it has no state.
            MissingDependencyError: a package that the environment needs is not installed.
        """
        from dicore_agents.envs.agents_env import AgentsEnv
        from dicore_agents.envs.by_id import make_by_id

        made = make_by_id(self.env_id, self.api, **self.make_kwargs)
        return AgentsEnv(made, **self.form(), info_mask=self.info_mask)


@frozen(kw_only=True)
class GymnasiumAgentsConfig(AgentsConfig):
    """Any Gymnasium environment whose spaces are tuples, one part per agent."""

    package: ClassVar[str] = ""

    env_id: str = option(REQUIRED, "id of Gymnasium, e.g. module:Id")
    alive: bool = option(
        False, "tell which agents act, `alive` [A]; false: all agents act to the end"
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: there is no such environment, its agents are unlike, or it has no state.
            MissingDependencyError: a package that the environment needs is not installed.
        """
        from dicore_agents.envs.agents_env import AgentsEnv
        from dicore_agents.envs.by_id import make_gymnasium
        from dicore_agents.envs.tuples import TuplesAsParallel

        made = self.adapt(make_gymnasium(self.env_id, self.package, **self.make_kwargs))
        return AgentsEnv(TuplesAsParallel(made), **self.form())

    def adapt(self, env: Any) -> Any:
        """Returns what is stepped in place of the environment."""
        return env


@frozen(kw_only=True)
class LBForagingConfig(GymnasiumAgentsConfig):
    """Level-based foraging: agents pick up food together (Papoudakis et al. 2021).

    Rewards of all agents add up to at most 1. An episode that is not solved ends at its time limit
    as terminated, as the package says.
    """

    package: ClassVar[str] = "lbforaging"

    env_id: str = option("Foraging-8x8-2p-2f-coop-v3", "id of lbforaging")

    def adapt(self, env: Any) -> Any:
        """Makes episodes depend on their seed alone."""
        from dicore_agents.envs.foraging import FreshField

        return FreshField(env)


@frozen(kw_only=True)
class RWAREConfig(GymnasiumAgentsConfig):
    """The multi-robot warehouse: agents bring shelves (Papoudakis et al. 2021)."""

    package: ClassVar[str] = "rware"

    env_id: str = option("rware-tiny-2ag-v2", "id of rware")


@frozen(kw_only=True)
class OpenSpielConfig(AgentsConfig):
    """Any game of OpenSpiel by name, in turns or simultaneous."""

    env_id: str = option(REQUIRED, "name of the game, e.g. leduc_poker")
    make_kwargs: dict[str, Any] = option({}, "parameters of the game")
    alive: bool = option(False, "tell which agents act, `alive` [A]; all act to the end")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: there is no such game or parameter, or players see no tensors.
            MissingDependencyError: OpenSpiel is not installed.
        """
        from dicore_agents.envs.agents_env import AgentsEnv
        from dicore_agents.envs.by_id import make_game

        return AgentsEnv(make_game(self.env_id, **self.make_kwargs), **self.form())


@frozen(kw_only=True)
class VmasConfig(AgentsConfig):
    """Any scenario of VMAS, which steps its environments as one batch (Bettini et al. 2022)."""

    env_id: str = option("balance", "name of the scenario, e.g. navigation")
    manager: ManagerConfig = component(
        "env_manager", default="vector",
        help="steps all environments; vector: as one batch, which others do not",
    )  # fmt: skip
    make_kwargs: dict[str, Any] = option({}, "options of the scenario, e.g. {n_agents: 4}")
    max_steps: int | None = option(
        100, "steps after which an episode is truncated; None: the scenario ends it", ge=1
    )
    continuous_actions: bool = option(True, "actions are numbers; false: one of some choices")
    alive: bool = option(False, "all agents act to the end")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that VMAS does not have."""
        if self.state:
            yield "state", "VMAS gives no global state; drop it: critics see all observations"
        if self.alive:
            yield "alive", "all agents of VMAS act to the end; drop it"

    def vector_env(self, ctx: object) -> Callable[[int], Any]:
        """Returns what makes the batch of N environments."""
        from dicore_agents.envs.vmas_batch import VmasBatch

        make, form = self._maker()
        return lambda env_num: VmasBatch(make, env_num, **form)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: there is no such scenario or option, or its agents are unlike.
            MissingDependencyError: VMAS is not installed.
        """
        from dicore_agents.envs.vmas_batch import VmasEnv

        make, form = self._maker()
        render_mode = self.make_kwargs.get("render_mode")
        return VmasEnv(make, render_mode=render_mode, **form)

    def _maker(self) -> tuple[Callable[[int, int], Any], dict[str, bool]]:
        from dicore_agents.envs.by_id import scenario

        kwargs = {key: each for key, each in self.make_kwargs.items() if key != "render_mode"}
        continuous, steps = self.continuous_actions, self.max_steps
        make = scenario(self.env_id, continuous_actions=continuous, max_steps=steps, **kwargs)
        return make, {"pad": self.pad, "team_reward": self.team_reward}
