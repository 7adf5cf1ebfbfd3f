"""Searching with the rules of a game: states are exact, a network values those that go on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dicore.data import Columns, Tree
from dicore_worlds.games.interface import SupportsRules
from dicore_worlds.planning.tree import Floats, Ints, Leaf

__all__ = ["RulesModel"]


class RulesModel:
    """Steps states by rules; the sides move by turns. It is a `PlanningModel`.

    Args:
        rules: Of the game.
        network: Returns `logit` [N, A] and `value` [N] of observations, in the view of who acts.
        device: Of the network.
    """

    def __init__(
        self, rules: SupportsRules, network: Callable[[Tensor], Columns], device: str = "cpu"
    ) -> None:
        self._rules, self._network, self._device = rules, network, device

    def root(self, state: Tree) -> Leaf:
        """Returns what is known of states [N, ...]; if no move is legal, all are allowed."""
        logit, value = self._seen(state)
        none = np.zeros_like(value)
        return Leaf(state, logit, value, none, none)

    def step(self, state: Tree, action: Ints) -> Leaf:
        """Returns what comes of moves."""
        moved = self._rules.step(state, action)
        logit, value = self._seen(moved.state)
        value[moved.over] = 0
        discount = np.where(moved.over, 0, -1).astype(np.float32)
        return Leaf(moved.state, logit, value, moved.reward, discount)

    @torch.no_grad()
    def _seen(self, state: Tree) -> tuple[Floats, Floats]:
        obs = torch.from_numpy(self._rules.observe(state)).to(self._device)
        found = self._network(obs)
        logit, value = (found[key].cpu().numpy() for key in ("logit", "value"))
        legal = self._rules.legal(state)
        legal |= ~legal.any(1, keepdims=True)
        logit[~legal] = -np.inf
        return logit, value
