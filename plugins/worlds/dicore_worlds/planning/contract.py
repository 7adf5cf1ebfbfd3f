"""The contract of planners, held by those of other packages too.

The tested model is a small decision process whose values are known: 5 states, 3 actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.testing.suite import Suite, expect, expect_members
from dicore_worlds.planning.interface import IPlanner, Plan
from dicore_worlds.planning.tree import Floats, Ints, Leaf

__all__ = ["PlannerContract", "SmallModel"]

_GAMMA = 0.9


class SmallModel:
    """Knows 5 states; the first action of state 4 ends the episode.

    Args:
        seed: Of its rewards and of what leads where.
        forbidden: An action that is forbidden in all states; None: none.
    """

    def __init__(self, seed: int = 0, forbidden: int | None = None) -> None:
        rng = np.random.default_rng(seed)
        self.following = rng.integers(0, 5, (5, 3))
        self.reward = rng.normal(size=(5, 3)).astype(np.float32)
        self.discount = np.full((5, 3), _GAMMA, np.float32)
        self.discount[4, 0] = 0
        self.logit = np.zeros((5, 3), np.float32)
        if forbidden is not None:
            self.logit[:, forbidden] = -np.inf
            self.reward[:, forbidden] = 100
        q = np.zeros((5, 3))
        for _ in range(300):
            best = np.where(self.logit > -np.inf, q, -np.inf).max(1)
            q = self.reward + self.discount * best[self.following]
        self.q = np.where(self.logit > -np.inf, q, -np.inf)

    def leaf(self, state: Ints, reward: Any = 0, discount: Any = 0) -> Leaf:
        """Returns what is known of states [B]: the values are those of the best actions."""
        full = np.zeros(len(state), np.float32)
        value: Floats = self.q.max(1)[state].astype(np.float32)
        return Leaf(state, self.logit[state], value, full + reward, full + discount)

    def step(self, state: Ints, action: Ints) -> Leaf:
        """Returns what comes of actions [B]."""
        after = self.following[state, action]
        return self.leaf(after, self.reward[state, action], self.discount[state, action])


class PlannerContract(Suite):
    """Conformance suite of planners: subclass it and override `make`."""

    def make(self) -> IPlanner:
        """Returns the planner."""
        made: IPlanner = self.registered.build()
        return made

    def plan(
        self, model: SmallModel, *, explore: bool = False, states: Any = range(5), seed: int = 0
    ) -> Plan:
        """Plans from states."""
        root = model.leaf(np.array([*states]))
        return self.make().plan(model, root, np.random.default_rng(seed), explore=explore)

    def test_has_the_members_of_the_protocol(self) -> None:
        """It has all methods of the Protocol."""
        expect_members(self.make(), IPlanner)

    def test_finds_the_best_action(self) -> None:
        """With a model that knows the values it takes good actions, in 10 processes."""
        regret, chance = 0.0, 0.0
        for seed in range(10):
            model = SmallModel(seed)
            best = model.q.max(1)
            regret += (best - model.q[np.arange(5), self.plan(model).action]).sum()
            chance += (best - model.q.mean(1)).sum()
        expect(
            regret < chance / 4,
            f"its actions lose {regret:.3g}, those drawn at random {chance:.3g}",
        )

    def test_estimates_the_value(self) -> None:
        """With exact values below, a state's value is not above that of its best action."""
        model = SmallModel(1)
        value, best = self.plan(model).value, model.q.max(1)
        expect(bool((value <= best + 1e-3).all()), f"{value} are above the best, {best}")
        expect(bool((value >= best - 6).all()), f"{value} are far below the best, {best}")

    def test_policies_are_probabilities(self) -> None:
        """What it says the policy should learn sums to 1, and none is below 0."""
        policy = self.plan(SmallModel(2), explore=True).policy
        expect(policy.shape == (5, 3), f"expected policies [5, 3], got {list(policy.shape)}")
        expect(np.allclose(policy.sum(1), 1, atol=1e-5), f"they sum to {policy.sum(1)}")
        expect(bool((policy >= 0).all()), "one is below 0")

    def test_never_takes_a_forbidden_action(self) -> None:
        """An action of logit -inf is not taken and has no probability, whatever it would pay."""
        for seed in range(10):
            plan = self.plan(SmallModel(3, forbidden=1), explore=True, seed=seed)
            expect(bool((plan.action != 1).all()), "a forbidden action is taken")
            expect(bool((plan.policy[:, 1] == 0).all()), "a forbidden action has probability")

    def test_plans_each_state_by_itself(self) -> None:
        """Without exploring, a state has the same plan alone and among others."""
        model = SmallModel(4)
        every = self.plan(model)
        for state in range(5):
            alone = self.plan(model, states=[state])
            expect(alone.action[0] == every.action[state], "it takes another action alone")
            same = np.allclose(alone.policy[0], every.policy[state], atol=1e-5)
            expect(same, "it learns another policy alone")

    def test_repeats_with_the_same_random_numbers(self) -> None:
        """With equal generators it explores in the same way."""
        first, second = (self.plan(SmallModel(5), explore=True, seed=7) for _ in range(2))
        expect(bool((first.action == second.action).all()), "the actions differ")
        expect(bool((first.policy == second.policy).all()), "the policies differ")

    def test_explores(self) -> None:
        """Exploring takes more than one action in a state where all are equal."""
        model = SmallModel(6)
        model.reward[:], model.q[:] = 0, 0
        taken = {int(self.plan(model, explore=True, seed=s).action[0]) for s in range(30)}
        expect(len(taken) > 1, "it takes the same action 30 times")
