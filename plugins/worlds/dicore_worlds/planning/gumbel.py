"""Planning with Gumbel noise and sequential halving (Danihelka et al. 2022, Gumbel MuZero).

The root's m actions of largest g(a) + logit(a) are tried, each as often; after each phase the half
of largest g(a) + logit(a) + sigma(q(a)) goes on. The last one is done. With

    sigma(q) = (c_visit + max_b N(b)) c_scale q,    q completed: v_mix for actions not tried
    v_mix = (v + sum_b N(b) sum_{a tried} pi(a) q(a) / sum_{a tried} pi(a)) / (1 + sum_b N(b))

the policy learns softmax(logit + sigma(q)), which is no worse than the old one however few the
simulations. Below the root the action is argmax_a pi'(a) - N(a) / (1 + sum_b N(b)), without noise.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log2

import numpy as np

from dicore_worlds.planning.config import GumbelConfig
from dicore_worlds.planning.interface import Plan
from dicore_worlds.planning.tree import (
    Floats,
    Ints,
    Leaf,
    PlanningModel,
    SearchTree,
    grow_tree,
    softmax,
)

__all__ = ["Gumbel"]


class Gumbel:
    """Searches by sequential halving; learns the improved policy."""

    def __init__(self, cfg: GumbelConfig) -> None:
        self._cfg = cfg

    def plan(
        self,
        model: PlanningModel,
        root: Leaf,
        rng: np.random.Generator,
        *,
        explore: bool,
        temperature: float = 1.0,
    ) -> Plan:
        """Searches; see the contract. The temperature is a factor of the noise."""
        cfg = self._cfg
        tree = SearchTree(root, cfg.simulations, cfg.least_range)
        start = root.logit
        if explore and temperature:
            start = start + temperature * rng.gumbel(size=start.shape).astype(np.float32)
        halving = _Halving(cfg, start)
        grow_tree(tree, model, cfg.simulations, self._choose, halving.choose)
        scale, visits = _scaled(cfg, tree, tree.roots), tree.tried[tree.roots]
        most = visits == visits.max(1, keepdims=True)
        action = np.where(most, start + scale, -np.inf).argmax(1)
        return Plan(action, softmax(root.logit + scale), tree.value[tree.roots])

    def _choose(self, tree: SearchTree, node: Ints) -> Ints:
        tried = tree.tried[node]
        policy = softmax(tree.logit[node] + _scaled(self._cfg, tree, node))
        score = policy - tried / (1 + tried.sum(1, keepdims=True))
        score[tree.prior[node] == 0] = -np.inf
        action: Ints = score.argmax(1)
        return action


class _Halving:
    """Which of the root's actions each simulation tries."""

    def __init__(self, cfg: GumbelConfig, start: Floats) -> None:
        self._cfg, self._start, self._done = cfg, start, 0
        allowed = (start > -np.inf).sum(1)
        wanted = np.minimum(allowed, cfg.max_actions)
        self._table = np.stack([rounds(int(each), cfg.simulations) for each in wanted])

    def choose(self, tree: SearchTree, node: Ints) -> Ints:
        """Chooses among the actions that were tried as often as the round wants."""
        score = self._start + _scaled(self._cfg, tree, node)
        score[tree.tried[node] != self._table[:, self._done, None]] = -np.inf
        self._done += 1
        action: Ints = score.argmax(1)
        return action


@lru_cache(maxsize=1024)
def rounds(actions: int, simulations: int) -> Ints:
    """Returns how often the action of each simulation was tried before: int64 [simulations].

    Args:
        actions: Number of actions that are tried first.
        simulations: Number of simulations.
    """
    phases, left, tried = max(1, ceil(log2(actions))), actions, [0] * actions
    order: list[int] = []
    while len(order) < simulations:
        for _ in range(max(1, simulations // (phases * left))):
            order += tried[:left]
            tried[:left] = [each + 1 for each in tried[:left]]
        left = max(min(2, actions), left // 2)
    return np.array(order[:simulations])


def _scaled(cfg: GumbelConfig, tree: SearchTree, node: Ints) -> Floats:
    """Computes sigma(completed q) [K, A]."""
    count = tree.tried[node]
    tried, total = count > 0, count.sum(1)
    q, prior = tree.q[node], tree.prior[node]
    mass = np.where(tried, prior, 0)
    mean = (mass * q).sum(1) / np.maximum(mass.sum(1), 1e-8)
    mixed = (tree.raw[node] + total * mean) / (1 + total)
    q = np.where(tried, q, mixed[:, None]).astype(np.float32)
    factor = (cfg.c_visit + count.max(1)) * cfg.c_scale
    share = tree.between(node, q) if cfg.rescale == "tree" else _stretched(q, cfg.least_range)
    scaled: Floats = factor[:, None].astype(np.float32) * share
    return scaled


def _stretched(q: Floats, least_range: float) -> Floats:
    """Stretches each row [K, A] to 0..1; one of a smaller range to less."""
    low = q.min(1, keepdims=True)
    width = np.maximum(q.max(1, keepdims=True) - low, np.float32(least_range))
    share: Floats = (q - low) / width
    return share
