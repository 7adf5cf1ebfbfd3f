"""A trained policy as one torch module, from observations to actions: for export."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.errors import UsageError

__all__ = ["GreedyModule", "greedy_module"]


class GreedyModule(nn.Module):
    """Maps observations [B, ...] to the actions that the eval mode selects: int64 or float32.

    Args:
        model: Network with the output `logit` (one tensor, or one per head) or `mean`.
        cfg: The policy's section: `action_start` of discrete actions; `action_low`, `action_high`
            and `action_dims` of continuous ones.
        squashed: Continuous actions are tanh(mean), scaled to the bounds; else the clipped mean.
    """

    low: Tensor
    high: Tensor
    start: Tensor

    def __init__(self, model: nn.Module, cfg: Any, *, squashed: bool = False) -> None:
        super().__init__()
        self.model, self.squashed = model, squashed
        self.dims = tuple(getattr(cfg, "action_dims", None) or ())
        low, high = getattr(cfg, "action_low", None), getattr(cfg, "action_high", None)
        bounds = [np.zeros(1) if each is None else np.asarray(each) for each in (low, high)]
        start = np.asarray(getattr(cfg, "action_start", None) or 0, np.int64)
        self.register_buffer("low", torch.tensor(bounds[0], dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(bounds[1], dtype=torch.float32), persistent=False)
        self.register_buffer("start", torch.from_numpy(start), persistent=False)

    def forward(self, obs: Any) -> Tensor:
        """Selects the greedy actions."""
        output = self.model(obs)
        if "mean" in output:
            return self._continuous(output["mean"])
        logit = output["logit"]
        heads = logit if isinstance(logit, list | tuple) else [logit]
        index = [each.argmax(-1) for each in heads]
        found = torch.stack(index, -1) if isinstance(logit, list | tuple) else index[0]
        return found + self.start

    def _continuous(self, mean: Tensor) -> Tensor:
        if self.squashed:
            mean = mean.tanh() * ((self.high - self.low) / 2) + (self.high + self.low) / 2
        action = torch.minimum(torch.maximum(mean, self.low), self.high)
        return action if len(self.dims) <= 1 else action.reshape(-1, *self.dims)


def greedy_module(policy: Any) -> GreedyModule:
    """Returns a copy of a policy's network that selects the greedy actions, on the CPU.

    Args:
        policy: A policy whose network returns `logit` or `mean`, and no hidden state.

    Raises:
        UsageError: the policy has no such network.
    """
    model, cfg = getattr(policy, "_model", None), getattr(policy, "_cfg", None)
    if not isinstance(model, nn.Module) or cfg is None:
        raise UsageError(f"{policy} has no network that could be exported")
    own = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    if getattr(own, "noisy", False):
        own.reset_noise(on=False)  # type: ignore[operator] # of a noisy network
    return GreedyModule(own, cfg, squashed=getattr(policy, "squashed", False)).eval()
