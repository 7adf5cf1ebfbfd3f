"""The contract of reward models (`IRewardModel`): they return samples with another reward.

Shapes: B rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from dicore.data import Batch, tree_map
from dicore.data.tree import Array
from dicore.errors import DicoreError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.reward_model import IRewardModel, SupportsExpertData
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore.testing.compare import array, copied, difference
from dicore.testing.suite import Suite, expect, expect_members, skip

__all__ = ["RewardModelContract"]

_ROWS = 64


class RewardModelContract(Suite):
    """Conformance suite of reward models: subclass it and override `make` (and `data`).

    Models with `load_expert_data` receive samples of an expert first.
    """

    observation_space = Box(-10.0, 10.0, (4,), np.float32)
    action_space = Discrete(3)
    rounds = 3
    """Calls of `train` after which estimates must have changed."""

    def make(self, seed: int = 0) -> Any:
        """Returns a reward model (`IRewardModel`), reproducible by seed."""
        seed_everything(seed)
        ctx = BuildContext(EnvSpec(self.observation_space, self.action_space), seed=seed)
        return self.registered.example().build(ctx)

    def data(self, seed: int = 0, count: int = _ROWS) -> Batch:
        """Returns samples as a collector does, with observations float32 [B, 4], by seed."""
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
        expect_members(self._made(), IRewardModel)

    def test_estimates_a_reward_for_each_row(self) -> None:
        """`estimate` returns the same number of samples, with finite float32 rewards."""
        model = self._trained()
        for count in (_ROWS, 3, 1, 0):
            rows = model.estimate(self.data(1, count))
            expect(isinstance(rows, Batch), f"estimate returns {type(rows).__name__}, not a Batch")
            expect(len(rows) == count, f"expected {count} samples, got {len(rows)}")
            reward = array(rows["reward"])
            right = reward.dtype == np.float32 and reward.shape == (count,)
            expect(right, f"reward is {reward.dtype}{list(reward.shape)}, not float32[{count}]")
            expect(np.isfinite(reward).all(), "a reward is not finite")

    def test_estimates_before_training(self) -> None:
        """An untrained model returns finite rewards."""
        reward = _rewards(self._made(), self.data())
        expect(np.isfinite(reward).all(), "a reward is not finite")

    def test_changes_only_the_reward(self) -> None:
        """All other columns are unchanged."""
        data = self.data(1)
        rows = self._trained().estimate(data)
        for key in data.columns:
            expect(key in rows.columns, f"column '{key}' is missing")
            if key != "reward":
                wrong = difference(copied(rows[key]), copied(data[key]))
                expect(not wrong, f"column '{key}' has changed: {wrong}")

    def test_does_not_change_its_input(self) -> None:
        """The input is not changed, not even by changing the returned rewards."""
        model, data = self._trained(), self.data(1)
        before = copied(dict(data.items()))
        rows = model.estimate(data)
        wrong = difference(dict(data.items()), before)
        expect(not wrong, f"estimate changed its input: {wrong}")
        array(rows["reward"])[...] = 7.0
        wrong = difference(dict(data.items()), before)
        expect(not wrong, f"the returned rewards share memory with the input: {wrong}")

    def test_estimating_does_not_change_the_model(self) -> None:
        """`estimate` does not change the model."""
        model, data = self._trained(), self.data(1)
        wrong = difference(_rewards(model, data), _rewards(model, data))
        expect(not wrong, f"a second estimate of the same samples differs: {wrong}")

    def test_training_changes_the_estimates(self) -> None:
        """Training changes the estimates of the training samples."""
        model = self._made()
        before = _rewards(model, self.data())
        self._train(model)
        learned = difference(before, _rewards(model, self.data()))
        expect(learned, f"{self.rounds} calls of train did not change its estimates")

    def test_only_train_changes_the_estimates(self) -> None:
        """`collect_data` and `clear_data` do not change estimates."""
        model = self._trained()
        before = _rewards(model, self.data(1))
        model.collect_data(self.data(2))
        wrong = difference(before, _rewards(model, self.data(1)))
        expect(not wrong, f"collect_data changed an estimate: {wrong}")
        model.clear_data()
        wrong = difference(before, _rewards(model, self.data(1)))
        expect(not wrong, f"clear_data changed an estimate: {wrong}")

    def test_collect_data_copies_its_input(self) -> None:
        """`collect_data` stores copies: overwriting the samples does not affect training."""
        one, other = self._made(), self._made()
        data = self.data(0)
        one.collect_data(data)
        for column in data.columns.values():
            tree_map(lambda leaf: leaf.fill(0), column)
        other.collect_data(self.data(0))
        for model in (one, other):
            self._fit(model)
        wrong = difference(*(_rewards(model, self.data(1)) for model in (one, other)))
        expect(not wrong, f"overwriting the samples changed the trained model: {wrong}")

    def test_training_without_samples_does_nothing(self) -> None:
        """`train` without samples does nothing, first or after `clear_data`."""
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
        """The same seed and samples give the same rewards."""
        one, other = self._trained(), self._trained()
        wrong = difference(_rewards(one, self.data(1)), _rewards(other, self.data(1)))
        expect(not wrong, f"the same seed gave other rewards: {wrong}")

    def test_state_round_trip(self) -> None:
        """A model with a loaded state returns the same rewards."""
        model, twin = self._trained(), self._made(seed=1)
        self._train(twin, seed=5)
        twin.load_state_dict(copied(model.state_dict()))
        wrong = difference(_rewards(model, self.data(1)), _rewards(twin, self.data(1)))
        expect(not wrong, f"rewards differ after loading the state: {wrong}")

    def test_estimates_reward_by_reward(self) -> None:
        """The reward of a sample does not depend on the other samples that are estimated."""
        model, data = self._trained(), self.data(1)
        whole = _rewards(model, data)
        parts = [_rewards(model, data[start : start + 16]) for start in range(0, _ROWS, 16)]
        close = np.allclose(whole, np.concatenate(parts), rtol=1e-4, atol=1e-5)
        expect(close, "samples estimated in parts have other rewards than together")

    def test_an_expert_without_samples_is_refused(self) -> None:
        """`load_expert_data` raises an error of dicore for 0 samples."""
        model = self.make()
        if not isinstance(model, SupportsExpertData):
            skip("it has no load_expert_data")
        try:
            model.load_expert_data(self.data(99)[:0])
        except DicoreError:
            return
        expect(False, "load_expert_data accepted 0 samples")

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


def _rewards(model: Any, data: Batch) -> Array:
    return array(model.estimate(data)["reward"]).copy()
