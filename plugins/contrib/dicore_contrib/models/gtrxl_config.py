"""Options of networks with a gated transformer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dicore.config import frozen, option
from dicore_plugins.models import DRQNModelConfig, VACConfig, builds_network

__all__ = ["GTrXLDQNModelConfig", "GTrXLVACConfig"]


def _layers() -> Any:
    return option(1, "layers of the transformer", ge=1)


def _heads() -> Any:
    return option(2, "heads of the attention of each layer", ge=1)


def _memory_len() -> Any:
    return option(
        16, "steps before the present one that a layer attends to", ge=1, unit="env steps"
    )


def _gate_bias() -> Any:
    return option(2.0, "bias of the gates towards their input; larger: nearer to no layer at first")


def _problems(cfg: Any) -> Iterator[tuple[str, str]]:
    if cfg.rnn_hidden_size % (2 * cfg.heads):
        yield "rnn_hidden_size", f"must be a multiple of {2 * cfg.heads}, twice the heads"


@frozen(kw_only=True)
class GTrXLDQNModelConfig(DRQNModelConfig):
    """Q network with a gated transformer as its memory, for R2D2 (Parisotto et al. 2019)."""

    rnn: Literal["gtrxl"] = option(  # type: ignore[assignment] # in place of the others
        "gtrxl", "what remembers, between encoder and heads"
    )
    layers: int = _layers()
    heads: int = _heads()
    memory_len: int = _memory_len()
    gate_bias: float = _gate_bias()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from _problems(self)

    build = builds_network("dicore_contrib.models.gtrxl:GTrXLDQN")


@frozen(kw_only=True)
class GTrXLVACConfig(VACConfig):
    """Actor-critic network with a gated transformer as its memory (Parisotto et al. 2019)."""

    rnn: Literal["gtrxl"] = option(  # type: ignore[assignment] # in place of the others
        "gtrxl", "what remembers, after the encoder, which is shared"
    )
    layers: int = _layers()
    heads: int = _heads()
    memory_len: int = _memory_len()
    gate_bias: float = _gate_bias()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        yield from _problems(self)

    build = builds_network("dicore_contrib.models.gtrxl:GTrXLVAC")
