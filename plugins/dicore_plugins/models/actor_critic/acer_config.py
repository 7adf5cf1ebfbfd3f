"""Options of the network of ACER."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import frozen
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.actor_critic.vac_config import VACConfig


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

    build = builds_network("dicore_plugins.models.actor_critic.acer:ACERNet")
