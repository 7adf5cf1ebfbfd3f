"""Trees as arrays against a search that keeps a node as an object, and planners by hand."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from dicore_worlds.planning import puct
from dicore_worlds.planning.config import GumbelConfig, PUCTConfig
from dicore_worlds.planning.gumbel import Gumbel, rounds
from dicore_worlds.planning.puct import PUCT
from dicore_worlds.planning.tree import Leaf, SearchTree, draw, softmax


class Guessing:
    """7 states, 4 actions; logits and values are guesses, some steps end or change sides."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.following = rng.integers(0, 7, (7, 4))
        self.reward = rng.normal(size=(7, 4)).astype(np.float32)
        self.discount = rng.choice([0.95, 0, -0.95], (7, 4), p=[0.6, 0.2, 0.2]).astype(np.float32)
        self.logit = rng.normal(size=(7, 4)).astype(np.float32)
        self.logit[2, 1] = -np.inf
        self.value = rng.normal(size=7).astype(np.float32)

    def leaf(self, state: Any, reward: Any = 0, discount: Any = 0) -> Leaf:
        none = np.zeros(len(state), np.float32)
        return Leaf(state, self.logit[state], self.value[state], none + reward, none + discount)

    def step(self, state: Any, action: Any) -> Leaf:
        after = self.following[state, action]
        return self.leaf(after, self.reward[state, action], self.discount[state, action])


class Node:
    def __init__(self, model: Guessing, state: int) -> None:
        self.state, self.prior = state, softmax(model.logit[state])
        self.children: dict[int, Node] = {}
        self.sum, self.visits = float(model.value[state]), 1


def search_by_objects(model: Guessing, state: int, cfg: PUCTConfig) -> Node:
    """Searches as appendix B of the paper writes it down."""
    root, seen = Node(model, state), []

    def q(node: Node, action: int) -> float:
        child = node.children[action]
        here = node.state, action
        return float(model.reward[here] + model.discount[here] * child.sum / child.visits)

    def score(node: Node, action: int) -> float:
        if not node.prior[action]:
            return -np.inf
        child = node.children.get(action)
        visits = 0 if child is None else child.visits
        factor = cfg.c1 + np.log((node.visits + cfg.c2 + 1) / cfg.c2)
        score = node.prior[action] * np.sqrt(node.visits) / (1 + visits) * factor
        if child is not None:
            width = max(max(seen) - min(seen), cfg.least_range)
            score += (q(node, action) - min(seen)) / width
        return float(score)

    for _ in range(cfg.simulations):
        node, path = root, []
        while True:
            action = max(range(4), key=lambda a: (score(node, a), -a))
            path.append((node, action))
            if action not in node.children:
                break
            node = node.children[action]
        new = Node(model, int(model.following[node.state, action]))
        node.children[action] = new
        back = new.sum
        over = [False, *(model.discount[node.state, a] == 0 for node, a in path[:-1])]
        for (node, action), ended in zip(reversed(path), reversed(over), strict=True):
            here = node.state, action
            back = model.reward[here] + model.discount[here] * back
            if not ended:  # there is no Q after the end of an episode
                seen.append(q(node, action))
            node.sum += back
            node.visits += 1
    return root


@pytest.mark.parametrize("seed", range(5))
def test_arrays_search_as_objects_do(seed: int) -> None:
    model, cfg = Guessing(seed), PUCTConfig(simulations=60)
    states = np.arange(7)
    plan = PUCT(cfg).plan(model, model.leaf(states), np.random.default_rng(0), explore=False)
    for state in states:
        root = search_by_objects(model, int(state), cfg)
        visits = [root.children[a].visits if a in root.children else 0 for a in range(4)]
        np.testing.assert_array_equal(np.round(plan.policy[state] * 60), visits)
        assert plan.value[state] == pytest.approx(root.sum / root.visits, abs=1e-4)


