"""Options of the network of phasic policy gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config.schema import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models.actor_critic.vac_config import VACConfig

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel


@frozen(kw_only=True)
class PPGModelConfig(VACConfig):
    """Policy network with an auxiliary value, and a separate value network."""

    share_encoder: bool | None = option(
        None, "no effect: policy and auxiliary value share the encoder; leave it unset"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes and options that the network does not support."""
        yield from VACConfig.check(self)
        if self.share_encoder is False:
            yield "share_encoder", "policy and auxiliary value share the encoder; leave it unset"
        if self.rnn is not None:
            yield "rnn", "this network has no memory; choose vac, or leave it unset"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.actor_critic.ppg import PPGNet

        return self.make(PPGNet)
