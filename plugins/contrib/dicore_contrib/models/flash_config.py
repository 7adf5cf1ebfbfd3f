"""Options of the networks of FlashSAC."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import frozen, option
from dicore_plugins.models import ActorQModelConfig, builds_network

__all__ = ["FlashSACModelConfig"]


@frozen(kw_only=True)
class FlashSACModelConfig(ActorQModelConfig):
    """Residual actor and networks of distributions with weights of unit norm (Kim et al. 2026)."""

    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    actor_hidden_size_list: tuple[int, ...] = option(
        (128, 128), "units of each residual block of the actor, all equal", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (256, 256), "units of each residual block of each Q network, all equal", ge=1
    )
    num_critics: int = option(2, "number of networks of distributions", ge=1)
    n_atom: int = option(101, "number of atoms of the distribution of returns", ge=2)
    v_min: float = option(-5.0, "lowest return of the distribution; lower ones count as it")
    v_max: float = option(5.0, "highest return of the distribution; higher ones count as it")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        for name in ("actor_hidden_size_list", "critic_hidden_size_list"):
            if len({*self[name]}) != 1:
                yield name, f"expected one block or more of equal size, got {list(self[name])}"
        if self.v_min >= self.v_max:
            yield "v_min", f"must be < v_max = {self.v_max}, got {self.v_min}"

    build = builds_network("dicore_contrib.models.flash:FlashSACNet")