@pytest.mark.parametrize("simulated", [-np.inf, np.inf], ids=["numpy", "compiled"])
def test_what_follows_the_end_of_an_episode_widens_no_range(
    simulated: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step ends the episode; the reward of a step after it would be 100."""

    class Ending(Guessing):
        def step(self, state: Any, action: Any) -> Leaf:
            reward = np.where(state == 0, action / 10, 100.0)
            return self.leaf(np.ones_like(state), reward, 0)

    if simulated > 0:
        pytest.importorskip("numba")
    monkeypatch.setattr(puct, "_simulated", simulated)
    trees: list[SearchTree] = []
    monkeypatch.setattr(
        puct, "SearchTree", lambda *each: trees.append(SearchTree(*each)) or trees[-1]
    )
    model = Ending(0)
    PUCT(PUCTConfig(simulations=40)).plan(
        model, model.leaf(np.zeros(2, np.int64)), np.random.default_rng(0), explore=False
    )
    (tree,) = trees
    assert tree.q.max() == 100
    share = tree.between(tree.roots, np.array([[0.0, 0.3]] * 2, np.float32))
    np.testing.assert_allclose(share, [[0, 1]] * 2)


@pytest.mark.parametrize("seed", range(4))
def test_compiled_loops_search_to_the_last_bit_as_numpy_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    model, cfg = Guessing(seed), PUCTConfig(simulations=70)
    states, plans = np.random.default_rng(seed).integers(0, 7, 40), []
    for simulated in (-np.inf, np.inf):  # NumPy alone, then as after many searches
        monkeypatch.setattr(puct, "_simulated", simulated)
        root = model.leaf(states)
        plans.append(PUCT(cfg).plan(model, root, np.random.default_rng(0), explore=True))
    for name in ("action", "policy", "value"):
        np.testing.assert_array_equal(*(getattr(plan, name) for plan in plans))


def test_searches_go_on_by_numpy_if_numba_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(puct, "_simulated", np.inf)
    monkeypatch.setitem(sys.modules, "dicore_worlds.planning.kernels", None)
    model, planner = Guessing(0), PUCT(PUCTConfig(simulations=5))
    for _ in range(2):
        planner.plan(model, model.leaf(np.arange(7)), np.random.default_rng(0), explore=False)
    assert caplog.text.count("numba fails") == 1


def test_values_count_on_the_way_up() -> None:
    """Two steps by hand: reward 1, then 2 and the other side's turn, whose value is 4."""
    leaf = Leaf(
        np.zeros(1), np.zeros((1, 2), np.float32), np.full(1, 5, np.float32),
        np.zeros(1, np.float32), np.zeros(1, np.float32),
    )  # fmt: skip
    tree = SearchTree(leaf, 2)
    first = Leaf(leaf.state, leaf.logit, np.float32([3]), np.float32([1]), np.float32([0.5]))
    tree.grow(tree.walk(), np.array([0]), first)
    assert tree.value[0] == (5 + 1 + 0.5 * 3) / 2
    tree.take_next(tree.roots + 1, np.array([1]))
    levels = tree.walk()
    assert [edge.tolist() for _, edge in levels] == [[0], [3]]
    second = Leaf(leaf.state, leaf.logit, np.float32([4]), np.float32([2]), np.float32([-1]))
    tree.grow(levels, np.array([3]), second)
    below = (3 + (2 - 4)) / 2
    assert tree.value[1] == below
    assert tree.q[0, 0] == 1 + 0.5 * below
    assert tree.value[0] == pytest.approx((5 + 2.5 + 1 + 0.5 * (2 - 4)) / 3)
    assert tree.visits.tolist() == [3, 2, 1]


def test_a_phase_of_halving_tries_each_action_as_often() -> None:
    assert rounds(4, 16).tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 2 + [4] * 2 + [5] * 2
    assert rounds(1, 3).tolist() == [0, 1, 2]
    assert rounds(3, 2).tolist() == [0, 0]


def test_two_simulations_improve_a_policy() -> None:
    """The policy that is learned is better than the old one by the model's own values."""
    model = Guessing(3)
    states = np.arange(7)
    model.value[:] = 0
    model.discount[:] = 0
    planner = Gumbel(GumbelConfig(simulations=2, max_actions=2, c_scale=1.0))
    old = softmax(model.logit)
    before, after = np.zeros(7), np.zeros(7)
    for seed in range(50):
        plan = planner.plan(model, model.leaf(states), np.random.default_rng(seed), explore=True)
        before += (old * model.reward).sum(1)
        after += model.reward[states, plan.action]
    assert (after > before).mean() > 0.7
    assert after.sum() > before.sum()


class Late:
    """The first step pays 1 or 0.9, each later one 10 or 0: little depends on the first."""

    def leaf(self, depth: Any, reward: Any) -> Leaf:
        full = np.zeros(len(depth), np.float32)
        return Leaf(depth, np.zeros((len(depth), 2), np.float32), full, full + reward, full + 1)

    def step(self, state: Any, action: Any) -> Leaf:
        late = 10 * (action == 0)
        return self.leaf(state + 1, np.where(state == 0, 1 - 0.1 * action, late))


def test_q_values_are_stretched_by_tree_or_by_node() -> None:
    """Two actions differ by 0.1 in a tree whose values differ by 10 and more."""
    model, chosen = Late(), []
    for rescale in ("tree", "node"):
        planner = Gumbel(GumbelConfig(simulations=16, rescale=rescale))
        root = model.leaf(np.zeros(1, np.int64), 0)
        plan = planner.plan(model, root, np.random.default_rng(0), explore=False)
        chosen.append(plan.policy[0, 0])
    assert 0.5 <= chosen[0] < 0.6
    assert chosen[1] > 0.95


def test_draws_follow_their_probabilities() -> None:
    rng = np.random.default_rng(0)
    share = np.tile(np.float32([0, 0.25, 0.75, 0]), (4000, 1))
    counts = np.bincount(draw(rng, share), minlength=4)
    assert counts[0] == counts[3] == 0
    assert abs(counts[1] - 1000) < 100
