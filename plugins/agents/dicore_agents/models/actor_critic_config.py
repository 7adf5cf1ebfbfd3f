"""Options of the networks of teams that learn actors and critics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dicore.config.schema import frozen, option
from dicore_agents.models.config import MemoryConfig
from dicore_plugins.policies import unused_options

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel
    from dicore.run.env_factory import BuildContext

__all__ = ["AgentsActorConfig", "AgentsVACConfig", "COMAModelConfig"]


@frozen(kw_only=True)
class AgentsActorConfig(MemoryConfig):
    """An actor for each agent, or one that several share."""

    action_shape: int | None = option(
        None, "number of actions, or of continuous action values, of one agent; None: read from"
        " the env", ge=1,
    )  # fmt: skip
    state_shape: int | None = option(
        None, "numbers that the critic sees of the team; None: read from the env", ge=1
    )
    hidden_size_list: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer of the actor", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] | None = option(
        None, "units of each hidden layer of the critic; None: those of the actor", ge=1
    )
    activation: Literal["relu", "tanh", "elu"] = option(
        "tanh", "activation function of the hidden layers"
    )

    def _arguments(self) -> dict[str, Any]:
        """Returns the options as keyword arguments of a network."""
        sizes = {"critic_hidden_size_list": self.critic_hidden_size_list}
        return {**super()._arguments(), "state_shape": self.state_shape, **sizes}


@frozen(kw_only=True)
class AgentsVACConfig(AgentsActorConfig):
    """Actors of agents, discrete or Gaussian, and the value of each agent."""

    continuous: bool | None = option(
        None, "Gaussian actions instead of discrete ones; None: read from the env"
    )
    critic_input: Literal["own", "observations", "state", "team"] = option(
        "team", "what the value depends on: the agent's own observation, the observations of all,"
        " the state of the team; team: the state if the env gives one, else the observations"
    )  # fmt: skip
    log_std_init: float = option(
        0.0, "initial log standard deviation of continuous actions; lower it for finer actions"
    )
    value_norm: bool = option(
        False, "learn the value of normalised returns; set it if returns are large"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other, or have no effect."""
        yield from super().check()
        if self.continuous is False:
            yield from unused_options(self, "continuous actions", "log_std_init")

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_agents.models.actor_critic import AgentsVAC

        return AgentsVAC(
            **self._arguments(),
            continuous=bool(self.continuous),
            critic_input=self.critic_input,
            log_std_init=self.log_std_init,
            value_norm=self.value_norm,
        )


@frozen(kw_only=True)
class COMAModelConfig(AgentsActorConfig):
    """Actors of agents, and the values of their actions, given those of the others."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_agents.models.actor_critic import COMANet

        return COMANet(**self._arguments())
