"""Bonuses for what is new, and the scale of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.data import Batch
from dicore.run.random import seed_everything
from dicore_plugins.reward_models import GAIL, ICM, RND, ReturnScale, RewardNorm

BOX = spaces.Box(-10.0, 10.0, (4,), np.float32)
ACTIONS = {
    "discrete": spaces.Discrete(3, start=1),
    "heads": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
    "box": spaces.Box(-2.0, 2.0, (2,), np.float32),
    "hybrid": spaces.Dict({"kind": spaces.Discrete(2), "args": spaces.Box(-1.0, 1.0, (2,))}),
}
OBSERVATIONS = {
    "vector": BOX,
    "matrix": spaces.Box(0, 1, (3, 2), np.float64),
    "category": spaces.Discrete(5),
    "image": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "dict": spaces.Dict({"place": BOX, "room": spaces.Discrete(3)}),
}


def column(space: Any, count: int, seed: int) -> Any:
    """Draws items of a space as a column."""
    space.seed(seed)
    if isinstance(space, spaces.Dict):
        return {key: column(each, count, seed) for key, each in space.spaces.items()}
    return np.stack([np.asarray(space.sample()) for _ in range(count)])


def samples(obs: Any, action: Any, count: int = 32, seed: int = 0) -> Batch:
    return Batch({
        "obs": column(obs, count, seed), "next_obs": column(obs, count, seed + 1),
        "action": column(action, count, seed), "reward": np.zeros(count, np.float32),
        "end": np.arange(count) % 8 == 7, "env_id": np.arange(count) % 2,
    })  # fmt: skip


def made(cls: type[Any], obs: Any = BOX, action: Any = ACTIONS["discrete"], **cfg: Any) -> Any:
    seed_everything(0)
    return cls(cfg, observation_space=obs, action_space=action)


@pytest.mark.parametrize("cls", [RND, ICM])
@pytest.mark.parametrize("name", [*OBSERVATIONS, *ACTIONS])
def test_it_learns_in_every_space(cls: type[Any], name: str) -> None:
    """The bonus of samples falls as it is trained on them."""
    obs, action = OBSERVATIONS.get(name, BOX), ACTIONS.get(name, ACTIONS["discrete"])
    model = made(cls, obs, action, hidden_size_list=[32], update_per_collect=10)
    data = samples(obs, action, 8)
    model.collect_data(data)
    assert not model.estimate(data)["reward"].any()  # not before the first training
    model.train()
    before = model.estimate(data)["reward"].mean()
    assert before > 0
    for _ in range(4):
        model.train()
    assert model.estimate(data)["reward"].mean() < before


@pytest.mark.parametrize("count", [0, 1, 256, 257])
@pytest.mark.parametrize("cls", [RND, ICM, GAIL])
def test_few_and_many_samples_are_estimated_alike(cls: type[Any], count: int) -> None:
    """NumPy and torch compute the same, also after training; no samples are not an error."""
    model, seen = made(cls, action=ACTIONS["box"]), samples(BOX, ACTIONS["box"], 32)
    if cls is GAIL:
        model.load_expert_data(seen)
    data = samples(BOX, ACTIONS["box"], 257, seed=3)[:count]
    for _ in range(2):
        model.collect_data(seen)
        model.train()
        found = model.estimate(data)["reward"]
        assert found.shape == (count,)
        if count:
            wanted = model._rewards(model._tensors(data, (*model.keys, "reward")))
            np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_the_bonus_of_rnd_falls_where_it_was_and_stays_elsewhere() -> None:
    model = made(RND, hidden_size_list=[32], update_per_collect=100)
    near, far = samples(BOX, ACTIONS["discrete"], 256), samples(BOX, ACTIONS["discrete"], 256)
    for key in ("obs", "next_obs"):
        near.columns[key][:, :2], far.columns[key][:, 2:] = 0, 0
    model.collect_data(near)
    for _ in range(3):
        model.train()
    assert model.estimate(far)["reward"].mean() > 4 * model.estimate(near)["reward"].mean()


def test_the_rewards_are_weighted() -> None:
    data = samples(BOX, ACTIONS["discrete"])
    data.columns["reward"] = np.arange(32, dtype=np.float32)
    found = []
    for options in ({"weight": 0.0}, {"weight": 2.0}, {"weight": 2.0, "extrinsic_weight": 0.5}):
        model = made(RND, **options)
        model.collect_data(data)
        model.train()
        found.append(model.estimate(data)["reward"])
    plain, bonus, half = found
    assert (plain == data["reward"]).all()
    assert (bonus > plain).all()
    np.testing.assert_allclose(half - 0.5 * plain, bonus - plain, rtol=1e-3, atol=1e-5)


def test_the_bonus_ends_after_some_samples() -> None:
    """Also in a model that goes on from a state."""
    model, data = made(RND, weight_decay=64), samples(BOX, ACTIONS["discrete"])
    found = []
    for _ in range(3):
        model.collect_data(data)
        model.train()
        again = made(RND, weight_decay=64)
        again.load_state_dict(model.state_dict())
        found.append((model.weight, again.weight))
    assert found == [(0.5, 0.5), (0.0, 0.0), (0.0, 0.0)]
    assert not model.estimate(data)["reward"].any()


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_the_scale_is_the_spread_of_all_returns(discount: float) -> None:
    """As in VecNormalize, step by step; blocks may have any length, and rows may be missing."""
    rng = np.random.default_rng(0)
    reward, end = rng.normal(3, 2, (40, 3)), rng.random((40, 3)) < 0.1
    there = rng.random((40, 3)) < 0.9
    running, returns = np.zeros(3), []
    for now, ends, has in zip(reward, end, there, strict=True):
        running[has] = running[has] * discount + now[has]
        returns += running[has].tolist()
        running[has & ends] = 0
    scale = ReturnScale(discount)
    envs = np.tile([4, 0, 9], (40, 1))
    for part in (slice(0, 7), slice(7, 8), slice(8, 40)):
        has = there[part]
        scale.update(reward[part][has], envs[part][has], end[part][has])
    assert scale.value == pytest.approx(np.std(returns), rel=1e-4)


def test_rewards_of_any_form_are_normalised() -> None:
    model = RewardNorm({"limit": 1.5})
    data = Batch({"reward": np.array([1.0, -4.0, 3.0], np.float32)})
    assert (model.estimate(data)["reward"] == np.clip(data["reward"], -1.5, 1.5)).all()
    model.collect_data(data)
    model.train()
    found = model.estimate(Batch({"reward": data["reward"].reshape(1, 3)}))["reward"]
    assert found.shape == (1, 3)
    assert abs(found).max() == 1.5
