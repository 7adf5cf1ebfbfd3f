"""Recorded episodes as samples: all of them, or those with a least return."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dicore import episode_to_transitions, episode_to_transitions_filter, load_demo_data
from dicore.errors import UsageError
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import AutoConfig, write_npz


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three episodes of 2, 3 and 4 steps that pay 1 each; the second one is cut off."""
    end = np.array([0, 1, 0, 0, 1, 0, 0, 0, 1], bool)
    cut = np.arange(9) == 4
    write_npz(tmp_path / "demo.npz", {
        "obs": np.arange(9.0)[:, None], "next_obs": np.arange(1.0, 10)[:, None],
        "action": np.arange(9) % 2,
        "reward": np.ones(9, np.float32), "terminated": end & ~cut, "truncated": cut,
    })  # fmt: skip
    return tmp_path / "demo.npz"


def test_n_step_samples_in_a_folder(file: Path, tmp_path: Path) -> None:
    """As the buffer's load_data and load_demo_data read them, and as a data set."""
    found = episode_to_transitions(file, tmp_path / "demo", 3, discount_factor=0.5)
    np.testing.assert_allclose(found["reward"], [1.5, 1, 1.75, 1.5, 1, 1.75, 1.75, 1.5, 1])
    assert found["done"].tolist() == [1, 1, 0, 0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(load_demo_data(tmp_path / "demo")["reward"], found["reward"])
    buffer = NaiveReplayBuffer({"replay_buffer_size": 9})
    buffer.load_data(tmp_path / "demo")
    assert buffer.count() == 9
    again = AutoConfig(path=str(tmp_path / "demo"), nstep=3, discount_factor=0.5).build(None)
    np.testing.assert_array_equal(again.take(np.arange(9))["reward"], found["reward"])


@pytest.mark.parametrize("name", ["best.npz", "best"])
def test_only_episodes_with_a_least_return(file: Path, tmp_path: Path, name: str) -> None:
    found = episode_to_transitions_filter(file, tmp_path / name, min_episode_return=3)
    assert found["obs"].ravel().tolist() == [2, 3, 4, 5, 6, 7, 8]
    again = AutoConfig(path=str(tmp_path / name)).build(None)
    assert again.returns.tolist() == [3, 4]
    assert again.take(np.arange(7))["done"].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_what_cannot_be_written_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of 3 episodes has a return of 5; the best has 4"):
        episode_to_transitions_filter(file, tmp_path / "best.npz", min_episode_return=5)
    with pytest.raises(UsageError, match="set nstep=1, or name a folder"):
        episode_to_transitions(file, tmp_path / "best.npz", 2)
    with pytest.raises(UsageError, match="exists and contains other data"):
        episode_to_transitions(file, tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"demo.npz"}
