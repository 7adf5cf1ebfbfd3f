"""Flat parameters: one tensor for the parameters of a module, another for their gradients.

An optimizer step, a copy to a target network or clipping the gradient then is one operation each,
independent of the number of layers.

Views survive `state_dict`, `load_state_dict`, saving, and a deep copy of both module and `Flat`.
They do not survive an operation that moves a parameter (`.to(device)`, `.double()`) or drops its
gradient (`zero_grad`): build a `Flat` last, after `.to(device)`; `intact()` checks the views,
`rebind()` renews them.

Shapes: P elements of all parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from dicore.errors import UsageError


class Flat:
    """Binds the parameters of a module to one tensor, in the order of `module.parameters()`.

    It iterates over the parameters, so that optimizers of torch accept it.

    Args:
        module: A module, or parameters. They share one dtype and device, and either all or none of
            them require a gradient; none: a frozen copy such as a target network, without `grad`.

    Attributes:
        module: The module given; without parameters for a list of them.
        data: [P]; writing to it writes the parameters.
        grad: [P]; backward adds to it, `zero_grad` clears it. A frozen module has none.

    Raises:
        UsageError: the module has no parameters, or they cannot share a tensor.
    """

    module: Any
    data: Tensor
    grad: Tensor

    def __init__(self, module: nn.Module | Iterable[nn.Parameter]) -> None:
        parameters: Any = getattr(module, "parameters", None)  # also of wrapped modules
        self.module = nn.Module() if parameters is None else module
        self._source = tuple(cast("Any", module)).__iter__ if parameters is None else parameters
        self._parameters: tuple[nn.Parameter, ...] = ()
        self._buffers: tuple[Tensor, ...] = ()
        self._pointers: tuple[tuple[nn.Parameter, int], ...] = ()
        self._grad_pointers: tuple[tuple[nn.Parameter, int], ...] = ()
        self.rebind()

    def __deepcopy__(self, memo: dict[int, object]) -> Flat:
        """Copies the parameters with their module, if that is copied too, and binds the copies."""
        memo[id(self)] = same = Flat.__new__(Flat)
        same.__dict__.update(copy.deepcopy(self.__dict__, memo))
        same.rebind()
        return same

    def __iter__(self) -> Iterator[nn.Parameter]:
        return iter(self._parameters)

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The bound parameters, in their order in `data`."""
        return self._parameters

    def zero_grad(self) -> None:
        """Sets the gradient to zero; `module.zero_grad()` would detach it instead."""
        self.grad.zero_()

    def intact(self) -> bool:
        """Returns whether all parameters and gradients are still views of `data` and `grad`."""
        for parameter, pointer in self._pointers:
            if parameter.data_ptr() != pointer:
                return False
        for parameter, pointer in self._grad_pointers:
            grad = parameter.grad
            if grad is None or grad.data_ptr() != pointer or not parameter.requires_grad:
                return False
        return True

    def follow(self, source: Flat, theta: float | None = None) -> None:
        """Moves the parameters and buffers, of a target network, towards those of another `Flat`.

        Args:
            source: Flat of a module with the same parameters.
            theta: Soft-update coefficient tau (Polyak averaging); None: copies.
        """
        follow(self.data, source.data, theta)
        for mine, theirs in zip(self._buffers, source._buffers, strict=True):
            follow(mine, theirs, theta)

    @torch.no_grad()
    def rebind(self, data: Tensor | None = None, grad: Tensor | None = None) -> None:
        """Makes the current parameters of the module views again, without changing their values.

        `data` and `grad` are new tensors afterwards, or the given ones [P], such as rows of those
        of several networks; detached gradients start at zero.

        Raises:
            UsageError: see the constructor.
        """
        self._parameters = tuple(self._source())
        trainable = _check(self._parameters, type(self.module).__name__)
        now = torch.cat([parameter.reshape(-1) for parameter in self._parameters])
        self.data = now if data is None else data.copy_(now)
        pieces = self.split(self.data)
        for parameter, piece in zip(self._parameters, pieces, strict=True):
            parameter.data = piece
        self._pointers = tuple((each, each.data_ptr()) for each in self._parameters)
        state = self.module.state_dict(keep_vars=True) if hasattr(self.module, "state_dict") else {}
        self._buffers = tuple(
            each
            for each in state.values()
            if isinstance(each, Tensor) and not isinstance(each, nn.Parameter)
        )
        if trainable:
            self._rebind_grad(torch.zeros_like(self.data) if grad is None else grad.zero_())

    def _rebind_grad(self, grad: Tensor) -> None:
        self.grad = grad
        pointers = []
        for parameter, piece in zip(self._parameters, self.split(self.grad), strict=True):
            if parameter.grad is not None:
                piece.copy_(parameter.grad)
            parameter.grad = piece
            pointers.append((parameter, piece.data_ptr()))
        self._grad_pointers = tuple(pointers)

    def split(self, flat: Tensor) -> list[Tensor]:
        """Returns views of a tensor [P] in the shapes of the parameters."""
        sizes = [parameter.numel() for parameter in self._parameters]
        return [
            piece.view(parameter.shape)
            for piece, parameter in zip(torch.split(flat, sizes), self._parameters, strict=True)
        ]


def follow(mine: Tensor, theirs: Tensor, theta: float | None) -> None:
    """Moves a tensor towards another in place; see `Flat.follow`. Integers are copied."""
    if theta is None or not mine.is_floating_point():
        mine.copy_(theirs)
    else:
        mine.lerp_(theirs, theta)


def _check(parameters: tuple[nn.Parameter, ...], name: str) -> bool:
    """Returns whether the parameters require gradients; all must agree.

    Raises:
        UsageError: they cannot share a tensor.
    """
    if not parameters:
        raise UsageError(f"{name} has no parameters to flatten")
    for what in ("dtype", "device"):
        values = {str(getattr(parameter, what)) for parameter in parameters}
        if len(values) > 1:
            raise UsageError(
                f"parameters of {name} differ in {what}: {', '.join(sorted(values))}",
                hint="move or convert the module to one dtype and device first",
            )
    required = {parameter.requires_grad for parameter in parameters}
    if len(required) > 1:
        raise UsageError(
            f"some parameters of {name} require a gradient and some do not",
            hint="build a Flat of the trainable submodule",
        )
    return required.pop()
