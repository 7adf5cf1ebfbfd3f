"""The recursion behind returns and advantages: x_t = a_t + f_t x_{t+1}."""

from __future__ import annotations

import torch
from torch import Tensor

from dicore.errors import SchemaError

__all__ = ["backward", "before_end", "check_columns", "widened"]

_HALF = (torch.float16, torch.bfloat16)


def widened(*columns: Tensor) -> list[Tensor]:
    """Converts float16 and bfloat16 to float32, in which sums over many steps keep their digits."""
    return [each.float() if each.dtype in _HALF else each for each in columns]


def backward(addend: Tensor, factor: Tensor, end: Tensor, dim: int = 1) -> Tensor:
    """Computes x_t = a_t + f_t x_{t+1}, and x_t = a_t at ends and at the last step.

    What follows an end has no influence, not even if it is NaN.

    Args:
        addend: a; any shape with T steps along `dim`.
        factor: f; the same shape.
        end: bool, the same shape.
        dim: Dimension of time.

    Returns:
        x, in new memory.
    """
    columns = zip(addend.unbind(dim), factor.unbind(dim), end.unbind(dim), strict=True)
    found: list[Tensor] = []
    for add, weight, last in reversed(list(columns)):
        found.append(torch.where(last, add, add + weight * found[-1]) if found else add)
    return torch.stack(found[::-1], dim) if found else addend.clone()


def before_end(x: Tensor, last: Tensor, end: Tensor) -> Tensor:
    """Returns x_{t+1} for each step t, and `last` at ends and at the last step.

    Args:
        x: [B, T, ...].
        last: the same shape.
        end: bool, the same shape.
    """
    following = last.clone()
    following[:, :-1] = torch.where(end[:, :-1], last[:, :-1], x[:, 1:])
    return following


def check_columns(**columns: Tensor) -> None:
    """Raises SchemaError unless all columns are [B, T, ...], of one shape."""
    shapes = {tuple(each.shape) for each in columns.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) < 2:
        *names, last = columns
        raise SchemaError(
            f"{', '.join(names)} and {last} must all be [B, T, ...]; got"
            f" {', '.join(map(str, sorted(shapes)))}"
        )
