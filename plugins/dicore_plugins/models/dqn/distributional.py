"""Q networks that estimate the distribution of returns: C51, QR-DQN and IQN.

Shapes: B observations, K ready environments, F features, A actions, N atoms or quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.values import Tree
from dicore_plugins.functional.distributional import fqf_value
from dicore_plugins.models.dqn.config import (
    C51ModelConfig,
    FQFModelConfig,
    IQNModelConfig,
    QRDQNModelConfig,
)
from dicore_plugins.models.dqn.model import DQN, QHead
from dicore_plugins.models.encoders.mlp import MLP, Array, applies

__all__ = ["C51", "IQN", "QRDQN", "AtomHead", "ImplicitHead"]


class AtomHead(QHead):
    """A head with N outputs per action; the value of an action is their mean.

    Args:
        features: F.
        actions: A.
        hidden: Units of each hidden layer (dueling: of both streams).
        atoms: N.
        **form: The other arguments of `QHead`; the dueling form is that of each output.
    """

    def __init__(
        self, features: int, actions: int, hidden: Sequence[int] = (), *, atoms: int, **form: Any
    ) -> None:
        super().__init__(features, actions, hidden, atoms=atoms, **form)
        self.atoms = atoms

    def outputs(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to outputs [B, A, N]."""
        advantage, value = self._streams
        a: Tensor = advantage.forward(x).unflatten(1, (-1, self.atoms))
        if value is None:
            return a
        return value.forward(x).unsqueeze(1) + a - a.mean(1, keepdim=True)

    def expected(self, outputs: Tree) -> Tree:
        """Returns the values [B, A] of outputs [B, A, N], tensors or arrays."""
        return outputs.mean(2)

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to values [B, A]."""
        values: Tensor = self.expected(self.outputs(x))
        return values

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass; see `MLP.by_numpy`."""
        advantage, value = self._streams
        own = all(isinstance(stream, MLP) for stream in self.streams())
        if not own or not applies(type(self), "by_numpy", "forward", "outputs"):
            return None
        a_of = advantage.by_numpy()
        v_of = value.by_numpy() if value is not None else None
        if a_of is None or (value is not None and v_of is None):
            return None

        def forward(x: Array) -> Array:
            a = a_of(x).reshape(len(x), -1, self.atoms)
            if v_of is not None:
                mean = a.mean(1, keepdims=True)
                a += v_of(x)[:, None]
                a -= mean  # in the order of `outputs`, for the same rounding
            values: Array = self.expected(a)
            return values

        return forward


