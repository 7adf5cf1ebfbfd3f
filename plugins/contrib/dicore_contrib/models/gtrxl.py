"""Networks whose memory is a gated transformer, for `r2d2`, `ppo` and their relatives.

Shapes: see `GatedTransformer`.
"""

from __future__ import annotations

from typing import Any

from dicore_contrib.models.gated_transformer import GatedTransformer
from dicore_contrib.models.gtrxl_config import GTrXLDQNModelConfig, GTrXLVACConfig
from dicore_plugins.models import DRQN, VAC, Recurrent

__all__ = ["GTrXLDQN", "GTrXLVAC"]


def _instead_of(layer: Recurrent, **options: Any) -> Any:
    """Returns a gated transformer that takes and gives what a recurrent layer does."""
    return GatedTransformer(layer.rnn.input_size, layer.hidden_size, **options)


class GTrXLDQN(DRQN):
    """Q network with a gated transformer between the encoder and the heads.

    Args:
        rnn: No effect; the name of what remembers.
        layers: L.
        heads: H.
        memory_len: M.
        gate_bias: See `GatedTransformer`.
        **options: Arguments of `DRQN`; `rnn_hidden_size` is D.

    Attributes:
        state_size: S.
    """

    config_class: Any = GTrXLDQNModelConfig

    def __init__(
        self,
        rnn: str = "gtrxl",
        *,
        layers: int = 1,
        heads: int = 2,
        memory_len: int = 16,
        gate_bias: float = 2.0,
        **options: Any,
    ) -> None:
        super().__init__("gru", **options)
        self.rnn = _instead_of(
            self.rnn, layers=layers, heads=heads, memory_len=memory_len, gate_bias=gate_bias
        )
        self.state_size = self.rnn.state_size


class GTrXLVAC(VAC):
    """Actor and critic with a gated transformer after their common encoder.

    Args:
        obs_shape: As for `VAC`.
        action_shape: As for `VAC`.
        rnn: No effect; the name of what remembers.
        layers: L.
        heads: H.
        memory_len: M.
        gate_bias: See `GatedTransformer`.
        **options: Arguments of `VAC`; `rnn_hidden_size` is D.
    """

    config_class: Any = GTrXLVACConfig

    def __init__(
        self,
        obs_shape: Any,
        action_shape: Any,
        *,
        rnn: str = "gtrxl",
        layers: int = 1,
        heads: int = 2,
        memory_len: int = 16,
        gate_bias: float = 2.0,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, action_shape, rnn="gru", **options)
        assert self.rnn is not None
        self.rnn = _instead_of(
            self.rnn, layers=layers, heads=heads, memory_len=memory_len, gate_bias=gate_bias
        )
