"""Products with the inverse of a matrix, for natural gradients (Kakade 2001, Martens 2010).

Shapes: P parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["conjugate_gradient"]


def conjugate_gradient(
    product: Callable[[Tensor], Tensor],
    wanted: Tensor,
    *,
    iterations: int,
    tolerance: float = 1e-10,
) -> Tensor:
    """Solves `A x = b` for a symmetric positive definite A of which only products are known.

    Args:
        product: Returns `A v` of a vector, float [P].
        wanted: b, float [P].
        iterations: Most products to compute; P of them give x but for rounding.
        tolerance: Squared length of the residual `b - A x` that is small enough, as a fraction of
            that of b.

    Returns:
        x, float [P]; the best approximation in the space of the products if they were too few, and
        0 if b is 0. It ends where A has no positive curvature.
    """
    found, residual, direction = torch.zeros_like(wanted), wanted.clone(), wanted.clone()
    length = residual.dot(residual)
    least = tolerance * length
    for _ in range(iterations):
        if length <= least:
            break
        image = product(direction)
        curvature = direction.dot(image)
        if not curvature > 0:  # also NaN
            break
        rate = length / curvature
        found = found + rate * direction
        residual = residual - rate * image
        former, length = length, residual.dot(residual)
        direction = residual + length / former * direction
    return found
