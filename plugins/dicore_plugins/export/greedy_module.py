"""A trained policy as one torch module, from observations to actions: for export."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree
from dicore.errors import UsageError
from dicore_plugins.functional.td import legal
from dicore_plugins.policies.unit_actions import UnitActions, action_bounds

__all__ = ["GreedyModule", "greedy_module"]


class GreedyModule(nn.Module):
    """Maps observations [B, ...] to the actions that the eval mode selects: int64 or float32.

    Hybrid actions are two tensors, the type and the arguments; see `parts`.

    Observations with an `action_mask` get no action that it forbids.

    Args:
        model: Network with the output `logit` (one tensor, or one per head) or `mean`, or with
            both, or with `logit` and `action_args`; with `hidden`, the next state [B, S], if it is
            recurrent.
        cfg: The policy's section: `action_start` of discrete actions; `action_low`, `action_high`,
            `action_dims` and `action_scaling` of continuous ones.
        squashed: Continuous actions are tanh(mean), else the clipped mean, scaled to the bounds.

    Attributes:
        layout: Tree of the names of the inputs, if observations come as one dict by name; None:
            they come as the network takes them.
        parts: Names of the tensors that an action consists of.
    """

    low: Tensor
    high: Tensor
    scale: Tensor
    middle: Tensor
    start: Tensor

    def __init__(self, model: nn.Module, cfg: Any, *, squashed: bool = False) -> None:
        super().__init__()
        self.model, self.squashed = model, squashed
        self.hybrid = bool(getattr(cfg, "hybrid", False))
        self.layout: Tree = None
        self.parts: tuple[str, ...] = ("action",)
        dims = getattr(cfg, "action_dims", None)
        self.dims = None if dims is None or len(dims) == 1 else tuple(dims)
        low = high = middle = np.zeros(1, np.float32)
        scale = np.ones(1, np.float32)
        if getattr(cfg, "action_low", None) is not None:
            low, high = action_bounds(cfg)
            units = UnitActions(cfg, "cpu")
            scale, middle = units.scale, units.middle
        self.moves = bool((scale != 1).any() or middle.any())
        start = np.asarray(getattr(cfg, "action_start", None) or 0, np.int64)
        self.register_buffer("low", torch.from_numpy(low), persistent=False)
        self.register_buffer("high", torch.from_numpy(high), persistent=False)
        self.register_buffer("scale", torch.from_numpy(scale), persistent=False)
        self.register_buffer("middle", torch.from_numpy(middle), persistent=False)
        self.register_buffer("start", torch.from_numpy(start), persistent=False)

    @staticmethod
    def of(policy: Any) -> GreedyModule:
        """Returns the module of a policy; see `greedy_module`."""
        return greedy_module(policy)

    def forward(self, obs: Tree, state: Tensor | None = None) -> Tree:
        """Selects the greedy actions.

        Args:
            obs: [B, ...], or a tree of these; see `layout`.
            state: float32 [B, S]; of a recurrent network: zeros before the first step.

        Returns:
            The actions, or a tuple of their parts; with `state` also the next one.
        """
        output = self.outputs(obs, state)
        args = output.get("action_args", output.get("mean"))
        both = self.hybrid or "action_args" in output
        found = [self._discrete(output["logit"])] if both or args is None else []
        if args is not None:
            found.append(
                self._continuous(args, squash=self.squashed and "action_args" not in output)
            )
        if state is not None:
            found.append(output["hidden"])
        return tuple(found) if len(found) > 1 else found[0]

    def _discrete(self, logit: Tree) -> Tensor:
        if not isinstance(logit, list | tuple):
            return logit.argmax(-1) + self.start  # type: ignore[no-any-return]
        return torch.stack([each.argmax(-1) for each in logit], -1) + self.start

    def outputs(self, obs: Tree, state: Tensor | None = None) -> Columns:
        """Computes the outputs of the network; logits of forbidden actions are least.

        Raises:
            UsageError: the network computes nothing by itself.
        """
        if type(self.model).forward is nn.Module.forward:
            raise UsageError(
                f"the network {type(self.model).__name__} has no forward, and cannot be exported",
                hint="make it a module with forward(obs), which returns {'logit': …} for discrete"
                " actions, {'mean': …} for others",
            )
        obs = obs if self.layout is None else _filled(self.layout, obs)
        output = dict(self.model(obs) if state is None else self.model(obs, state))
        if "logit" in output:
            output["logit"] = legal(output["logit"], obs)
        return output

    def _continuous(self, mean: Tensor, *, squash: bool) -> Tensor:
        """Returns actions of the environment, within its bounds."""
        mean = mean.tanh() if squash else mean
        mean = mean if mean.dim() == 2 else mean.flatten(1)  # of teams, a row for each agent
        mean = mean * self.scale + self.middle if self.moves else mean
        action = torch.minimum(torch.maximum(mean, self.low), self.high)
        return action if self.dims is None else action.reshape(-1, *self.dims)


def greedy_module(policy: Any) -> GreedyModule:
    """Returns a copy of a policy's network that selects the greedy actions, on the CPU.

    Args:
        policy: A policy whose network returns `logit` or `mean`. One that does more than its
            network says what by an attribute `export_problem`; one of several networks has a method
            `greedy_module`.

    Raises:
        UsageError: the policy has no such network, or does more.
    """
    if problem := getattr(policy, "export_problem", ""):
        raise UsageError(
            f"{type(policy).__name__} cannot be exported: {problem}",
            hint="use it with dicore: dicore enjoy RUN, or dicore.Agent in Python",
        )
    if (own_module := getattr(policy, "greedy_module", None)) is not None:
        found: GreedyModule = own_module()
        return found
    model, cfg = getattr(policy, "_model", None), getattr(policy, "_cfg", None)
    if not isinstance(model, nn.Module) or cfg is None:
        raise UsageError(f"{policy} has no network that could be exported")
    own = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    if getattr(own, "noisy", False):
        own.reset_noise(on=False)  # type: ignore[operator] # of a noisy network
    return GreedyModule(own, cfg, squashed=getattr(policy, "squashed", False)).eval()


def _filled(layout: Tree, parts: Mapping[str, Tensor]) -> Tree:
    """Returns the tree with the inputs in the places of their names."""
    if isinstance(layout, Mapping):
        return {key: _filled(each, parts) for key, each in layout.items()}
    if isinstance(layout, tuple):
        return tuple(_filled(each, parts) for each in layout)
    return parts[layout]
