"""What losses share: shapes are compared, weights multiply before the mean, sums are in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from dicore.errors import SchemaError
from dicore.values import Tree

__all__ = ["check_shapes", "in_float32", "weighted_mean"]

_HALF = (torch.float16, torch.bfloat16)
P = ParamSpec("P")
R = TypeVar("R")


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Converts all tensors to float32 if the first argument has float16 or bfloat16.

    The loss is then float32, as under `torch.autocast`: the square of an error of 300 is infinite
    in float16, and bfloat16 has 8 significant bits. If the first argument is wider, torch converts
    the others itself.
    """

    @functools.wraps(function)
    def in_float32_if_half(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0] if args else next(iter(kwargs.values()))
        if isinstance(first, Tensor) and first.dtype not in _HALF:
            return function(*args, **kwargs)
        wide = {name: _wide(value) for name, value in kwargs.items()}
        return function(*map(_wide, args), **wide)

    return in_float32_if_half


def _wide(value: Tree) -> Tree:
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _HALF else value
    if isinstance(value, dict):
        return {key: _wide(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_wide(each) for each in value)
    return value


def check_shapes(**columns: Tensor | None) -> None:
    """Compares the shapes of columns, which would otherwise be broadcast.

    Raises:
        SchemaError: they differ.
    """
    first: Any = None
    for each in columns.values():
        if each is None:
            continue
        if first is None:
            first = each.shape
        elif each.shape != first:
            break
    else:
        return
    shapes = {name: list(each.shape) for name, each in columns.items() if each is not None}
    found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise SchemaError(f"the columns of a loss must have the same shape; got {found}")


def weighted_mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    """Computes the mean over the samples, each multiplied by its weight first.

    Args:
        loss: [B].
        weight: [B] or None.

    Raises:
        SchemaError: the shapes differ.
    """
    if loss.dtype in _HALF:
        loss = loss.float()
    if weight is None:
        return loss.mean()
    if weight.shape != loss.shape:
        check_shapes(loss=loss, weight=weight)
    return (loss * weight).mean()
