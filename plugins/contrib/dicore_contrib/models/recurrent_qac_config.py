"""Options of recurrent actor and Q networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dicore.config import frozen, option
from dicore_plugins.models import ActorQModelConfig, builds_network

__all__ = ["RecurrentQACConfig"]


@frozen(kw_only=True)
class RecurrentQACConfig(ActorQModelConfig):
    """Actor and Q networks with a recurrent layer each, for vectors (Ni et al. 2022)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    stochastic: bool = option(
        True, "Gaussian actor (mean and log standard deviation); False: a deterministic actor"
    )
    num_critics: int = option(2, "number of Q networks, of which targets take the minimum", ge=1)
    rnn: Literal["lstm", "gru"] = option("gru", "kind of the two recurrent layers")
    rnn_hidden_size: int = option(128, "units of each of the two recurrent layers", ge=1)
    embedding_size: int = option(64, "units of the layer before each recurrent one", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if self.obs_norm:
            yield "obs_norm", "is not available with recurrent layers; leave it out"

    build = builds_network("dicore_contrib.models.recurrent_qac:RecurrentQAC")
