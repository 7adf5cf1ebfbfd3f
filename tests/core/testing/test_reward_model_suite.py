"""The contract of reward models: a small honest one passes, and each check catches its fault."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np

from dicore.config import ComponentConfig, frozen
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore.testing import checks_of, parametrize
from dicore.testing.reward_model import RewardModelContract
from dicore_registry import Registry

from .faults import Fault, catches


class Novelty:
    """Pays for what is new: the error in predicting a fixed random map of the next observation.

    Random network distillation (Burda et al. 2018, arXiv:1810.12894) with linear maps: the target
    is fixed, the prediction is fitted by least squares to the rows taken.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.target = rng.normal(size=(4, 8))
        self.prediction = np.zeros((4, 8))
        self.rows: list[Any] = []

    def estimate(self, data: Batch) -> Batch:
        return Batch({**dict(data.items()), "reward": data["reward"] + self.bonus(data)})

    def bonus(self, data: Batch) -> Any:
        error = np.asarray(data["next_obs"], np.float64) @ (self.target - self.prediction)
        return np.square(error).mean(1).astype(np.float32)

    def train(self) -> None:
        if self.rows:
            obs = np.concatenate(self.rows).astype(np.float64)
            step = np.linalg.lstsq(obs, obs @ (self.target - self.prediction), rcond=None)[0]
            self.prediction += step / 2

    def collect_data(self, data: Batch) -> None:
        self.rows.append(np.array(data["next_obs"]))

    def clear_data(self) -> None:
        self.rows.clear()

    def state_dict(self) -> dict[str, Any]:
        return {"target": self.target, "prediction": self.prediction}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.target, self.prediction = state["target"], state["prediction"]


class Imitation(Novelty):
    """Pays for being near to what an expert saw."""

    expert: Any = None

    def load_expert_data(self, data: Batch) -> None:
        if not len(data):
            raise UsageError("the expert has no samples")
        self.expert = np.array(data["next_obs"], np.float64).mean(0)

    def bonus(self, data: Batch) -> Any:
        novelty = super().bonus(data)
        return (novelty - np.abs(data["next_obs"] - self.expert).mean(1)).astype(np.float32)


def estimating(change: Any) -> dict[str, Any]:
    """Changes the rows that come out."""
    return {"estimate": lambda self, data: change(self, Novelty.estimate(self, data), data)}


def with_reward(change: Any) -> dict[str, Any]:
    return estimating(
        lambda self, rows, data: Batch(
            {**dict(rows.items()), "reward": change(self, rows["reward"])}
        )
    )


def in_place(self: Any, rows: Batch, data: Batch) -> Batch:
    data["reward"][:] = rows["reward"]
    return rows


def shared(self: Any, rows: Batch, data: Batch) -> Batch:
    return data


def counting(self: Any, rows: Batch, data: Batch) -> Batch:
    self.count = getattr(self, "count", 0) + 1
    return Batch({**dict(rows.items()), "reward": rows["reward"] + np.float32(self.count)})


def unseen(self: Any, data: Batch) -> Any:
    if not self.prediction.any():
        raise ValueError("train me first")
    return Novelty.bonus(self, data)


def learns_at_once(self: Any, data: Batch) -> None:
    Novelty.collect_data(self, data)
    Novelty.train(self)


def unlearns(self: Any) -> None:
    self.rows.clear()
    self.prediction[:] = 0


def keeps_the_batch(self: Any, data: Batch) -> None:
    self.rows.append(data["next_obs"])


def needs_rows(self: Any) -> None:
    np.concatenate(self.rows)
    Novelty.train(self)


def decays(self: Any) -> None:
    Novelty.train(self)
    self.prediction *= 0.9


def forgets_nothing(self: Any) -> None: ...


def unseeded(self: Any, seed: int = 0) -> None:
    Novelty.__init__(self, int(np.random.default_rng().integers(1 << 30)))


def half_a_state(self: Any, state: Any) -> None:
    self.prediction = state["prediction"]


def any_expert(self: Any, data: Batch) -> None:
    self.expert = np.array(data["next_obs"]).sum(0) / max(1, len(data))


