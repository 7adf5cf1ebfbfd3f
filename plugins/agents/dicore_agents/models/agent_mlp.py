"""Multi-layer perceptrons of several agents, which share their parameters or not.

Agents of one network are rows of one product; several networks are one batched product per layer,
so that eight agents cost little more than one.

Shapes: B rows, A agents, G networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore_plugins.models import MLP

__all__ = ["AgentMLP", "Share", "networks_of"]

Share = Literal["all", "group", "none"]
Activation = Literal["relu", "tanh", "elu"]
Array = npt.NDArray[np.float32]


def networks_of(share: Share, groups: Sequence[int]) -> tuple[int, ...]:
    """Returns the number of the network of each agent.

    Args:
        share: `all`: one network; `group`: one per group; `none`: one per agent.
        groups: The group of each agent, from 0 on.
    """
    if share == "group":
        return tuple(groups)
    return tuple(range(len(groups))) if share == "none" else (0,) * len(groups)


class AgentMLP(nn.Module):
    """An MLP per network, each for the agents that share it; initialised as `MLP` is.

    Args:
        sizes: Sizes of input, hidden layers and output.
        networks: Number of the network of each agent, from 0 on: [A].
        activation: Activation function of the hidden layers.
        activate_output: Apply it to the output, too.
        initial_weights: See `MLP`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        networks: Sequence[int],
        activation: Activation = "relu",
        *,
        activate_output: bool = False,
        initial_weights: Literal["orthogonal", "uniform"] = "orthogonal",
    ) -> None:
        super().__init__()
        self.networks, self.activation = tuple(networks), activation
        count = max(self.networks) + 1
        made = [
            MLP(sizes, activation, activate_output=activate_output, initial_weights=initial_weights)
            for _ in range(count)
        ]
        self.shared = made[0] if count == 1 else None
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self._activations = [activation] * (len(sizes) - 2) + [
            activation if activate_output else ""
        ]
        self._own = self.networks == tuple(range(count))
        if self.shared is not None:
            return
        for index, _ in enumerate(pairwise(sizes)):
            layers: list[nn.Linear] = [mlp.layers[index] for mlp in made]  # type: ignore[misc]
            self.weights.append(torch.stack([each.weight.detach().T for each in layers]))
            self.biases.append(torch.stack([each.bias.detach()[None] for each in layers]))

    def forward(self, x: Tensor) -> Tensor:
        """Maps float32 [B, A, input] to [B, A, output]."""
        if self.shared is not None:
            found: Tensor = self.shared.forward(x)
            return found
        x = x.transpose(0, 1)
        rows = slice(None) if self._own else list(self.networks)
        for weight, bias, name in zip(self.weights, self.biases, self._activations, strict=True):
            x = torch.baddbmm(bias[rows], x, weight[rows])
            if name:
                x = _TORCH[name](x)
        return x.transpose(0, 1)

    def of_agent(self, agent: int, x: Tensor) -> Tensor:
        """Maps float32 [B, input] of one agent to [B, output]."""
        if self.shared is not None:
            found: Tensor = self.shared.forward(x)
            return found
        at = self.networks[agent]
        for weight, bias, name in zip(self.weights, self.biases, self._activations, strict=True):
            x = torch.addmm(bias[at], x, weight[at])
            if name:
                x = _TORCH[name](x)
        return x

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible; parameters need their `grad`."""
        if self.shared is not None:
            return self.shared.differentiable()
        return {*self._activations} <= {*_SLOPES, ""} and all(
            each.dtype is torch.float32 and not each.is_cuda and each.grad is not None
            for each in self.parameters()
        )

    @torch.no_grad()
    def forward_and_pull(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], object]]:
        """Computes `forward` without a graph, and returns how gradients flow back.

        Args:
            x: float32 [B, A, input].

        Returns:
            float32 [B, A, output], and a function that takes the gradient of the output and
            overwrites `grad` of the parameters.
        """
        if self.shared is None:
            return self._separate_and_pull(x.transpose(0, 1))
        y, pull = self.shared.forward_and_pull(x.reshape(-1, x.shape[-1]))
        shape = (*x.shape[:-1], -1)
        return y.view(shape), lambda grad: pull(grad.reshape(-1, grad.shape[-1]))

    def _separate_and_pull(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], object]]:
        index = None if self._own else torch.tensor(self.networks)
        layers: list[tuple[Tensor, Tensor, str]] = []
        kept = [x]
        for weight, bias, name in zip(self.weights, self.biases, self._activations, strict=True):
            layers.append((weight, bias, name))
            chosen = (weight, bias) if index is None else (weight[index], bias[index])
            x = torch.baddbmm(chosen[1], x, chosen[0])
            if name:
                _NUMPY[name](x.numpy())
            kept.append(x)

        @torch.no_grad()
        def pull(grad: Tensor) -> None:
            grad = grad.transpose(0, 1)
            for at in range(len(layers) - 1, -1, -1):
                weight, bias, name = layers[at]
                assert weight.grad is not None, "see differentiable"
                assert bias.grad is not None, "see differentiable"
                if name:
                    grad = _SLOPES[name](grad, kept[at + 1])
                below = kept[at].transpose(1, 2)
                if index is None:
                    torch.bmm(below, grad, out=weight.grad)
                    torch.sum(grad, 1, keepdim=True, out=bias.grad)
                else:
                    weight.grad.zero_().index_add_(0, index, torch.bmm(below, grad))
                    bias.grad.zero_().index_add_(0, index, grad.sum(1, keepdim=True))
                if at:
                    chosen = weight if index is None else weight[index]
                    grad = torch.bmm(grad, chosen.transpose(1, 2))

        return x.transpose(0, 1), pull

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass, over views of the current parameters.

        Returns:
            A function of float32 [B, A, input] that returns [B, A, output] in new memory; None if
            the parameters are not float32 on the CPU.
        """
        if self.shared is not None:
            rows = self.shared.by_numpy()
            if rows is None:
                return None

            def shared(x: Array) -> Array:
                return rows(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)

            return shared
        if any(each.dtype is not torch.float32 or each.is_cuda for each in self.parameters()):
            return None
        return self._separate_by_numpy()

    def _separate_by_numpy(self) -> Callable[[Array], Array]:
        views = [
            (weight.detach().numpy(), bias.detach().numpy(), name)
            for weight, bias, name in zip(self.weights, self.biases, self._activations, strict=True)
        ]
        index = None if self._own else np.array(self.networks)

        def separate(x: Array) -> Array:
            x = x.swapaxes(0, 1)
            for weight, bias, name in views:
                chosen = (weight, bias) if index is None else (weight[index], bias[index])
                x = np.matmul(x, chosen[0])
                x += chosen[1]
                if name:
                    x = _NUMPY[name](x)
            return x.swapaxes(0, 1)

        return separate


_TORCH: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": torch.nn.functional.elu,
}
_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, y: torch.ops.aten.threshold_backward(grad, y, 0),
    "tanh": torch.ops.aten.tanh_backward,
}
"""Gradients below activation functions, from those above and the outputs."""
_NUMPY: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, np.float32(0), out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, np.float32(0))), x),
}
