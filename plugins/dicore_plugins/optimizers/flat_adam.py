"""Adam (Kingma and Ba 2015, arXiv:1412.6980) on one flat tensor.

It calls the fused operation of torch directly: one call for all layers, no parameter groups, and no
import of `torch._dynamo` (over a second). An update with a non-finite loss or gradient is skipped
on the device, without synchronisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor
from torch.optim.adam import adam

from dicore.errors import CheckpointError, UsageError
from dicore_plugins.models.flat import Flat

_SWEEP_EVERY, _MIN_MEAN, _MIN_SQUARE = 100, 1e-30, 1e-36
"""Updates between sweeps, and the averages (of gradient and square) below which a sweep zeroes."""


class FlatAdam:
    """Adam for the parameters of a `Flat`.

    Args:
        flat: Parameters and gradient.
        learning_rate: Step size; a schedule may set the attribute before `step`.
        betas: Decay rates of the averages of gradient and squared gradient, in [0, 1).
        eps: Added to the root of the squared average for numerical stability.
        weight_decay: L2 penalty, added to the gradient.
        max_grad_norm: Largest norm of the gradient, clipped above; None: no clipping.

    Raises:
        UsageError: a number is out of range.
    """

    def __init__(
        self,
        flat: Flat,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
    ) -> None:
        _check(learning_rate, betas, eps, weight_decay, max_grad_norm)
        self.learning_rate = learning_rate
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.max_grad_norm = max_grad_norm
        self._flat = flat
        self._calls = 0
        data = flat.data
        self._mean = torch.zeros_like(data)
        self._square = torch.zeros_like(data)
        self._steps = torch.zeros((), dtype=torch.float32, device=data.device)
        self._bad = torch.zeros((), dtype=torch.float32, device=data.device)
        self._good = torch.zeros_like(self._bad)
        self._update = self._fused if _fused_works(data) else self._unfused

    def zero_grad(self) -> None:
        """Sets the gradient to zero."""
        self._flat.zero_grad()

    def step(self, loss: Tensor | None = None) -> None:
        """Updates the parameters; skips the update if loss or gradient is not finite.

        Args:
            loss: A scalar to check as well; it may be infinite although its gradient is finite.
        """
        flat = self._flat
        grad = flat.grad
        probe = torch.dot(grad, grad)
        if self.max_grad_norm is not None:
            grad.mul_(probe.rsqrt().mul_(self.max_grad_norm).clamp_(max=1.0))
        if loss is not None:
            probe = probe + loss.detach()
        # 0 for a finite probe, else nan, which is not equal to itself. Comparing two tensors takes
        # a third of the time of comparing with a number, which torch would wrap first.
        odd = probe - probe
        torch.ne(odd, odd, out=self._bad)
        torch.eq(odd, odd, out=self._good)
        self._calls += 1
        self._steps.add_(self._good)
        self._update(flat.data, grad)
        if self._calls % _SWEEP_EVERY == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Zeroes averages that are too small to change a parameter.

        The averages of a gradient that stays zero (a dead unit) decay to subnormal numbers, on
        which processors are ten times slower.
        """
        if self.eps > 0:
            self._mean.copy_(F.hardshrink(self._mean, _MIN_MEAN))
            F.threshold_(self._square, _MIN_SQUARE, 0.0)

    @property
    def skipped(self) -> int:
        """Number of updates skipped for a non-finite loss or gradient; synchronises."""
        return self._calls - int(self._steps.item())

    def _fused(self, data: Tensor, grad: Tensor) -> None:
        torch._fused_adam_(
            [data],
            [grad],
            [self._mean],
            [self._square],
            [],
            [self._steps],
            lr=self.learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            found_inf=self._bad,
        )

    def _unfused(self, data: Tensor, grad: Tensor) -> None:
        """Runs the functional Adam of torch on copies; keeps them if all is finite."""
        state = (data, self._mean, self._square)
        new = tuple(each.clone() for each in state)
        adam(
            [new[0]],
            [grad],
            [new[1]],
            [new[2]],
            [],
            [self._steps - self._good],
            foreach=False,
            fused=False,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            eps=self.eps,
            maximize=False,
        )
        bad = self._bad.bool()
        for kept, changed in zip(state, new, strict=True):
            torch.where(bad, kept, changed, out=kept)

    def state_dict(self) -> dict[str, Any]:
        """Returns copies in the format of `torch.optim.Adam`, one entry per parameter."""
        means, squares = self._flat.split(self._mean), self._flat.split(self._square)
        state = {
            index: {
                "step": self._steps.clone(),
                "exp_avg": mean.clone(),
                "exp_avg_sq": square.clone(),
            }
            for index, (mean, square) in enumerate(zip(means, squares, strict=True))
        }
        group = {
            "lr": self.learning_rate,
            "betas": self.betas,
            "eps": self.eps,
            "weight_decay": self.weight_decay,
            "amsgrad": False,
            "params": list(range(len(state))),
        }
        return {"state": state, "param_groups": [group], "skipped": self.skipped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores moments, step count and learning rate from this class or `torch.optim.Adam`.

        Raises:
            CheckpointError: the state belongs to other parameters.
        """
        entries = {int(index): entry for index, entry in state["state"].items()}
        parameters = self._flat.parameters
        shapes = [tuple(parameter.shape) for parameter in parameters]
        found = [tuple(entries[index]["exp_avg"].shape) for index in sorted(entries)]
        if found and found != shapes:
            raise CheckpointError(f"the optimizer state has parameters {found}, expected {shapes}")
        pieces = zip(self._flat.split(self._mean), self._flat.split(self._square), strict=True)
        for index, (mean, square) in enumerate(pieces):
            if found:
                mean.copy_(entries[index]["exp_avg"])
                square.copy_(entries[index]["exp_avg_sq"])
            else:
                mean.zero_()
                square.zero_()
        steps = float(entries[0]["step"]) if found else 0.0
        self._steps.fill_(steps)
        self._calls = int(steps) + int(state.get("skipped", 0))
        self.learning_rate = float(state["param_groups"][0]["lr"])


def _fused_works(like: Tensor) -> bool:
    """Tries the fused operation on one element of the same dtype and device."""
    if not hasattr(torch, "_fused_adam_"):
        return False
    one = [like.new_zeros(1)]
    step = [torch.ones((), device=like.device)]
    try:
        torch._fused_adam_(
            one, one, one, one, [], step,
            lr=0.0, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1.0,
            amsgrad=False, maximize=False, found_inf=torch.zeros((), device=like.device),
        )  # fmt: skip
    except (RuntimeError, TypeError):
        return False
    return True


def _check(
    learning_rate: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    max_grad_norm: float | None,
) -> None:
    wrong = {
        "learning_rate > 0": learning_rate > 0 and math.isfinite(learning_rate),
        "0 <= betas < 1": all(0 <= beta < 1 for beta in betas),
        "eps >= 0": eps >= 0,
        "weight_decay >= 0": weight_decay >= 0,
        "max_grad_norm > 0": max_grad_norm is None or max_grad_norm > 0,
    }
    for condition, holds in wrong.items():
        if not holds:
            raise UsageError(f"FlatAdam requires {condition}")
