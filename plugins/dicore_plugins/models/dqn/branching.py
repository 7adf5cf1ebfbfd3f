"""The Q network of BDQ (Tavakoli et al. 2018, arXiv:1711.08946).

Shapes: B observations, F features, A actions of a head, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dicore.values import Tree
from dicore_plugins.models.dqn.config import BDQModelConfig
from dicore_plugins.models.dqn.model import DQN, QHead
from dicore_plugins.models.encoders.mlp import MLP, Array

__all__ = ["BDQ"]


class BDQ(DQN):
    """Q network with one advantage stream per head and one state value for all of them.

    Q_h(s, a) = V(s) + A_h(s, a) - mean_a' A_h(s, a'). The gradient that reaches the encoder is
    divided by H + 1, the number of streams (section "Gradient rescaling").

    Args:
        **options: Arguments of `DQN`.
    """

    config_class: Any = BDQModelConfig

    def __init__(self, **options: Any) -> None:
        streams: list[MLP] = []

        def head(features: int, actions: int, hidden: Sequence[int] = (), **form: Any) -> QHead:
            made = QHead(features, actions, hidden, **form)
            if not streams:
                value = QHead(features, 1, hidden, **{**form, "dueling": False})
                streams.append(value.advantage)
            return made

        super().__init__(head=head, **options)
        self.value = streams[0]

    @property
    def _value(self) -> Any:
        return self._modules["value"]

    act_numpy = DQN.act_numpy

    def _values(self, x: Tensor, encoder: MLP, heads: tuple[QHead, ...]) -> Tree:
        x = encoder.forward(x)
        share = 1 / (len(heads) + 1)
        x = x * share + x.detach() * (1 - share)
        value = self._value.forward(x)
        advantages = [head.forward(x) for head in heads]
        q = [value + each - each.mean(1, keepdim=True) for each in advantages]
        return q if self.multi_head else q[0]

    def reset_noise(self, *, on: bool = True) -> None:
        """Draws new noise for noisy layers, or removes it; see `NoisyMLP.reset_noise`."""
        super().reset_noise(on=on)
        self._value.reset_noise(on=on)

    def _views(self) -> Callable[[Array], Any] | None:
        _, encoder, heads = self._parts
        encode, value_of = encoder.by_numpy(), self._value.by_numpy()
        advantages = [a_of for head in heads if (a_of := head.by_numpy()) is not None]
        if encode is None or value_of is None or len(advantages) < len(heads):
            return None

        def forward(x: Array) -> Tree:
            x = encode(x)
            value = value_of(x)
            q = []
            for a_of in advantages:
                a = a_of(x)
                mean = a.mean(1, keepdims=True)
                a += value
                a -= mean
                q.append(a)
            return q if self.multi_head else q[0]

        return forward
