"""Options of the actor and Q networks for continuous actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.models.shapes import Part, obs_shape_problem


@frozen(kw_only=True)
class QACConfig(ComponentConfig):
    """Actor and Q networks for continuous actions, for vector observations (SAC, TD3, DDPG)."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    stochastic: bool = option(
        True, "Gaussian actor (mean and log standard deviation); False: a deterministic actor"
    )
    num_critics: int = option(2, "number of Q networks, of which targets take the minimum", ge=1)
    actor_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each hidden layer of the actor", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each hidden layer of each Q network", ge=1
    )
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "relu", "activation function of the hidden layers; gelu disables collect.act_by_numpy"
    )
    obs_parts: tuple[Part, ...] | None = option(
        None,
        "leaves of Discrete, MultiDiscrete, Dict and Tuple observations: (keys, width, category"
        " counts, category starts); None: read from the env",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        if self.obs_shape is None:
            return
        if problem := obs_shape_problem(self.obs_shape):
            yield "obs_shape", problem
        elif isinstance(self.obs_shape, tuple) and len(self.obs_shape) == 3:
            yield "obs_shape", f"must be that of a vector, got the image {self.obs_shape!r}"

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.qac.model import QAC

        return QAC(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            stochastic=self.stochastic,
            num_critics=self.num_critics,
            actor_hidden_size_list=self.actor_hidden_size_list,
            critic_hidden_size_list=self.critic_hidden_size_list,
            activation=self.activation,
            obs_parts=self.obs_parts,
        )
