"""Simulations per second of a tree search with a network of 64 units, by roots: PUCT, 50 of them.

python -m benchmarks.tree_search

Beside a search whose trees are Python objects, one per node and one tree after the other, as peers
write it: with the network in torch, as theirs, and with our model of a network, so that only trees
differ. All ask the network once per simulation for all roots. `trees` is without a network. CPU
time of one thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measure import contest
from dicore_worlds import PUCTConfig
from dicore_worlds.models.muzero import MuZeroNet
from dicore_worlds.planning.network import NetworkModel
from dicore_worlds.planning.puct import PUCT
from dicore_worlds.planning.tree import Floats, Ints, Leaf, PlanningModel

ROOTS, SIMULATIONS, ACTIONS, GAMMA = (1, 8, 64), 50, 6, 0.997


class Node:
    """A state of a tree, or an action that was not tried yet."""

    def __init__(self, prior: float) -> None:
        self.prior, self.visits, self.sum, self.reward = prior, 0, 0.0, 0.0
        self.children: list[Node] = []
        self.place = (0, 0)

    def expand(self, place: tuple[int, int], reward: float, logit: list[float]) -> None:
        """Adds its actions."""
        self.place, self.reward = place, reward
        most = max(logit)
        powers = [math.exp(each - most) for each in logit]
        total = sum(powers)
        self.children = [Node(each / total) for each in powers]


class Tree:
    """One tree of nodes, and the range of its Q values."""

    def __init__(self, logit: list[float], value: float, number: int) -> None:
        self.root, self.least, self.most = Node(1.0), math.inf, -math.inf
        self.root.expand((0, number), 0.0, logit)
        self.root.visits, self.root.sum = 1, value

    def walk(self) -> tuple[list[Node], int]:
        """Returns the nodes down to one that is new, and the last action."""
        node, path, action = self.root, [self.root], 0
        while node.children:
            factor = math.sqrt(node.visits) * (1.25 + math.log((node.visits + 19_653) / 19_652))
            best, width = -math.inf, max(self.most - self.least, 0.01)
            for number, child in enumerate(node.children):
                score = child.prior * factor / (1 + child.visits)
                if child.visits:
                    q = child.reward + GAMMA * child.sum / child.visits
                    score += (q - self.least) / width
                if score > best:
                    best, action = score, number
            node = node.children[action]
            path.append(node)
        return path, action

    def back(self, path: list[Node], value: float) -> None:
        """Counts a value on the way up."""
        for node in reversed(path):
            node.visits += 1
            node.sum += value
            if node is not self.root:
                q = node.reward + GAMMA * node.sum / node.visits
                self.least, self.most = min(self.least, q), max(self.most, q)
            value = node.reward + GAMMA * value


def search_nodes(model: PlanningModel, root: Leaf) -> list[list[int]]:
    """Searches from all roots with objects; returns the visits of their actions."""
    rows = zip(root.logit.tolist(), root.value.tolist(), strict=True)
    trees = [Tree(*row, number) for number, row in enumerate(rows)]
    states = [root.state]
    for number in range(SIMULATIONS):
        walks = [tree.walk() for tree in trees]
        places = [path[-2].place for path, _ in walks]
        state = torch.stack([states[depth][row] for depth, row in places])
        leaf = model.step(state, np.array([action for _, action in walks]))
        states.append(leaf.state)
        logits, values, rewards = leaf.logit.tolist(), leaf.value.tolist(), leaf.reward.tolist()
        for row, (path, _) in enumerate(walks):
            path[-1].expand((number + 1, row), rewards[row], logits[row])
            trees[row].back(path, values[row])
    return [[child.visits for child in tree.root.children] for tree in trees]


class InTorch:
    """Steps states by a network in torch."""

    def __init__(self, net: MuZeroNet) -> None:
        self._net = net

    @torch.no_grad()
    def step(self, state: torch.Tensor, action: Ints) -> Leaf:
        """Returns what comes of actions."""
        after, reward = self._net.follow(state, torch.from_numpy(action))
        logit, value = self._net.predict(after)
        numbers = self._net.mean(torch.stack([reward, value])).numpy()
        discount = np.full(len(action), GAMMA, np.float32)
        return Leaf(after, logit.numpy(), numbers[1], numbers[0], discount)


class Drawn:
    """Answers with numbers drawn before: trees alone are measured."""

    def __init__(self, roots: int) -> None:
        rng = np.random.default_rng(0)
        self._state = torch.zeros(roots, 64)
        self._logit: Floats = rng.normal(size=(97, roots, ACTIONS)).astype(np.float32)
        self._number: Floats = rng.normal(size=(97, 2, roots)).astype(np.float32)
        self._discount: Floats = np.full(roots, GAMMA, np.float32)
        self._turn = 0

    def step(self, state: torch.Tensor, action: Ints) -> Leaf:
        """Returns the next numbers, whatever was done."""
        self._turn = (self._turn + 1) % 97
        value, reward = self._number[self._turn]
        return Leaf(self._state, self._logit[self._turn], value, reward, self._discount)


@torch.no_grad()
def first(net: MuZeroNet, roots: int) -> Leaf:
    """Returns roots of drawn observations."""
    state = net.represent(torch.randn(roots, 8))
    logit, value = net.predict(state)
    none = np.zeros(roots, np.float32)
    return Leaf(state, logit.numpy(), net.mean(value).numpy(), none, none)


def main() -> None:
    """Prints the rates and ratios."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = MuZeroNet(8, ACTIONS, latent=64, units=64)
    for parameter in net.parameters():  # else all rewards and values are equal
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    planner, rng = PUCT(PUCTConfig(simulations=SIMULATIONS)), np.random.default_rng(0)
    for _ in range(150):  # loops are compiled after some searches
        planner.plan(Drawn(1), first(net, 1), rng, explore=False)
    for roots in ROOTS:
        root, drawn, units = first(net, roots), Drawn(roots), float(roots * SIMULATIONS)

        def ours(model: PlanningModel, root: Leaf = root) -> Callable[[], object]:
            return lambda: planner.plan(model, root, rng, explore=False)

        contest(
            f"search of {roots} roots",
            {
                "dicore": lambda root=root: planner.plan(
                    NetworkModel(net, GAMMA), root, rng, explore=False
                ),
                "nodes, torch": lambda root=root: search_nodes(InTorch(net), root),
                "nodes": lambda root=root: search_nodes(NetworkModel(net, GAMMA), root),
            },
            units,
            "simulations/s",
            against={"nodes, torch": 5.0, "nodes": 1.0},
            clock=time.process_time,
        )
        contest(
            f"trees of {roots} roots",
            {
                "dicore": ours(drawn),
                "nodes": lambda root=root, drawn=drawn: search_nodes(drawn, root),
            },
            units,
            "simulations/s",
            against={"nodes": 1.0},
            clock=time.process_time,
        )


if __name__ == "__main__":
    main()
