"""One step of the optimizers of S seeds."""

# ruff: noqa: SLF001 - a step of several is made of what each of them is made of

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dicore_plugins.optimizers.flat import _SWEEP_EVERY, FlatAdam, FlatOptimizer

__all__ = ["step_all"]


def step_all(optimizers: Sequence[FlatOptimizer], losses: Tensor) -> None:
    """Updates the parameters of each seed: Adam in one fused call, others one after the other.

    Args:
        optimizers: One of each seed.
        losses: float32 [S]; an update whose loss or gradient is not finite is skipped.
    """
    adams = [each for each in optimizers if type(each) is FlatAdam]
    grads = [each.flat.grad for each in optimizers]
    norms = torch.stack(torch._foreach_norm(grads))
    odd = norms + losses
    alike = len(adams) == len(optimizers) and all(_does(each, adams[0]) for each in adams)
    if not alike or not bool(torch.eq(odd - odd, 0).all()):
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.step(loss)
        return
    limit = adams[0].max_grad_norm
    if limit is not None:
        scales = norms.reciprocal_().mul_(limit).clamp_(max=1.0)
        torch._foreach_mul_(grads, list(scales.unbind()))
    _step_adams(adams, grads)


def _step_adams(adams: Sequence[FlatAdam], grads: list[Tensor]) -> None:
    """Does the fused step of each, in one call."""
    steps = [each._steps for each in adams]
    torch._foreach_add_(steps, 1.0)
    group, (beta1, beta2) = adams[0].param_groups[0], adams[0].param_groups[0]["betas"]
    means, squares = zip(*(each._moments for each in adams), strict=True)
    adams[0]._operation(  # type: ignore[misc]
        [each.flat.data for each in adams], grads, list(means), list(squares), [], steps,
        lr=group["lr"], beta1=beta1, beta2=beta2, weight_decay=group["weight_decay"],
        eps=group["eps"], amsgrad=False, maximize=False,
    )  # fmt: skip
    for each in adams:
        each._calls += 1
        if each._calls % _SWEEP_EVERY == 0:
            each._sweep()


def _does(one: FlatAdam, other: FlatAdam) -> bool:
    """Returns whether an optimizer is fused, has no hooks and does what another does."""
    if one._hooks or one._update != one._fused:
        return False
    own, its = ({**each.param_groups[0], "params": None} for each in (one, other))
    same = one.max_grad_norm == other.max_grad_norm and one._decoupled == other._decoupled
    return own == its and same
