"""A Q network whose choice is limited to actions like those of a data set.

Shapes: B observations, A actions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.models.dqn.config import DiscreteBCQModelConfig
from dicore_plugins.models.dqn.model import DQN

__all__ = ["DiscreteBCQNet"]

_NEVER = -1e8


class DiscreteBCQNet(nn.Module):
    """A Q network and a network of the probabilities of recorded actions.

    Fujimoto et al. 2019, arXiv:1910.01708.

    Args:
        threshold: Least probability of an action that may be chosen, as a share of the largest.
        **options: Arguments of `DQN`, for both networks.
    """

    config_class = DiscreteBCQModelConfig

    def __init__(self, threshold: float = 0.3, **options: Any) -> None:
        super().__init__()
        self.nets = nn.ModuleList(DQN(**options) for _ in range(2))
        self.threshold = threshold

    @property
    def _nets(self) -> tuple[Any, Any]:
        nets: Any = self._modules["nets"]  # as in DQN
        return tuple(nets._modules.values())  # noqa: SLF001

    def forward(self, obs: Tree) -> Columns:
        """Computes the Q values of the actions that may be chosen.

        Args:
            obs: [B, ...], as for `DQN.forward`.

        Returns:
            `logit` float32 [B, A], or a list with one per head: Q values, -1e8 for other actions.
        """
        return {"logit": self.likely(obs, self.q(obs))}

    def q(self, obs: Tree) -> Tree:
        """Computes the Q values of all actions: float32 [B, A], or a list with one per head."""
        return self._nets[0].q(obs)

    def imitation(self, obs: Tree) -> Any:
        """Computes the logits of the recorded actions, in the form of `q`."""
        return self._nets[1].q(obs)

    def likely(self, obs: Tree, q: Tree) -> Any:
        """Returns Q values in which actions unlike the recorded ones are least.

        An `action_mask` of the observations is obeyed if there is one head.
        """
        with torch.no_grad():
            logit, mask = self.imitation(obs), mask_of(obs)
        if not isinstance(q, Tensor):
            return [self._likely(*pair) for pair in zip(logit, q, strict=True)]
        if mask is not None:  # that of a terminal state may allow nothing
            allowed = mask != 0
            logit = logit.masked_fill(~allowed & allowed.any(1, keepdim=True), _NEVER)
        return self._likely(logit, q)

    def _likely(self, logit: Tensor, q: Tensor) -> Tensor:
        ratio = (logit - logit.amax(1, keepdim=True)).exp()
        return q.masked_fill(ratio < self.threshold, _NEVER)
