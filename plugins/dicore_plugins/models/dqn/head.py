"""A head of a Q network: features in, one value per action out.

Shapes: B rows, F features, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from dicore_plugins.models.encoders.activation import ActivationName
from dicore_plugins.models.encoders.mlp import MLP, Array


class QHead(nn.Module):
    """Q values of one discrete action.

    The dueling form (Wang et al. 2016, arXiv:1511.06581, equation 9) is
    Q(s, a) = V(s) + A(s, a) - mean_a' A(s, a').

    Args:
        features: F.
        actions: A.
        hidden: Units of hidden layers, in each stream of a dueling head.
        dueling: Use the dueling form.
        activation: Of the hidden layers.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        hidden: Sequence[int] = (),
        *,
        dueling: bool = False,
        activation: ActivationName = "relu",
    ) -> None:
        super().__init__()
        self.advantage = MLP((features, *hidden, actions), activation)
        self.value = MLP((features, *hidden, 1), activation) if dueling else None
        # Plain attributes are found at once; those of submodules cost 0.4 us each time.
        self._streams: tuple[MLP, MLP | None] = (self.advantage, self.value)

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to values [B, A]."""
        advantage, value = self._streams
        a = advantage.forward(x)
        if value is None:
            return a
        return value.forward(x) + a - a.mean(1, keepdim=True)

    @property
    def widest(self) -> int:
        """Most weights in one layer."""
        return max(stream.widest for stream in self._streams if stream is not None)

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the forward on arrays; see `MLP.by_numpy`."""
        advantage, value = self._streams
        a_of = advantage.by_numpy()
        v_of = value.by_numpy() if value is not None else None
        if a_of is None or value is None or v_of is None:
            return a_of

        def forward(x: Array) -> Array:
            a = a_of(x)
            a -= a.mean(1, keepdims=True)
            a += v_of(x)
            return a

        return forward