class CategoricalHead(AtomHead):
    """A head whose outputs are logits of atoms at `support`; a value is the expectation."""

    support: Tensor

    def __init__(self, *args: Any, support: tuple[float, float], **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_buffer("support", torch.linspace(*support, self.atoms))
        self._atoms = np.linspace(*support, self.atoms, dtype=np.float32)

    def expected(self, outputs: Tree) -> Tree:
        """Returns the values [B, A] of logits [B, A, N], tensors or arrays."""
        if isinstance(outputs, Tensor):
            return torch.softmax(outputs, 2) @ self.support
        outputs -= outputs.max(2, keepdims=True)
        np.exp(outputs, out=outputs)
        return (outputs @ self._atoms) / outputs.sum(2)


class QRDQN(DQN):
    """Q network of QR-DQN (Dabney et al. 2018, arXiv:1710.10044): N quantiles per action.

    Args:
        num_quantiles: N.
        **options: Arguments of `DQN`.

    Attributes:
        fraction: float32 [N]; the fraction that each quantile estimates: (i + 1/2) / N.
    """

    config_class: Any = QRDQNModelConfig
    fraction: Tensor

    def __init__(self, num_quantiles: int = 32, **options: Any) -> None:
        super().__init__(head=partial(AtomHead, atoms=num_quantiles), **options)
        fraction = (torch.arange(num_quantiles) + 0.5) / num_quantiles
        self.register_buffer("fraction", fraction, persistent=False)

    def distribution(self, obs: Tree) -> list[Tensor]:
        """Computes quantiles [B, A, N], in a list with one tensor per head."""
        return _distribution(self, obs)


class C51(DQN):
    """Q network of C51 (Bellemare et al. 2017, arXiv:1707.06887): N logits per action.

    Args:
        n_atom: N.
        v_min: Value of the lowest atom.
        v_max: Value of the highest atom.
        **options: Arguments of `DQN`.

    Attributes:
        support: float32 [N]; the values of the atoms.
    """

    config_class: Any = C51ModelConfig
    support: Tensor

    def __init__(
        self, n_atom: int = 51, v_min: float = -10.0, v_max: float = 10.0, **options: Any
    ) -> None:
        head = partial(CategoricalHead, atoms=n_atom, support=(v_min, v_max))
        super().__init__(head=head, **options)
        self.register_buffer("support", torch.linspace(v_min, v_max, n_atom), persistent=False)

    def distribution(self, obs: Tree) -> list[Tensor]:
        """Computes logits [B, A, N], in a list with one tensor per head."""
        return _distribution(self, obs)


class ImplicitHead(QHead):
    """A head of IQN: the quantile of each action at any fraction.

    The features are multiplied by an embedding of the fraction, ReLU(W cos(pi i fraction) + b) for
    i = 0 … n - 1 (Dabney et al. 2018, arXiv:1806.06923, equation 4).

    Args:
        features: F.
        actions: A.
        hidden: Units of each hidden layer (dueling: of both streams).
        quantiles: N of `forward`, at the fractions (i + 1/2) / N.
        cosines: n.
        **form: The other arguments of `QHead`.
    """

    fraction: Tensor
    _steps: Tensor

    def __init__(
        self,
        features: int,
        actions: int,
        hidden: Sequence[int] = (),
        *,
        quantiles: int,
        cosines: int,
        **form: Any,
    ) -> None:
        super().__init__(features, actions, hidden, **form)
        self.embed = MLP((cosines, features), activate_output=True)
        fraction = (torch.arange(quantiles) + 0.5) / quantiles
        self.register_buffer("fraction", fraction, persistent=False)
        self.register_buffer("_steps", torch.arange(cosines) * torch.pi, persistent=False)

    def outputs(self, x: Tensor, fraction: Tensor) -> Tensor:
        """Computes quantiles.

        Args:
            x: Features [B, F].
            fraction: float32 [B, N], or [N] for all rows.

        Returns:
            [B, A, N].
        """
        embedding = self.embed.forward(torch.cos(fraction.unsqueeze(-1) * self._steps))
        values = super().forward((x.unsqueeze(1) * embedding).flatten(0, 1))
        outputs: Tensor = values.unflatten(0, (x.shape[0], -1)).transpose(1, 2)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to values [B, A], the means of the quantiles."""
        return self.outputs(x, self.fraction).mean(2)

    def by_numpy(self) -> None:
        """Returns None: there is no NumPy forward pass."""


class IQN(DQN):
    """Q network of IQN (Dabney et al. 2018, arXiv:1806.06923): quantiles at any fraction.

    Args:
        num_quantiles: Quantiles whose mean is the value of an action.
        num_cosines: Size of the embedding of a fraction.
        **options: Arguments of `DQN`.
    """

    config_class: Any = IQNModelConfig
    head_class: type[ImplicitHead] = ImplicitHead

    def __init__(self, num_quantiles: int = 32, num_cosines: int = 64, **options: Any) -> None:
        head = partial(self.head_class, quantiles=num_quantiles, cosines=num_cosines)
        super().__init__(head=head, **options)

    def distribution(self, obs: Tree, fraction: Tensor | None = None) -> list[Tensor]:
        """Computes quantiles [B, A, N], in a list with one tensor per head.

        Args:
            obs: As for `forward`.
            fraction: float32 [B, N] or [N], from 0 to 1; None: those of `forward`.
        """
        features = self.features(obs)
        return [
            head.outputs(features, head.fraction if fraction is None else fraction)  # type: ignore[operator]
            for head in self.heads
        ]


class FractionHead(ImplicitHead):
    """A head of FQF: the quantiles between fractions that a linear layer proposes for each state.

    Args:
        features: F.
        actions: A.
        quantiles: N.
        **form: The other arguments of `ImplicitHead`.
    """

    def __init__(self, features: int, actions: int, *args: Any, quantiles: int, **form: Any):
        super().__init__(features, actions, *args, quantiles=quantiles, **form)
        self.propose = MLP((features, quantiles))
        with torch.no_grad():
            for parameter in self.propose.parameters():
                parameter.mul_(0.01)  # equal fractions at first

    def boundary(self, x: Tensor) -> Tensor:
        """Computes the fractions of features [B, F]: from 0 to 1, [B, N + 1].

        Their graph reaches the proposal alone.
        """
        inner = torch.softmax(self.propose.forward(x.detach()), 1).cumsum(1)[:, :-1]
        return torch.nn.functional.pad(torch.nn.functional.pad(inner, (1, 0)), (0, 1), value=1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [B, F] to values [B, A]."""
        boundary = self.boundary(x)
        return fqf_value(boundary, self.outputs(x, middle(boundary.detach())))


class FQF(IQN):
    """Q network of FQF (Yang et al. 2019, arXiv:1911.02140): quantiles at learned fractions.

    Args:
        num_quantiles: Number of fractions.
        num_cosines: Size of the embedding of a fraction.
        **options: Arguments of `DQN`.
    """

    config_class: Any = FQFModelConfig
    head_class = FractionHead

    def proposal(self) -> list[nn.Parameter]:
        """Returns the parameters of the layers that propose fractions."""
        return [each for head in self.heads for each in head.propose.parameters()]  # type: ignore[union-attr]


def middle(boundary: Tensor) -> Tensor:
    """Returns the fractions between neighbours: [B, N + 1] to [B, N]."""
    return (boundary[:, :-1] + boundary[:, 1:]) / 2


def _distribution(model: DQN, obs: Tree) -> list[Tensor]:
    features = model.features(obs)
    return [head.outputs(features) for head in model.heads]  # type: ignore[operator]
