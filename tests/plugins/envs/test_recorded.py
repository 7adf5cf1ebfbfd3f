"""The environment that replays recorded episodes, and spaces that follow from columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore import build
from dicore.errors import UsageError
from dicore_plugins.datasets import NpzDataset
from dicore_plugins.datasets.spaces import recorded_spaces
from tests.plugins.datasets.recordings import EPISODES, write


def test_episodes_are_replayed(tmp_path: Path) -> None:
    path = write("npz_next", tmp_path, EPISODES)
    options = {"path": path, "format": "npz", "n_evaluator_episode": 1, "stop_value": 0}
    env = build("env", {"type": "recorded", **options})
    for seed in range(12):
        obs, _ = env.reset(seed=seed)
        (episode,) = (each for each in EPISODES if each.obs[0, 0] == obs[0])
        for step, reward in enumerate(episode.reward):
            np.testing.assert_array_equal(obs, episode.obs[step])
            obs, found, terminated, truncated, _ = env.step(0)
            last = step == len(episode.reward) - 1
            assert found == reward
            assert (terminated, truncated) == (
                last and episode.terminated, last and not episode.terminated
            )  # fmt: skip
        np.testing.assert_array_equal(obs, episode.obs[-1])
        with pytest.raises(UsageError, match="the recorded episode is over"):
            env.step(0)


@pytest.mark.parametrize(
    ("action", "space"),
    [
        (np.array([0, 2, 1]), spaces.Discrete(3)),
        (np.array([[0, 1], [2, 0], [1, 0]]), spaces.MultiDiscrete([3, 2])),
        (np.array([[0.5], [-0.25], [0.0]]), spaces.Box(-1.0, 1.0, (1,))),
        (np.array([[2.0], [-0.25], [0.0]]), spaces.Box(-1.0, 2.0, (1,))),
        (np.array([0, -1, 1]), None),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_spaces_follow_from_the_columns(
    action: Any, space: Any, dtype: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    obs = np.arange(6).reshape(3, 2).astype(dtype)
    terminated = np.array([False, False, True])
    np.savez(tmp_path / "x.npz", obs=obs, action=action, reward=np.zeros(3), terminated=terminated)
    data = NpzDataset({"path": str(tmp_path / "x.npz")})
    if space is None:
        with pytest.raises(UsageError, match="does not follow from actions int64"):
            recorded_spaces(data)
        return
    found = recorded_spaces(data)
    assert found[1] == space
    assert found[0].contains(obs[0])
    assert found[0].dtype == dtype
    assert "the file has no spaces" in caplog.text
