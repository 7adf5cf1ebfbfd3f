"""Options of the networks of QGPO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dicore.config import frozen, option
from dicore_plugins.models import ActorQModelConfig, builds_network

__all__ = ["QGPOModelConfig"]


@frozen(kw_only=True)
class QGPOModelConfig(ActorQModelConfig):
    """Networks of the noise in actions, of energies, and Q networks (Lu et al. 2023)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    actor_hidden_size_list: tuple[int, ...] = option(
        (256, 256, 256), "units of each hidden layer of the model of the recorded actions", ge=1
    )
    energy_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each hidden layer of the energy network", ge=1
    )
    num_critics: int = option(2, "number of Q networks, of which the minimum counts", ge=1)
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "gelu", "activation function of the hidden layers; with relu, the slope of energies jumps"
    )
    time_features: int = option(
        16, "numbers that describe the time of the diffusion; an even number", ge=4
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the networks do not support."""
        yield from super().check()
        if self.time_features % 2:
            yield "time_features", f"must be even, got {self.time_features}"

    build = builds_network("dicore_contrib.models.qgpo:QGPONet")