def first_of_the_expert(self: Any, data: Batch) -> None:
    self.expert = data["next_obs"][0]


FAULTS: list[Fault] = [
    ("has_the_methods", {"clear_data": None}),
    ("estimates_a_reward_for_each_row", estimating(lambda self, rows, data: rows.rows())),
    ("estimates_a_reward_for_each_row", estimating(lambda self, rows, data: rows[1:])),
    ("estimates_a_reward_for_each_row", with_reward(lambda self, reward: reward[:, None])),
    ("estimates_a_reward_for_each_row", with_reward(lambda self, reward: reward.astype(float))),
    ("estimates_a_reward_for_each_row", with_reward(lambda self, reward: reward * np.nan)),
    ("estimates_before_training", {"bonus": unseen}),
    ("changes_only_the_reward", estimating(
        lambda self, rows, data: Batch({**dict(rows.items()), "done": 1 - rows["done"]}))),
    ("changes_only_the_reward", estimating(
        lambda self, rows, data: Batch({"reward": rows["reward"]}))),
    ("does_not_change_its_input", estimating(in_place)),
    ("does_not_change_its_input", estimating(shared)),
    ("estimating_does_not_change_the_model", estimating(counting)),
    ("training_changes_the_estimates", {"train": lambda self: None}),
    ("only_train_changes_the_estimates", {"collect_data": learns_at_once}),
    ("only_train_changes_the_estimates", {"clear_data": unlearns}),
    ("collect_data_copies_its_input", {"collect_data": keeps_the_batch}),
    ("training_without_samples_does_nothing", {"train": needs_rows}),
    ("training_without_samples_does_nothing", {"train": decays}),
    ("training_without_samples_does_nothing", {"clear_data": forgets_nothing}),
    ("same_seed_same_model", {"__init__": unseeded}),
    ("state_round_trip", {"load_state_dict": half_a_state}),
    ("estimates_reward_by_reward", with_reward(lambda self, reward: reward - reward.mean())),
    ("an_expert_without_samples_is_refused", {"load_expert_data": any_expert}),
    ("an_expert_without_samples_is_refused", {"load_expert_data": first_of_the_expert}),
]  # fmt: skip
PLANTED = {RewardModelContract: [check for check, _ in FAULTS]}


class TestNovelty(RewardModelContract):
    def make(self, seed: int = 0) -> Any:
        return Novelty(seed)


class TestImitation(RewardModelContract):
    """One that needs an expert's data is given some."""

    def make(self, seed: int = 0) -> Any:
        return Imitation(seed)


test_each_check_catches_its_fault = catches(
    RewardModelContract, Novelty, FAULTS, lambda cls: lambda self, seed=0: cls(seed)
)


SEEN: list[Any] = []


@frozen(kw_only=True)
class NoveltyConfig(ComponentConfig):
    """Pays for what is new."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        SEEN.append((ctx.observation_space.shape, int(ctx.action_space.n)))
        return Novelty(int(stream("reward_model").integers(1 << 30)))


REGISTRY = Registry([importlib.metadata.distribution("dicore")])
REGISTRY.register("reward_model", "novelty")(NoveltyConfig)


@parametrize(component="reward_model/novelty", registry=REGISTRY)
def test_a_registered_one_passes(check: Any) -> None:
    check()


def test_a_registered_one_is_given_the_spaces() -> None:
    for check in checks_of(component="reward_model/novelty", registry=REGISTRY):
        if check.name == "same_seed_same_model":
            check()
    assert set(SEEN) == {((4,), 3)}


def test_the_reference_is_worth_its_name() -> None:
    """What it has learned is not new any more; what it has not, is."""
    suite = TestNovelty()
    model = Novelty()
    near, far = suite.data(0), suite.data(0)
    near.columns["next_obs"][:, 2:] = 0
    before = model.bonus(near).mean()
    model.collect_data(near)
    for _ in range(10):
        model.train()
    assert model.bonus(near).mean() < before / 100
    assert model.bonus(far).mean() > before / 10
