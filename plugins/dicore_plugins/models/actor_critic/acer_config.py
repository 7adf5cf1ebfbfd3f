"""Options of the network of ACER."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config.schema import frozen
from dicore.run.env_factory import BuildContext
from dicore_plugins.models.actor_critic.vac_config import VACConfig

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel


@frozen(kw_only=True)
class ACERModelConfig(VACConfig):
    """Actor-critic network with a Q value per action, for discrete actions."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes and options that the network does not support."""
        yield from VACConfig.check(self)
        if self.continuous or isinstance(self.action_shape, tuple):
            yield "action_shape", "the critic has one Q value per action; set one number"
        if self.value_norm:
            yield "value_norm", "Q values are in units of the reward; set it to False"
        if self.rnn is not None:
            yield "rnn", "this network has no memory; choose vac, or leave it unset"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.actor_critic.acer import ACERNet

        return self.make(ACERNet)
