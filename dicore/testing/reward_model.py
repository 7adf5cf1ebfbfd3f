"""The contract of reward models (`IRewardModel`): rows in, the same rows with another reward out.

Shapes: B rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.interfaces.reward_model import IRewardModel, SupportsExpertData
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore.testing.compare import array, copied, difference
from dicore.testing.suite import Suite, expect

__all__ = ["RewardModelContract"]

_ROWS = 64


class RewardModelContract(Suite):
    """Inherit it, override `make` (and `data`), and every check of a reward model is collected."""

    observation_space = Box(-10.0, 10.0, (4,), np.float32)
    action_space = Discrete(3)
    rounds = 3
    """Calls of `train` after which something must have been learned."""

    def make(self, seed: int = 0) -> Any:
        """Returns a reward model (`IRewardModel`); one seed gives one model."""
        seed_everything(seed)
        ctx = BuildContext(
            observation_space=self.observation_space, action_space=self.action_space, seed=seed
        )
        return self.registered.example().build(ctx)

    def data(self, seed: int = 0, count: int = _ROWS) -> Batch:
        """Returns rows as a collector would, float32 [B, 4] among them; one seed, one batch."""
        rng = np.random.default_rng(seed)
        obs = rng.normal(size=(count + 1, 4)).astype(np.float32)
        return Batch({
            "obs": obs[:-1].copy(), "next_obs": obs[1:].copy(),
            "action": rng.integers(0, 3, count),
            "reward": rng.normal(size=count).astype(np.float32),
            "done": (np.arange(count) % 8 == 7).astype(np.float32),
        })  # fmt: skip

    def test_has_the_methods(self) -> None:
        """It satisfies `IRewardModel`."""
        model = self._made()
        expect(isinstance(model, IRewardModel), f"{type(model).__name__} lacks methods")

    def test_estimates_a_reward_for_each_row(self) -> None:
        """There are as many rows as before, each with a finite float32 reward."""
        model = self._trained()
        for count in (_ROWS, 3, 1):
            rows = model.estimate(self.data(1, count))
            expect(isinstance(rows, Batch), f"estimate returns {type(rows).__name__}, no Batch")
            expect(len(rows) == count, f"{count} rows went in, {len(rows)} came out")
            reward = array(rows["reward"])
            right = reward.dtype == np.float32 and reward.shape == (count,)
            expect(right, f"reward is {reward.dtype}{list(reward.shape)}, not float32[{count}]")
            expect(np.isfinite(reward).all(), "a reward is not finite")

    def test_estimates_before_it_has_learned(self) -> None:
        """A model that has seen nothing estimates as well."""
        reward = _rewards(self._made(), self.data())
        expect(np.isfinite(reward).all(), "a reward is not finite")

    def test_changes_nothing_but_the_reward(self) -> None:
        """Every other column is as it was."""
        data = self.data(1)
        rows = self._trained().estimate(data)
        for key in data.columns:
            expect(key in rows.columns, f"column '{key}' is gone")
            if key != "reward":
                wrong = difference(array(rows[key]), array(data[key]))
                expect(not wrong, f"column '{key}' has changed: {wrong}")

    def test_leaves_its_input_alone(self) -> None:
        """What goes in stays as it was, also when the rewards that came out are changed."""
        model, data = self._trained(), self.data(1)
        before = copied(dict(data.items()))
        rows = model.estimate(data)
        wrong = difference(dict(data.items()), before)
        expect(not wrong, f"estimate changed its input: {wrong}")
        array(rows["reward"])[...] = 7.0
        wrong = difference(dict(data.items()), before)
        expect(
            not wrong, f"the rewards that came out are the memory of those that went in: {wrong}"
        )

    def test_estimates_alike_twice(self) -> None:
        """Estimating changes nothing in the model."""
        model, data = self._trained(), self.data(1)
        wrong = difference(_rewards(model, data), _rewards(model, data))
        expect(not wrong, f"a second estimate of the same rows differs: {wrong}")

    def test_learns_from_what_it_took(self) -> None:
        """Training on rows changes what it estimates of them."""
        model = self._made()
        before = _rewards(model, self.data())
        self._train(model)
        learned = difference(before, _rewards(model, self.data()))
        expect(learned, f"after {self.rounds} rounds of training it estimates as before")

    def test_learns_in_train_alone(self) -> None:
        """Taking and forgetting rows changes no estimate."""
        model = self._trained()
        before = _rewards(model, self.data(1))
        model.collect_data(self.data(2))
        wrong = difference(before, _rewards(model, self.data(1)))
        expect(not wrong, f"collect_data changed an estimate: {wrong}")
        model.clear_data()
        wrong = difference(before, _rewards(model, self.data(1)))
        expect(not wrong, f"clear_data changed an estimate: {wrong}")

    def test_keeps_a_copy_of_what_it_took(self) -> None:
        """Rows that are overwritten after they were taken are learned from as they were."""
        one, other = self._made(), self._made()
        data = self.data(0)
        one.collect_data(data)
        for column in data.columns.values():
            column[...] = 0
        other.collect_data(self.data(0))
        for model in (one, other):
            self._fit(model)
        wrong = difference(*(_rewards(model, self.data(1)) for model in (one, other)))
        expect(not wrong, f"overwriting the rows changed what was learned: {wrong}")

    def test_without_rows_it_learns_nothing(self) -> None:
        """`train` without rows, at the beginning or after `clear_data`, does nothing."""
        fresh, trained = self._made(), self._trained()
        trained.clear_data()
        for model, when in ((fresh, "before any were taken"), (trained, "after clear_data")):
            before = _rewards(model, self.data(1))
            try:
                self._fit(model)
            except Exception as error:
                expect(False, f"train {when} raised {error!r}")
            wrong = difference(before, _rewards(model, self.data(1)))
            expect(not wrong, f"train {when} changed an estimate: {wrong}")

    def test_same_seed_same_model(self) -> None:
        """One seed and the same rows give the same rewards."""
        one, other = self._trained(), self._trained()
        wrong = difference(_rewards(one, self.data(1)), _rewards(other, self.data(1)))
        expect(not wrong, f"one seed gave two models: {wrong}")

    def test_state_round_trip(self) -> None:
        """A model that loads another's state estimates as it does."""
        model, twin = self._trained(), self._made(seed=1)
        self._train(twin, seed=5)
        twin.load_state_dict(copied(model.state_dict()))
        wrong = difference(_rewards(model, self.data(1)), _rewards(twin, self.data(1)))
        expect(not wrong, f"with the same state it estimates otherwise: {wrong}")

    def _made(self, seed: int = 0) -> Any:
        model = self.make(seed)
        if isinstance(model, SupportsExpertData):
            model.load_expert_data(self.data(99))
        return model

    def _trained(self) -> Any:
        model = self._made()
        self._train(model)
        return model

    def _train(self, model: Any, seed: int = 0) -> None:
        model.collect_data(self.data(seed))
        self._fit(model)

    def _fit(self, model: Any) -> None:
        if self.rounds < 1:
            raise UsageError("rounds must be >= 1")
        for _ in range(self.rounds):
            model.train()


def _rewards(model: Any, data: Batch) -> npt.NDArray[Any]:
    return array(model.estimate(data)["reward"]).copy()
