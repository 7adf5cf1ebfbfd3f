"""FEATURES A11, A12: every env that renders can record, and every env draws random actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from dicore import build
from dicore.errors import UsageError
from dicore_registry import default
from dicore_registry.errors import RegistryError

from .toy_envs import ActEnv, CountEnv, manager_of, rollout

pytest.importorskip("imageio_ffmpeg")

STEPS = 9


class Draws(CountEnv):
    """Renders images; an episode of it has five steps, or three by the wrapper of `wrapped`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 5}
    render_mode = "rgb_array"

    def render(self) -> Any:
        return np.full((16, 16, 3), 40 * self.count, np.uint8)


def wrapped() -> Any:
    return TimeLimit(OrderEnforcing(Draws(0)), 3)


def videos(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.mp4"))


@pytest.mark.parametrize("name", ["base", "thread", "sync_subprocess"])
@pytest.mark.parametrize("make", [Draws, wrapped])
def test_videos_of_the_episodes_from_the_next_on(name: str, make: Any, tmp_path: Path) -> None:
    """Episodes are the same as without; one that is running is not recorded."""
    try:
        default().find("env_manager", name)
    except RegistryError as error:
        pytest.skip(str(error))
    told: list[Any] = []
    for recording in (True, False):
        manager = build("env_manager", name, env_fn=[make] * 2)
        manager.seed(0)
        manager.launch()
        for number in range(STEPS):
            if number == 1 and recording:
                manager.enable_save_replay(tmp_path if name == "base" else str(tmp_path))
            value = manager.step({0: 0, 1: 1}).value
            told.append([value.obs.tolist(), value.reward.tolist(), value.done.tolist()])
        manager.close()
    assert told[:STEPS] == told[STEPS:]
    per_episode = 5 if make is Draws else 3
    whole = STEPS // per_episode - 1
    paid = per_episode / 2
    assert videos(tmp_path) == [
        f"env_{env_id}_episode_{number}_return_{paid + env_id * per_episode:.1f}.mp4"
        for env_id in range(2)
        for number in range(whole)
    ]
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".mp4"]


def test_a_vector_env_says_that_it_cannot_record(tmp_path: Path) -> None:
    manager = build("env_manager", "vector", env_fn=[Draws] * 2)
    manager.launch()
    with pytest.raises(UsageError, match="vector env cannot be recorded"):
        manager.enable_save_replay(tmp_path)
    manager.close()


def test_recording_from_the_first_episode_on(tmp_path: Path) -> None:
    manager = manager_of(wrapped(), launch=False)
    manager.enable_save_replay(str(tmp_path))
    manager.launch()
    rollout(manager, 3)
    manager.close()
    assert len(videos(tmp_path)) == 1


def test_an_env_that_does_not_render_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="env 0 has no enable_save_replay") as caught:
        manager_of(CountEnv(0)).enable_save_replay(str(tmp_path))
    assert "render_mode='rgb_array'" in caught.value.hint


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(4, start=2), spaces.Dict(a=spaces.MultiBinary(3), b=spaces.Box(-1, 1, (2,)))],
    ids=str,
)
def test_a_random_action_is_legal_and_the_runs_own(space: Any) -> None:
    from dicore.run.random import seed_everything

    manager = manager_of(ActEnv(space))
    drawn = []
    for _ in range(2):
        seed_everything(5)
        drawn.append([manager.env_call("random_action")[0] for _ in range(1000)])
    assert all(space.contains(action) for action in drawn[0])
    assert str(drawn[0]) == str(drawn[1])
    assert len({str(action) for action in drawn[0]}) > 2
