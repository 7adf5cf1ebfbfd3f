"""Options of the network of behavioural cloning from observation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config.schema import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models.actor_critic.vac_config import VACConfig

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel


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

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from functools import partial

        from dicore_plugins.models.imitation.bco import BCONet

        return self.make(partial(BCONet, inverse_hidden_size_list=self.inverse_hidden_size_list))
