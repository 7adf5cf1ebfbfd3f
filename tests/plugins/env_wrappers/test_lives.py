"""Wrappers of games with several lives: on a small game, and on those of the real ALE."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from dicore import build
from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.errors import ConfigError
from dicore.run.env_factory import make_env_manager
from dicore.testing.compare import difference
from dicore_plugins.env_wrappers import EpisodicLife, FireReset


class Lives(gymnasium.Env[Any, Any]):
    """A game of three lives; action 2 loses one. Observations: drawn at reset, steps, lives."""

    def __init__(self, limit: int = 0) -> None:
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = Discrete(3)
        self.limit = limit
        self.games = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.games += 1
        self.drawn, self.steps, self.left = float(self.np_random.random()), 0, 3
        return self.show(), {"lives": self.left}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.left -= action == 2
        over = self.steps == self.limit
        return self.show(), 1.0, self.left == 0, over, {"lives": self.left}

    def show(self) -> Any:
        return np.array([self.drawn, self.steps, self.left], np.float32)

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "RIGHT", "LEFT"]


def test_a_lost_life_ends_the_episode_and_not_the_game() -> None:
    env = EpisodicLife(Lives())
    env.reset(seed=1)
    ends = []
    for number in range(1, 7):
        obs, _, terminated, truncated, info = env.step(2 if number % 2 == 0 else 1)
        ends.append((terminated, truncated))
        if terminated:
            shown, info = env.reset(seed=number)
            assert info["lives"] == 3 - number // 2 or number == 6
            assert (shown[0] == obs[0]) == (number < 6), "the same game until the last life"
    assert ends == [(False, False), (True, False)] * 3
    assert env.unwrapped.games == 2


def test_a_reset_within_a_life_begins_a_new_game() -> None:
    env = EpisodicLife(Lives())
    env.reset(seed=1)
    env.step(1)
    env.reset(seed=2)
    assert env.unwrapped.games == 2


def test_a_truncated_life_begins_a_new_game() -> None:
    env = EpisodicLife(Lives(limit=2))
    env.reset(seed=1)
    env.step(1)
    assert env.step(2)[2:4] == (True, True)
    env.reset(seed=2)
    assert (env.unwrapped.games, env.unwrapped.steps) == (2, 0)


def test_a_game_that_ends_as_it_continues_is_followed_by_another() -> None:
    env = EpisodicLife(Lives(limit=3))
    env.reset(seed=1)
    env.step(1)
    assert env.step(2)[2:4] == (True, False)
    env.reset(seed=2)
    assert (env.unwrapped.games, env.unwrapped.steps) == (2, 0)


@pytest.mark.parametrize("name", ["base", "sync_subprocess"])
def test_a_manager_restores_a_game_between_its_lives(name: str) -> None:
    """The state of a manager has the seed and the actions of the game, not only of the life."""

    def manager() -> Any:
        options = {"type": name, "record_actions": True}
        made = build("env_manager", options, env_fn=[lambda: EpisodicLife(Lives())] * 2)
        made.seed(3)
        return made

    def told(made: Any, steps: int) -> list[Any]:
        return [made.step({0: k % 3, 1: k % 2}).value.obs.tolist() for k in range(steps)]

    first, twin = manager(), manager()
    first.launch()
    told(first, 8)
    twin.load_state_dict(first.state_dict())
    twin.launch()
    assert twin.brought_back
    assert told(twin, 20) == told(first, 20)
    first.close()
    twin.close()


def test_what_has_no_lives() -> None:
    with pytest.raises(ConfigError, match=r"'episodic_life' needs .* with lives, but wraps .*Cart"):
        EpisodicLife(gymnasium.make("CartPole-v1")).reset(seed=0)
    with pytest.raises(
        ConfigError, match=r"'fire_reset' needs .*with the actions NOOP, RIGHT, LEFT"
    ):
        FireReset(Lives())


def test_fire_reset_presses_fire_once() -> None:
    class Fires(Lives):
        def get_action_meanings(self) -> list[str]:
            return ["NOOP", "RIGHT", "FIRE"]

    env = FireReset(Fires())
    obs, info = env.reset(seed=1)
    assert (obs[1:].tolist(), info["lives"]) == ([1, 2], 2), "action 2 costs a life here"
    ended = FireReset(Fires(limit=1))
    assert ended.reset(seed=1)[0][1] == 0, "a game that ends by it is followed by another"


@pytest.fixture
def atari() -> None:
    ale_py = pytest.importorskip("ale_py")
    gymnasium.register_envs(ale_py)


def section(env_id: str, wrappers: list[Any], **options: Any) -> Any:
    from dicore_registry import default

    target = default().resolve("env", "gymnasium").target
    return compile_section(
        config_class(target, "env"),
        {"type": "gymnasium", "env_id": env_id, "env_wrapper": wrappers, "n_evaluator_episode": 1,
         "stop_value": 1.0, "collector_env_num": 2, "manager": {"type": "base"}, **options},
    )  # fmt: skip


@pytest.mark.usefixtures("atari")
def test_a_game_of_the_ale() -> None:
    """Breakout has 5 lives and waits for FIRE: without it no life would ever be lost."""
    wrappers = [{"type": "max_and_skip"}, "episodic_life", "fire_reset"]
    manager = make_env_manager(section("ALE/Breakout-v5", wrappers), "collector", 0)
    manager.launch()
    lives = []
    for _ in range(400):
        answer = manager.step({0: 0})
        if answer.value.terminated[0]:
            lives.append(answer.value.info[0]["lives"])
        if len(lives) == 6:
            break
    assert lives == [4, 3, 2, 1, 0, 4]
    manager.close()


@pytest.mark.usefixtures("atari")
def test_the_ram_of_the_ale() -> None:
    cfg = section("ALE/Pong-v5", ["ram"], make_kwargs={"obs_type": "ram"})
    manager = make_env_manager(cfg, "collector", 0, at_most=1)
    assert manager.observation_space == Box(0.0, 255.0, (128, 1, 1), np.float32)
    manager.launch()
    image = manager.ready_obs.value[0]
    bare = gymnasium.make("ALE/Pong-v5", obs_type="ram")
    ram, _ = bare.reset(seed=manager.state_dict()["running"][0]["seed"])
    assert not difference(image.ravel().astype(np.uint8), ram)
    manager.close()
    bare.close()
