"""Optimizers with the interface of `torch.optim`, run as optimizers of flat parameters."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dicore.errors import UsageError
from dicore.values import State, StateDict
from dicore_plugins.optimizers.flat import FlatOptimizer, Params

if TYPE_CHECKING:
    from dicore.interfaces.learner import IOptimizer


class ForeignOptimizer(FlatOptimizer):
    """Runs any optimizer with the interface of `torch.optim` on the parameters of a `Flat`.

    Hooks, clipping and the check of loss and gradient are those of `FlatOptimizer`. On a GPU, a
    skipped update passes a zero gradient, so the optimizer's averages decay; the parameters stay.

    Args:
        params: The parameters that `optimizer` updates.
        optimizer: Updates the parameters in `step()`.
        max_grad_norm: See `FlatOptimizer`.

    Raises:
        UsageError: `optimizer.step` needs an argument, such as the closure of LBFGS.
    """

    def __init__(
        self, params: Params, optimizer: IOptimizer, max_grad_norm: float | None = None
    ) -> None:
        super().__init__(params, 1.0, max_grad_norm)
        try:
            inspect.signature(optimizer.step).bind()
        except TypeError as error:
            raise UsageError(
                f"optimizer {type(optimizer).__name__}: step() cannot be called: {error}",
                hint="use an optimizer that needs no closure",
            ) from None
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def _kept_if_finite(self, data: Tensor, grad: Tensor) -> None:
        if data.device.type == "cpu":
            if not self._bad:
                self.optimizer.step()
            return
        bad, kept = self._bad.bool(), data.clone()
        grad.masked_fill_(bad, 0.0)
        self.optimizer.step()
        torch.where(bad, kept, data, out=data)

    def state_dict(self) -> StateDict:
        """Returns copies of the optimizer's state, and the number of updates."""
        state: StateDict = copy.deepcopy(self.optimizer.state_dict())
        more = {"skipped": self.skipped, "configured_rate": self.configured_rate}
        return {**state, "steps": float(self._steps), **more}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        mine = ("steps", "skipped", "configured_rate")
        own, rate = {key: state[key] for key in state if key not in mine}, self.learning_rate
        self.optimizer.load_state_dict(own)
        self.param_groups = self.optimizer.param_groups
        if self._is_reconfigured(state):
            self.learning_rate = rate
        self._steps.fill_(float(state["steps"]))
        self._calls = int(state["steps"]) + int(state["skipped"])
