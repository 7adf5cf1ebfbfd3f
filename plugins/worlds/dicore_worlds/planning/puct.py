"""Monte-Carlo tree search by PUCT (Schrittwieser et al. 2020, MuZero, appendix B).

Below the root and at it, the action taken next is

    argmax_a q(s, a) + P(s, a) sqrt(N(s)) / (1 + N(s, a)) (c1 + log((N(s) + c2 + 1) / c2))

with q the Q values between the least (0) and the most (1) that the tree has seen, 0 for an action
that was not tried. At the root P is mixed with Dirichlet noise when exploring. What is learned are
the shares of the visits of the root's actions; what is done is drawn from N^(1/temperature).
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from dicore_worlds.planning.config import PUCTConfig
from dicore_worlds.planning.interface import Plan
from dicore_worlds.planning.tree import (
    Floats,
    Ints,
    Leaf,
    PlanningModel,
    PUCTLoops,
    SearchTree,
    draw,
    grow_tree,
    softmax,
)

__all__ = ["PUCT"]

_COMPILE_AFTER = 5_000
"""Simulations by NumPy, about a second, after which numba is imported if it is installed."""
_simulated: float = 0


class PUCT:
    """Searches by PUCT, with visits as what is learned."""

    def __init__(self, cfg: PUCTConfig) -> None:
        self._cfg = cfg
        visits = np.arange(cfg.simulations + 2)
        factor = np.sqrt(visits) * (cfg.c1 + np.log((visits + cfg.c2 + 1) / cfg.c2))
        self._factor: Floats = factor.astype(np.float32)

    def plan(
        self,
        model: PlanningModel,
        root: Leaf,
        rng: np.random.Generator,
        *,
        explore: bool,
        temperature: float = 1.0,
    ) -> Plan:
        """Searches; see the contract."""
        cfg = self._cfg
        tree = SearchTree(root, cfg.simulations, cfg.least_range)
        if explore and cfg.noise_share:
            noise = _dirichlet(rng, cfg.noise_alpha, root.logit)
            tree.prior[tree.roots] += cfg.noise_share * (noise - tree.prior[tree.roots])
        loops = _loops(cfg.simulations)
        if loops is None:
            grow_tree(tree, model, cfg.simulations, self._choose)
        else:
            tree.take_next(tree.roots, self._choose(tree, tree.roots))
            tree.grow_by_puct(model, cfg.simulations, self._factor, loops)
        visits = tree.tried[tree.roots].astype(np.float32)
        if explore and temperature:
            with np.errstate(divide="ignore"):
                heat: Floats = (np.log(visits) / temperature).astype(np.float32)
            action = draw(rng, softmax(heat))
        else:  # of equal visits, what the policy prefers
            action = np.where(visits > 0, visits + tree.prior[tree.roots], 0).argmax(1)
        policy = visits / visits.sum(1, keepdims=True)
        return Plan(action, policy, tree.value[tree.roots])

    def _choose(self, tree: SearchTree, node: Ints) -> Ints:
        prior, tried = tree.prior[node], tree.tried[node]
        score = tree.between(node, tree.q[node])
        score[tried == 0] = 0
        score += prior * self._factor[tree.visits[node], None] / (1 + tried)
        score[prior == 0] = -np.inf
        action: Ints = score.argmax(1)
        return action


def _dirichlet(rng: np.random.Generator, alpha: float, logit: Floats) -> Floats:
    """Draws noise [B, A] that sums to 1 over what is allowed."""
    noise = rng.standard_gamma(alpha, logit.shape) + 1e-9
    noise[logit == -np.inf] = 0
    share: Floats = (noise / noise.sum(1, keepdims=True)).astype(np.float32)
    return share


def _loops(simulations: int) -> PUCTLoops | None:
    """Returns the compiled loops; None: NumPy does it, with the same results."""
    global _simulated  # noqa: PLW0603 - the results do not depend on it
    if _simulated < _COMPILE_AFTER:
        _simulated += simulations
        return None
    if find_spec("numba") is None:
        return None
    try:
        loops: PUCTLoops = import_module("dicore_worlds.planning.kernels")
    except Exception as error:  # numba does not fit NumPy, or cannot write its cache
        logging.getLogger(__name__).warning("searches by NumPy, numba fails: %s", error)
        _simulated = -float("inf")
        return None
    return loops
