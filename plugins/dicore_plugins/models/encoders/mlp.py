"""Multi-layer perceptron with a torch and a NumPy forward pass over the same parameters.

Shapes: B rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.values import Tree

ActivationName = Literal["relu", "tanh", "elu", "gelu"]
InitialBias = Literal["zero", "uniform"]
InitialWeights = Literal["orthogonal", "uniform"]
LayerNorm = bool | Literal["last"]
Array = npt.NDArray[np.float32]


class Activation(NamedTuple):
    """An activation function.

    Args:
        by_torch: The function on tensors.
        by_numpy: The function on arrays, in place; None if NumPy has no equivalent.
        gain: Scale of the initial weights of the layer before it; keeps the variance of signals.
    """

    by_torch: Callable[[Tensor], Tensor]
    by_numpy: Callable[[Array], Any] | None
    gain: float


_ZERO = np.float32(0)
_ZEROS = np.zeros(2**15, np.float32)


def _relu(x: Array) -> None:
    if 1024 < x.size <= len(_ZEROS):  # NumPy compares with an array in a third of the time
        np.maximum(x, _ZEROS[: x.size].reshape(x.shape), out=x)
    else:
        np.maximum(x, _ZERO, out=x)


def _tanh(x: Array) -> None:
    np.tanh(x, out=x)


def _elu(x: Array) -> None:
    np.copyto(x, np.expm1(np.minimum(x, _ZERO)), where=x < _ZERO)


def _normalise(x: Array) -> None:
    """Normalises each row in place, as `F.layer_norm` does."""
    x -= x.mean(1, keepdims=True)
    x /= np.sqrt(np.einsum("ij,ij->i", x, x) / x.shape[1] + np.float32(1e-5))[:, None]


class _Tanh(torch.autograd.Function):
    """tanh by NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.from_numpy(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        slope: Tensor = torch.ops.aten.tanh_backward(gradients[0], y)
        return slope


def is_recorded() -> bool:
    """Returns whether the operations are recorded, for an export."""
    tracing: Any = torch.jit.is_tracing  # type: ignore[attr-defined] # public, not in `__all__`
    return torch.compiler.is_compiling() or bool(tracing())


def tanh(x: Tensor) -> Tensor:
    """Computes tanh; on the CPU by NumPy, which takes a tenth of the time of torch 2.13."""
    other = x.dtype is not torch.float32 or x.device.type != "cpu"
    if other or is_recorded():
        return torch.tanh(x)
    y: Tensor = _Tanh.apply(x)  # type: ignore[no-untyped-call] # torch leaves it untyped
    return y


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(F.relu, _relu, math.sqrt(2)),
    "tanh": Activation(tanh, _tanh, 5 / 3),
    "elu": Activation(F.elu, _elu, math.sqrt(2)),
    "gelu": Activation(F.gelu, None, math.sqrt(2)),
}

SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, y: torch.ops.aten.threshold_backward(grad, y, 0),
    "tanh": torch.ops.aten.tanh_backward,
}
"""Gradients below activation functions, from those above and the outputs."""
Pull = Callable[..., Tensor | None]

_APPLIES: dict[tuple[type, str, tuple[str, ...]], bool] = {}


def applies(kind: type, shortcut: str, *methods: str) -> bool:
    """Returns whether a method that does in less time what others do is true of a class.

    It is not if a subclass overrides one of the others and not the shortcut, which is then that of
    another class.

    Args:
        kind: A class that has the shortcut.
        shortcut: Name of the method.
        *methods: Names of the methods whose work it does.
    """
    found = _APPLIES.get((kind, shortcut, methods))
    if found is None:
        names = {shortcut, *methods}
        first = next((each for each in kind.__mro__ if names & vars(each).keys()), None)
        found = _APPLIES[kind, shortcut, methods] = first is None or shortcut in vars(first)
    return found


@torch.no_grad()
def initialise(layer: nn.Linear | nn.Conv2d, gain: float) -> None:
    """Initialises orthogonal weights scaled by `gain`, and zero bias (Saxe et al. 2014).

    DQN solves CartPole in 3 072 steps with it, and in 3 584 with the defaults of torch (medians of
    40 seeds each).
    """
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def on_cpu(module: nn.Module) -> bool:
    """Returns whether all parameters are float32 on the CPU."""
    return all(
        each.dtype is torch.float32 and each.device.type == "cpu" for each in module.parameters()
    )


def has_gradient(parameter: nn.Parameter) -> bool:
    """Returns whether a formula can write the gradient of a parameter: float32 on the CPU."""
    return (
        parameter.device.type == "cpu"
        and parameter.dtype is torch.float32
        and parameter.grad is not None
        and parameter.requires_grad
        and not parameter._backward_hooks  # noqa: SLF001
    )


def _is_linear(layer: nn.Module) -> bool:
    """Returns whether a layer is one of torch, with parameters that were not reparametrised."""
    return layer.__class__ is nn.Linear and "weight" in layer._parameters  # noqa: SLF001


