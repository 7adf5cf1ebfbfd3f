"""What losses share: shapes are compared, weights multiply before the mean, sums are in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from dicore.errors import SchemaError

__all__ = ["check_shapes", "in_float32", "weighted_mean"]

_HALF = (torch.float16, torch.bfloat16)
P, R = ParamSpec("P"), TypeVar("R")


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Converts float16 and bfloat16 tensors among the arguments to float32.

    The loss is then float32, as under `torch.autocast`: the square of an error of 300 is infinite
    in float16, and bfloat16 has 8 significant bits. Other dtypes are unchanged.
    """

    @functools.wraps(function)
    def widened(*args: P.args, **kwargs: P.kwargs) -> R:
        wide = {name: _wide(value) for name, value in kwargs.items()}
        return function(*[_wide(value) for value in args], **wide)  # type: ignore[arg-type]

    return widened


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in _HALF else value
    if isinstance(value, Mapping):
        return {key: _wide(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_wide(each) for each in value)
    return value


def check_shapes(**columns: Tensor | None) -> None:
    """Compares the shapes of columns, which would otherwise be broadcast.

    Raises:
        SchemaError: they differ.
    """
    shapes = {name: tuple(each.shape) for name, each in columns.items() if each is not None}
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
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
