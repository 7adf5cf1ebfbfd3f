"""Options of the network of behavioural cloning from observation."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.actor_critic.vac_config import VACConfig


@frozen(kw_only=True)
class BCOModelConfig(VACConfig):
    """Policy network, and an inverse model of the action between two observations."""

    inverse_hidden_size_list: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer of the inverse model", ge=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes and options that the network does not support."""
        yield from VACConfig.check(self)
        if self.rnn is not None:
            yield "rnn", "this network has no memory; leave it unset"

    build = builds_network("dicore_plugins.models.imitation.bco:BCONet")
