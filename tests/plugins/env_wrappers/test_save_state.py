"""`save_state`: the step after restoring a state is the one after saving it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.errors import EnvError
from dicore.run.checkpoint_store import read_state, write_state
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.env_wrappers import SaveState

IDS = ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "Acrobot-v1"]


def made(env_id: str, **options: Any) -> SaveState:
    return SaveState(gymnasium.make(env_id, **options))


def played(env: Any, steps: int, seed: int) -> list[Any]:
    env.action_space.seed(seed)
    found = []
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        found.append((np.asarray(obs).tolist(), float(reward), terminated, truncated))
        if terminated or truncated:
            found.append(np.asarray(env.reset()[0]).tolist())  # also the next episode's start
    return found


@pytest.mark.parametrize("env_id", [*IDS, "Hopper-v5"])
def test_the_next_steps_are_those_after_saving(env_id: str, tmp_path: Path) -> None:
    if env_id.startswith("Hopper"):
        pytest.importorskip("mujoco")
    env, twin = (made(env_id, max_episode_steps=20) for _ in range(2))
    env.reset(seed=3)
    played(env, 7, 0)
    write_state(tmp_path / "state", env.get_state())
    expected = played(env, 30, 1)
    twin.reset(seed=8)
    for each in (env, twin):
        each.set_state(read_state(tmp_path / "state"))
        assert played(each, 30, 1) == expected
        each.close()


def test_a_manager_restores_the_state_instead_of_actions() -> None:
    managers = [BaseEnvManager([lambda: made("Pendulum-v1")]) for _ in range(2)]
    with closing(managers[0]) as manager, closing(managers[1]) as twin:
        manager.seed(1)
        manager.launch()
        for _ in range(5):
            manager.step({0: np.ones(1, np.float32)})
        state = manager.state_dict()
        assert state["running"][0]["actions"] is None
        twin.load_state_dict(state)
        twin.launch()
        assert twin.brought_back
        steps = [each.step({0: np.zeros(1, np.float32)})[0] for each in (manager, twin)]
        assert np.array_equal(steps[0].obs, steps[1].obs)
        assert steps[0].reward == steps[1].reward


class Simulated(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.world = object()

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}


def test_what_cannot_be_saved_is_an_error_at_the_first_reset() -> None:
    with pytest.raises(EnvError, match=r"cannot save 'world' \(object\) of Simulated"):
        SaveState(Simulated()).reset()
    env = made("CartPole-v1")
    env.reset()
    with pytest.raises(EnvError, match="state is that of 1 layers"):
        env.set_state({"layers": [{}]})
