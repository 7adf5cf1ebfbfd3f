"""Tree search of many roots at once: one array per fact of a node, no objects.

Each simulation walks down every tree to an action that was not tried, asks the model once for all
of them, and averages what came of it on the way up (Silver et al. 2018; Schrittwieser et al. 2020,
appendix B; arrays in place of nodes as in Danihelka et al. 2022):

    Q(s, a) = r(s, a) + gamma(s, a) v(s'),    v(s) = mean of what came back through s

A factor gamma of 0 ends an episode, a negative one changes sides: what is good there is bad here.
Which action a node takes next changes only when something came back through it, or when the tree's
range of Q did: it is kept, so a walk reads two numbers per level.

Shapes: B roots, A actions, M nodes of a tree (one per simulation, and the root), K nodes of any
trees. A node has one number in all trees together: tree * M + its place; its edges, number * A + a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import torch

from dicore.data import Tree, tree_map

__all__ = ["Leaf", "PlanningModel", "SearchTree", "draw", "grow_tree", "softmax"]

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]
Choice: TypeAlias = Callable[["SearchTree", Ints], Ints]
"""Returns the actions, int64 [K], that nodes [K] take next."""


@attrs.frozen
class Leaf:
    """What a model says of B states, and of the steps to them.

    Args:
        state: The states; arrays or tensors [B, ...].
        logit: float32 [B, A]; what the policy prefers, -inf where an action is forbidden.
        value: float32 [B]; expected return from there, of who acts there.
        reward: float32 [B]; of the step, of who acted. Of roots: not read.
        discount: float32 [B]; factor of the value in the view of who acted: 0 if the episode ended,
            below 0 if another acts now. Of roots: not read.
    """

    state: Tree
    logit: Floats
    value: Floats
    reward: Floats
    discount: Floats


class PlanningModel(Protocol):
    """What a search asks of a model, or of the rules of a game."""

    def step(self, state: Tree, action: Ints) -> Leaf:
        """Returns what comes of actions.

        Args:
            state: States [B, ...] that this model gave; those of ended episodes are among them.
            action: int64 [B]; indices from 0.
        """
        ...


class PUCTLoops(Protocol):
    """Compiled loops of `puct`: the module `kernels`."""

    walk: Callable[..., None]
    climb: Callable[..., None]


class SearchTree:
    """B trees of a search, all of the same number of nodes; the first of each is its root.

    Args:
        root: What the model says of the roots.
        simulations: Number of nodes to come.
        least_range: Least range of Q that is stretched to 0..1.

    Attributes:
        roots: int64 [B]; the numbers of the roots.
        logit: float32 [B * M, A]; of the policy.
        prior: float32 [B * M, A]; its probabilities.
        raw: float32 [B * M]; the model's own value.
        value: float32 [B * M]; mean of what came back through the node.
        visits: int64 [B * M].
        tried: int64 [B * M, A]; visits of the edges.
        q: float32 [B * M, A]; 0 where nobody went.
        size: Nodes of each tree so far.
    """

    def __init__(self, root: Leaf, simulations: int, least_range: float = 0.01) -> None:
        rows, self.actions = root.logit.shape
        self.room = simulations + 1
        nodes, self.size = rows * self.room, 0
        self.roots = np.arange(rows) * self.room
        self.logit = np.zeros((nodes, self.actions), np.float32)
        self.prior = np.zeros_like(self.logit)
        self.q = np.zeros_like(self.logit)
        self.tried = np.zeros(self.logit.shape, np.int64)
        self.raw, self.value = np.zeros(nodes, np.float32), np.zeros(nodes, np.float32)
        self.visits = np.zeros(nodes, np.int64)
        self._child = np.full(nodes * self.actions, -1)
        self._next = np.zeros(nodes, np.int64)
        self._reward, self._discount = np.zeros_like(self.raw), np.zeros_like(self.raw)
        self._least = np.full(rows, np.inf, np.float32)
        self._most = np.full(rows, -np.inf, np.float32)
        self._least_range = np.float32(least_range)
        self._state: Tree = tree_map(lambda leaf: _room(leaf, self.room), root.state)
        self._add(root)

    def _add(self, leaf: Leaf) -> Ints:
        new, place = self.roots + self.size, slice(self.size, None, self.room)
        self.logit[place], self.prior[place] = leaf.logit, softmax(leaf.logit)
        self.raw[place] = self.value[place] = leaf.value
        self._reward[place], self._discount[place] = leaf.reward, leaf.discount
        self.visits[place] = 1
        tree_map(lambda room, each: room.__setitem__(self.size, each), self._state, leaf.state)
        self.size += 1
        return new

    def between(self, node: Ints, q: Floats) -> Floats:
        """Computes where values [K, A] are between the least Q (0) of a tree and its most (1).

        Args:
            node: int64 [K]; nodes of the trees.
            q: The values.
        """
        tree = node // self.room
        least, width = self._least[tree], self._most[tree] - self._least[tree]
        none = np.isinf(least)  # no Q yet
        least[none], width[none] = 0, 1
        share = (q - least[:, None]) / np.maximum(width, self._least_range)[:, None]
        found: Floats = share.clip(0, 1)
        return found

    def walk(self) -> list[tuple[Ints, Ints]]:
        """Walks down each tree to an edge that nobody took.

        Returns:
            Per level, the trees that reach it [K] and the numbers of the edges they take [K].
        """
        tree, node = np.arange(len(self.roots)), self.roots
        levels = []
        while tree.size:
            edge = node * self.actions + self._next[node]
            levels.append((tree, edge))
            following = self._child[edge]
            there = following >= 0
            tree, node = tree[there], following[there]
        return levels

    def states(self, node: Ints) -> Tree:
        """Returns the states of one node of each tree, [B, ...]."""
        tree, place = np.divmod(node, self.room)
        return tree_map(lambda room: _taken(room, place, tree), self._state)

    def grow(self, levels: list[tuple[Ints, Ints]], last: Ints, leaf: Leaf) -> Ints:
        """Adds a node to each tree and counts its value on the way up.

        Args:
            levels: The way down.
            last: int64 [B]; the last edge of each tree.
            leaf: What the model says of the new nodes.

        Returns:
            The nodes whose next action may have changed.
        """
        new = self._add(leaf)
        self._child[last] = new
        back, values = np.array(leaf.value, np.float32), []
        for tree, edge in reversed(levels):
            below = self._child[edge]
            value = self._reward[below] + self._discount[below] * back[tree]
            back[tree] = value
            values.append(value)
        edge = np.concatenate([edge for _, edge in reversed(levels)])
        node = edge // self.actions
        count = self.visits[node] + 1
        self.visits[node] = count
        self.value[node] += (np.concatenate(values) - self.value[node]) / count.astype(np.float32)
        below = self._child[edge]
        q = self._reward[below] + self._discount[below] * self.value[below]
        self.q.reshape(-1)[edge] = q
        self.tried.reshape(-1)[edge] += 1
        return self._changed(node, new, q)

    def _changed(self, node: Ints, new: Ints, q: Floats) -> Ints:
        """Notes the range of Q; returns the nodes on the way, or all of a tree of another range.

        What would come after the end of an episode has no Q.
        """
        tree = node // self.room
        goes_on = (self._discount[node] != 0) | (node == self.roots[tree])
        wider = goes_on & ((q < self._least[tree]) | (q > self._most[tree]))
        if not wider.any():
            return np.concatenate([new, node])
        np.minimum.at(self._least, tree[goes_on], q[goes_on])
        np.maximum.at(self._most, tree[goes_on], q[goes_on])
        whole = np.zeros(len(self.roots), bool)
        whole[tree[wider]] = True
        every = self.roots[whole, None] + np.arange(self.size)
        return np.concatenate([new[~whole], node[~whole[tree]], every.reshape(-1)])

    def grow_by_puct(
        self, model: PlanningModel, simulations: int, factor: Floats, loops: PUCTLoops
    ) -> None:
        """Adds nodes by the rule of `puct`, with compiled loops; roots know what they take next.

        Args:
            model: Steps states.
            simulations: Nodes to be added to each tree.
            factor: float32; of the policy, by the visits of a node.
            loops: Compiled by numba.
        """
        path, length = np.zeros((len(self.roots), simulations), np.int64), np.zeros_like(self.roots)
        for _ in range(simulations):
            loops.walk(self.roots, self._next, self._child, self.actions, path, length)
            last = path[np.arange(len(path)), length - 1]
            node, action = np.divmod(last, self.actions)
            self._child[last] = self._add(model.step(self.states(node), action))
            loops.climb(
                self.roots, self.size, path, length, self._next, self._child, self._reward,
                self._discount, self.value, self.visits, self.q, self.tried, self.prior,
                self._least, self._most, self._least_range, factor,
            )  # fmt: skip

    def take_next(self, node: Ints, action: Ints) -> None:
        """Sets the actions that nodes [K] take next."""
        self._next[node] = action


def grow_tree(
    tree: SearchTree,
    model: PlanningModel,
    simulations: int,
    choose: Choice,
    choose_root: Choice | None = None,
) -> None:
    """Adds nodes to trees.

    Args:
        tree: Trees of B roots.
        model: Steps states.
        simulations: Nodes to be added to each tree.
        choose: Chooses actions.
        choose_root: Chooses actions of roots before each simulation; None: `choose` does.
    """
    last, roots = np.zeros_like(tree.roots), tree.roots
    tree.take_next(roots, choose(tree, roots))
    for number in range(simulations):
        if choose_root is not None:
            tree.take_next(roots, choose_root(tree, roots))
        levels = tree.walk()
        for row, edge in levels:
            last[row] = edge
        node, action = np.divmod(last, tree.actions)
        changed = tree.grow(levels, last, model.step(tree.states(node), action))
        if number + 1 < simulations:
            tree.take_next(changed, choose(tree, changed))


def softmax(logit: Floats) -> Floats:
    """Computes probabilities [..., A]; -inf has 0."""
    powers = np.exp(logit - logit.max(-1, keepdims=True))
    share: Floats = powers / powers.sum(-1, keepdims=True)
    return share


def draw(rng: np.random.Generator, share: Floats) -> Ints:
    """Draws an index of each row of probabilities [B, A]."""
    least = rng.random(len(share))
    above = share.cumsum(1, dtype=np.float64)
    index: Ints = (above <= (least * above[:, -1])[:, None]).sum(1)
    return index


def _room(leaf: Tree, nodes: int) -> Tree:
    """Returns room for the states of all nodes, [M, B, ...], of the kind of a leaf."""
    if isinstance(leaf, np.ndarray):
        return np.zeros((nodes, *leaf.shape), leaf.dtype)
    return leaf.new_zeros((nodes, *leaf.shape))


def _taken(room: Tree, place: Ints, tree: Ints) -> Tree:
    """Returns the states [B, ...] of places; NumPy takes those of tensors faster than torch."""
    if isinstance(room, torch.Tensor) and room.device.type == "cpu":
        return torch.from_numpy(room.numpy()[place, tree])
    return room[place, tree]
