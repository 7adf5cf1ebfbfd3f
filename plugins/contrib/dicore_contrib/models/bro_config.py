"""Options of the network of BRO."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import frozen, option
from dicore_plugins.models import ActorQModelConfig, builds_network

__all__ = ["BROModelConfig"]


@frozen(kw_only=True)
class BROModelConfig(ActorQModelConfig):
    """Residual actors and Q networks with normalised layers: BroNet (Nauman et al. 2024)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    actor_hidden_size_list: tuple[int, ...] = option(
        (256,), "units of each residual block of the actors, all equal", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (512, 512), "units of each residual block of each Q network, all equal", ge=1
    )
    num_quantiles: int = option(100, "number of quantiles of each of the two Q networks", ge=1)
    std_multiplier: float = option(
        0.75, "standard deviation of actions that explore, as a fraction of that of the actor", gt=0
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        for name in ("actor_hidden_size_list", "critic_hidden_size_list"):
            if len({*self[name]}) != 1:
                yield name, f"expected one block or more of equal size, got {list(self[name])}"

    build = builds_network("dicore_contrib.models.bro:BRONet")
