"""Updates of agents that do not share their networks: each network learns as if it were alone.

The loss of an update is a mean over the rows of all agents, and parameters have an axis of
networks. What a training of one network would compute of its own rows is computed per network here:
the scale of its advantages, and the norm by which its gradient is clipped. So agents whose rewards
are large do not slow down the others.

Shapes: R rows of agents that act, A agents, G networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore_agents.models.agent_rnn import AgentRecurrent

__all__ = ["ClipApart", "advantages_apart", "networks_that_act"]


def networks_that_act(networks: Tensor, shape: Sequence[int], alive: Tensor | None) -> Tensor:
    """Returns the number of the network of each row of agents that act.

    Args:
        networks: Number of the network of each agent, int64 [A].
        shape: That of `alive`: (..., A).
        alive: 0 where an agent does not act, [..., A]; None: all act.

    Returns:
        int64 [R].
    """
    each = networks.expand(tuple(shape)).reshape(-1)
    return each if alive is None else each[alive.reshape(-1) != 0]


def advantages_apart(advantage: Tensor, network: Tensor | None, count: int) -> Tensor:
    """Returns advantages of mean 0 and deviation 1 in each network; a single one stays.

    Args:
        advantage: float32 [R].
        network: Number of the network of each row, int64 [R]; None: 0 .. G - 1, again and again.
        count: G.
    """
    if network is None:
        rows = advantage.view(-1, count)
        std, mean = torch.std_mean(rows, 0)
        return (rows - mean).div_(std + 1e-8).flatten() if len(rows) > 1 else advantage
    zeros = advantage.new_zeros(count)
    rows = zeros.index_add(0, network, torch.ones_like(advantage))
    mean = zeros.index_add(0, network, advantage) / rows
    centred = advantage - mean[network]
    square = zeros.index_add(0, network, centred.square()) / (rows - 1).clamp(min=1)
    scaled = centred / (square.sqrt()[network] + 1e-8)
    return torch.where(rows[network] > 1, scaled, advantage)


class ClipApart:
    """Clips the gradient of each network by its own norm; a hook of an optimizer's steps.

    It takes the place of `max_grad_norm` of the optimizer. Gradients become those of the mean over
    the rows of the network alone.

    Args:
        optimizer: Updates the parameters.
        stacked: Parameters of all networks, each [G, ...].
        single: Parameters of one network, with its number.
        networks: Number of the network of each agent, int64 [A].
    """

    def __init__(
        self,
        optimizer: Any,
        stacked: Sequence[Tensor],
        single: Sequence[tuple[int, Tensor]],
        networks: Tensor,
    ) -> None:
        self._stacked, self._single = stacked, single
        self._limit, optimizer.max_grad_norm = float(optimizer.max_grad_norm), None
        self._count = int(networks.max()) + 1
        self._usual = self._now = self._shares(networks)
        optimizer.register_step_pre_hook(self)

    @classmethod
    def of(cls, optimizer: Any, model: nn.Module, networks: Tensor) -> ClipApart | None:
        """Returns one; None if all agents share a network, or nothing is to be clipped."""
        count = int(networks.max()) + 1
        if count == 1 or optimizer.max_grad_norm is None:
            return None
        single = [
            (index, each)
            for part in model.modules()
            if isinstance(part, AgentRecurrent)
            for index, layer in enumerate(part.layers)
            for each in layer.parameters()
        ]
        known = {id(each) for _, each in single}
        stacked = [each for each in model.parameters() if id(each) not in known]
        if any(each.shape[:1] != (count,) for each in stacked):
            return None  # a network of a stranger, whose parts agents share
        return cls(optimizer, stacked, single, networks)

    def see(self, network: Tensor | None) -> None:
        """Notes whose rows the next update is of: int64 [R]; None: of all agents alike."""
        self._now = self._usual if network is None else self._shares(network)

    def _shares(self, network: Tensor) -> Tensor:
        """Returns the share of rows of each network, 1 where there are none: float32 [G]."""
        rows = torch.bincount(network, minlength=self._count)
        return torch.where(rows > 0, rows / max(len(network), 1), 1.0)

    @torch.no_grad()
    def __call__(self, *_: object) -> None:
        """Scales the gradients in place."""
        stacked = [each.grad for each in self._stacked if each.grad is not None]
        single = [(at, each.grad) for at, each in self._single if each.grad is not None]
        views = [each.view(self._count, -1) for each in stacked]
        square = torch.stack([torch.linalg.vector_norm(each, dim=1) for each in views])
        square = square.square_().sum(0)
        for at, each in single:
            square[at] += each.square().sum()
        norm = square.sqrt() / self._now
        factor = (self._limit / norm.clamp(min=1e-12)).clamp(max=1.0) / self._now
        torch._foreach_mul_(views, [factor.unsqueeze(1)] * len(views))
        for at, grad in single:
            grad.mul_(factor[at])
