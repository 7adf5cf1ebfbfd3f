"""Novelty within episodes, and the factor of random network distillation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.run.random import seed_everything
from dicore_plugins.reward_models import NGU
from dicore_plugins.reward_models.ngu import EpisodicNovelty
from tests.plugins.reward_models.test_bonus import ACTIONS, BOX, OBSERVATIONS, samples

K, E = 3, 1e-2


def by_hand(x: Any, env_id: Any, end: Any, mean: float) -> list[float]:
    """Computes equation 2 of the paper step by step."""
    found, episodes = [], {env: [] for env in set(env_id)}
    for now, env, over in zip(x, env_id, end, strict=True):
        near = sorted(((now - other) ** 2).sum() / mean for other in episodes[env])[:K]
        near += [1.0] * (K - len(near))
        found.append(1 / (sum(E / (max(each - 0.008, 0) + E) for each in near) ** 0.5 + 1e-3))
        episodes[env] = [] if over else [*episodes[env], now]
    return found


def test_novelty_is_that_of_the_paper_across_blocks() -> None:
    """Blocks may overlap, as those of collectors of n-step samples do."""
    rng = np.random.default_rng(0)
    x, env = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 2
    end, novelty = rng.random(60) < 0.1, EpisodicNovelty(K, 100, E)
    first = novelty.add(x[:20], env[:20], end[:20])
    np.testing.assert_allclose(first, by_hand(x[:20], env[:20], end[:20], 1.0), rtol=1e-4)
    novelty.update()
    mean = novelty.state_dict()["mean"]
    wanted = by_hand(x, env, end, mean[0] / mean[1])
    twin = EpisodicNovelty(K, 100, E)
    twin.load_state_dict(novelty.state_dict())
    for each in (novelty, twin):
        np.testing.assert_allclose(each.add(x[20:], env[20:], end[20:]), wanted[20:], rtol=1e-4)
        for start in (20, 12, 46):
            again = each.of(x[start:], env[start:], end[start:])
            np.testing.assert_allclose(again, wanted[start:], rtol=1e-4)


def test_a_state_is_new_again_in_each_episode() -> None:
    """However often the model was trained on it; within an episode it is not."""
    seed_everything(0)
    model = NGU({"hidden_size_list": [16]}, observation_space=BOX, action_space=ACTIONS["discrete"])
    data = samples(BOX, ACTIONS["discrete"], 16)
    for key in ("obs", "next_obs"):
        data.columns[key][:] = data[key][:1]
    data = Batch({**data.columns, "env_id": np.zeros(16, np.int64)})
    varied = samples(BOX, ACTIONS["discrete"], 64, seed=3)
    varied = Batch({**varied.columns, "env_id": np.ones(64, np.int64)})
    for _ in range(5):
        model.collect_data(varied)
        model.collect_data(data)
        reward = model.estimate(data)["reward"]
        model.train()
    first, second = reward[:8], reward[8:]
    np.testing.assert_allclose(first, second, rtol=1e-4)  # episodes end after 8 steps
    assert first[0] > 3 * first[-1] > 0
    assert (np.diff(first) < 0).all()


@pytest.mark.parametrize("name", [*OBSERVATIONS, *ACTIONS])
def test_every_space(name: str) -> None:
    obs, action = OBSERVATIONS.get(name, BOX), ACTIONS.get(name, ACTIONS["discrete"])
    seed_everything(0)
    model = NGU({"hidden_size_list": [8]}, observation_space=obs, action_space=action)
    data = samples(obs, action, 16)
    model.collect_data(data)
    model.train()
    reward = model.estimate(data)["reward"]
    assert (reward > 0).all()
    assert np.isfinite(reward).all()


def test_drawn_samples_are_refused() -> None:
    cfg = {
        "env": "cartpole",
        "policy": {"type": "dqn", "reward_model": {"type": "ngu", "relabel": True}},
    }
    with pytest.raises(ConfigError, match="time order"):
        compile_config(cfg)