class MLP(nn.Module):
    """Linear layers with an activation function between them.

    `forward` calls `F.linear` instead of the layers: at the sizes of reinforcement learning, a
    module call costs as much as the arithmetic. Forward hooks of single layers therefore do not
    run; those of the MLP do. Layers that are replaced or parametrised later are called.

    Args:
        sizes: Sizes of input, hidden layers and output.
        activation: Activation function of the hidden layers.
        activate_output: Apply it to the output, too.
        layer_norm: Normalise each row before the activation function, without learned scale and
            shift (Ba et al. 2016, arXiv:1607.06450). Q values then cannot grow with the size of
            the observations, which keeps bootstrapping from diverging (Gallici et al. 2024,
            arXiv:2407.04811). `last`: only in the last hidden layer, which is enough for that
            (Hussing et al. 2024, arXiv:2403.05996) and keeps more of small observations.
        initial_bias: `zero`, or `uniform` in +-1 / sqrt(inputs) as in torch. With zero biases and
            ReLU, the network is homogeneous at first: values grow with the observations, so that
            bootstrapping may diverge (Tsitsiklis and Van Roy 1997), and with `layer_norm` they
            ignore the scale of the observations.
        initial_weights: `orthogonal`, see `initialise`; or `uniform` in +-1 / sqrt(inputs), weights
            and biases alike, as in torch: the first outputs are small, so that an actor squashed
            by tanh starts in the middle of the action space.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: ActivationName = "relu",
        *,
        activate_output: bool = False,
        layer_norm: LayerNorm = False,
        initial_bias: InitialBias = "zero",
        initial_weights: InitialWeights = "orthogonal",
    ) -> None:
        super().__init__()
        function = ACTIVATIONS[activation]
        self.activation = activation
        self._activate = function.by_torch
        self.layers = nn.ModuleList()
        self.forms: list[tuple[bool, bool]] = []  # of each layer: activated, normalised before
        hidden = len(sizes) - 1 if activate_output else len(sizes) - 2
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            layer = nn.Linear(fan_in, fan_out)
            active = index < hidden
            norm = active and (layer_norm is True or (layer_norm == "last" and index == hidden - 1))
            if initial_weights == "orthogonal":  # else what nn.Linear draws
                initialise(layer, function.gain if active else 1.0)
                if initial_bias == "uniform" and active:
                    nn.init.uniform_(layer.bias, -(fan_in**-0.5), fan_in**-0.5)
            self.layers.append(layer)
            self.forms.append((active, norm))

    def _rows(self) -> list[tuple[dict[str, Any] | None, nn.Module, bool, bool]]:
        """Returns the layers: parameters (None: call it), module, and what follows it.

        That is whether its output is activated, and normalised before.
        """
        # Tables are ten times as fast as `self.layers` and `layer.weight`.
        layers: Any = self._modules["layers"]
        return [
            (layer._parameters if _is_linear(layer) else None, layer, active, norm)  # noqa: SLF001
            for layer, (active, norm) in zip(layers._modules.values(), self.forms, strict=True)  # noqa: SLF001
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Maps float32 [B, input] to [B, output]."""
        for table, layer, active, norm in self._rows():
            x = layer(x) if table is None else F.linear(x, table["weight"], table["bias"])
            if active:
                if norm:
                    x = F.layer_norm(x, x.shape[-1:])
                x = self._activate(x)
        return x

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible."""
        return (
            applies(type(self), "forward_and_pull", "forward")
            and self._plain
            and all(map(has_gradient, self.parameters()))
            and not any(
                norm or (active and self.activation not in SLOPES) for active, norm in self.forms
            )
        )

    @property
    def _plain(self) -> bool:
        """Whether all layers are linear, with bias."""
        return all(table is not None and table["bias"] is not None for table, *_ in self._rows())

    @torch.no_grad()
    def forward_and_pull(self, x: Tensor) -> tuple[Tensor, Pull]:
        """Computes `forward` without a graph, and returns how gradients flow back.

        It takes half the time of autograd at 256 x 64; see `differentiable`.

        Args:
            x: float32 [B, input].

        Returns:
            float32 [B, output], and a function. It takes the gradient of the output, float32
            [B, output], overwrites `grad` of the parameters, and returns the gradient of `x` if its
            second argument is true, else None.
        """
        by_numpy, slope = ACTIVATIONS[self.activation].by_numpy, SLOPES[self.activation]
        assert by_numpy is not None, "those that have a slope are known to NumPy"
        rows: Tree = self._rows()
        kept = [x]
        for table, _, active, _ in rows:
            x = F.linear(x, table["weight"], table["bias"])
            if active:
                by_numpy(x.numpy())
            kept.append(x)

        def pull(grad: Tensor, wanted: bool = False) -> Tensor | None:
            with torch.no_grad():
                for index in range(len(kept) - 2, -1, -1):
                    table, _, active, _ = rows[index]
                    below, weight, bias = kept[index], table["weight"], table["bias"]
                    if active:
                        grad = slope(grad, kept[index + 1])
                    torch.sum(grad, 0, out=bias.grad)
                    if weight.shape[1] < weight.shape[0]:  # a third of the time of the other order
                        weight.grad.copy_(below.t().mm(grad).t())
                    else:
                        torch.mm(grad.t(), below, out=weight.grad)
                    if index or wanted:
                        grad = grad.mm(weight)
            return grad if wanted else None

        return x, pull

    @property
    def widest(self) -> int:
        """Number of weights of the largest layer."""
        return max((each.numel() for each in self.parameters()), default=0)

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass, over views of the current parameters.

        Returns:
            A function of float32 [B, input] that returns new memory; None if the parameters are not
            float32 on the CPU, if NumPy lacks the activation function, or if layers or `forward`
            are others than those here.
        """
        activate = ACTIVATIONS[self.activation].by_numpy
        same = self._plain and applies(type(self), "by_numpy", "forward")
        if activate is None or not same or not on_cpu(self):
            return None
        views = [
            (table["weight"].detach().numpy().T, table["bias"].detach().numpy(), active, norm)
            for table, _, active, norm in self._rows()
            if table is not None
        ]

        def forward(x: Array) -> Array:
            for weight, bias, active, norm in views:
                x = x.dot(weight)
                x += bias
                if active:
                    if norm:
                        _normalise(x)
                    activate(x)
            return x

        return forward
