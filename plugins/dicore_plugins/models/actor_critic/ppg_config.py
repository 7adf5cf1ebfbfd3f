"""Options of the network of phasic policy gradient."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.actor_critic.vac_config import VACConfig


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

    build = builds_network("dicore_plugins.models.actor_critic.ppg:PPGNet")
