"""The manager of ale_py's vector env: rewards and ends of single games, with their wrappers."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("cv2")
pytest.importorskip("dicore_contrib_envs")

from dicore.config import compile_config
from dicore.errors import ConfigError, UsageError
from dicore.run.env_factory import make_env_manager
from dicore_contrib_envs.atari_vector import AleVectorManager, Games
from dicore_contrib_envs.atari_vector_options import options_of

WRAPPERS = ("max_and_skip", "eval_episode_return", "warp_frame", "clip_reward", "frame_stack")


def section(*wrappers: Any, kind: str = "breakout", **options: Any) -> Any:
    given = {"type": kind, "manager": {"type": "ale_vector", "num_threads": 1},
             "collector_env_num": 2, **options}  # fmt: skip
    if wrappers:
        given["env_wrapper"] = list(wrappers)
    return compile_config({"env": given, "policy": {"type": "random"}}).env


def manager_of(manager: str, **options: Any) -> Any:
    given = {"manager": {"type": manager}, "repeat_action_probability": 0.0, **options}
    made = make_env_manager(section(*WRAPPERS, **given), "collector", 0)
    made.seed(3)
    made.launch()
    return made


@pytest.mark.parametrize("obs_type", ["rgb", "grayscale"])
def test_steps_are_those_of_single_games(obs_type: str) -> None:
    """Rewards, ends and returns; and frames, where `base` takes the maximum of gray ones, too.

    The gray of the maximum of colours is nowhere darker. Frames are compared from the fourth of a
    game on (before, ale_py pads with zeros), without the last one, a maximum of other frames.
    """
    rng, since, ended, points = np.random.default_rng(0), np.zeros(2, int), 0, 0.0
    options = {"kind": "pong", "episodic_life": False, "max_frames": 500}
    gray, brighter = {"make_kwargs": {"obs_type": obs_type}}, 0
    with closing(manager_of("base", **options, **gray)) as base, \
            closing(manager_of("ale_vector", **options)) as ours:  # fmt: skip
        assert ours.observation_space == base.observation_space
        assert ours.action_space == base.action_space
        assert ours.capabilities == {"lockstep"}
        for _ in range(130):
            action = dict(enumerate(rng.integers(6, size=2).tolist()))
            wanted, found = base.step(action), ours.step(action)
            since += 1
            for env_id in action:
                one, two = wanted[env_id], found[env_id]
                assert one.reward == two.reward
                assert (one.terminated, one.truncated) == (two.terminated, two.truncated)
                points += abs(float(one.reward))
                if since[env_id] >= 4:
                    frames = slice(3 if one.done else 4)
                    more = np.asarray(one.obs)[frames].astype(int) - two.obs[frames]
                    assert more.min() >= 0
                    brighter = max(brighter, more.max())
                if one.done:
                    for name in ("eval_episode_return", "episode_length"):
                        assert one.info[name] == two.info[name]
                    since[env_id], ended = 0, ended + 1
    assert ended == 2, "each game was cut after 500 frames"
    assert points > 1
    assert 0 < brighter <= 16 if obs_type == "rgb" else brighter == 0


def test_an_episode_ends_with_a_life_and_shows_its_last_frames() -> None:
    """The game goes on; the final observation is the next episode's first one."""
    with closing(manager_of("ale_vector")) as manager:
        manager._pool.vec  # noqa: B018 - made with the option below
        assert manager._pool.game.arguments["life_loss_info"]
        lives, lost = [5, 5], 0
        for step in range(200):
            answer = manager.step({0: step % 4, 1: 1 if step % 5 == 0 else 2})
            for env_id in answer:
                if answer[env_id].terminated:
                    left = int(answer[env_id].info["lives"])
                    assert left == lives[env_id] - 1
                    if left:
                        np.testing.assert_array_equal(answer[env_id].obs, manager.ready_obs[env_id])
                    lives[env_id], lost = left or 5, lost + 1
        assert lost >= 6


class Scripted:
    """One game of a script of lives; memory of `final_obs` is odd where a game goes on."""

    num_envs, single_observation_space, single_action_space = 1, None, None

    def __init__(self, *steps: tuple[int, bool, bool]) -> None:
        self.steps = list(steps)

    def close(self) -> None: ...

    def reset(self, seed: Any) -> Any:
        self.seed = seed.tolist()
        return np.zeros((1, 2, 2, 2), np.uint8), {"lives": np.array([3], np.int32)}

    def step(self, actions: Any) -> Any:
        lives, terminated, truncated = self.steps.pop(0)
        obs = np.full((1, 2, 2, 2), lives, np.uint8)
        info = {"lives": np.array([lives], np.int32), "final_obs": np.full_like(obs, 99)}
        return (obs, np.array([5]), np.array([terminated]), np.array([truncated]), info)


@pytest.mark.parametrize(
    ("after", "terminated", "truncated", "final", "left"),
    [
        (2, True, False, 2, 2),  # a life is lost
        (3, True, False, 99, 0),  # the game is over and was reset
        (0, True, False, 99, 0),  # of a game that begins without lives
        (2, False, True, 99, 3),  # cut; the next game begins with fewer lives
        (2, True, True, 99, 3),
    ],
)
def test_which_last_frames_are_taken(
    after: int, terminated: bool, truncated: bool, final: int, left: int
) -> None:
    games = Games(Scripted((after, terminated, truncated)), clip=(-1.0, 1.0))
    games.reset([2**31 + 4])
    assert games._vec.seed == [4]
    _, reward, *_, info = games.step(np.array([0]))
    assert (info["final_obs"] == final).all()
    assert info["final_info"]["lives"].tolist() == [left]
    assert reward.tolist() == [1.0]


def test_same_seed_same_data_and_other_seeds_other_data() -> None:
    shown = []
    for seed in (1, 1, 2):
        with closing(AleVectorManager([object] * 2, {"task_id": "ALE/Pong-v5"})) as manager:
            manager.seed(seed)
            manager.launch()
            for _ in range(20):
                answer = manager.step({0: 2, 1: 3})
            shown.append(np.array(answer.value.obs))
    np.testing.assert_array_equal(shown[0], shown[1])
    assert (shown[0] != shown[2]).any()
    assert (shown[0][0] != shown[0][1]).any()


def test_wrappers_become_arguments() -> None:
    game = options_of(section(kind="pong"))
    assert game.name == "pong"
    assert (game.clip, game.returns_unclipped) == ((-1.0, 1.0), True)
    assert game.arguments == {
        "repeat_action_probability": 0.25, "full_action_space": False,
        "max_num_frames_per_episode": 18_000, "frameskip": 4, "maxpool": True, "noop_max": 30,
        "use_fire_reset": False, "img_height": 84, "img_width": 84, "stack_num": 4,
    }  # fmt: skip
    wrappers = [{"type": "warp_frame", "size": 42}, {"type": "frame_stack", "n_frames": 2},
                "clip_reward", "eval_episode_return"]  # fmt: skip
    game = options_of(section(*wrappers, frameskip=3))
    assert (game.arguments["frameskip"], game.arguments["maxpool"]) == (3, False)
    assert (game.arguments["img_width"], game.arguments["stack_num"]) == (42, 2)
    assert not game.returns_unclipped, "they are counted outside of the clipping"


@pytest.mark.parametrize(
    ("wrappers", "options", "message"),
    [
        ((*WRAPPERS, "obs_norm"), {}, "obs_norm cannot be done"),
        # ale_py presses FIRE for one frame, and not after a lost life
        ((*WRAPPERS[:2], "fire_reset", *WRAPPERS[2:]), {}, "fire_reset cannot be done"),
        (("warp_frame", "max_and_skip", "frame_stack"), {}, "max_and_skip stands where"),
        (("max_and_skip", "warp_frame"), {}, "gray stacked frames"),
        ((*WRAPPERS, "clip_reward"), {}, "clipped twice"),
        (("max_and_skip", "max_and_skip", "warp_frame", "frame_stack"), {}, "max_and_skip stands"),
        (WRAPPERS, {"frameskip": 2}, "skips frames, too"),
        (({"type": "noop_reset", "noop_action": 1}, *WRAPPERS), {}, "noop_action=1"),
        (WRAPPERS, {"make_kwargs": {"difficulty": 1}}, "has no difficulty"),
        (WRAPPERS, {"make_kwargs": {"obs_type": "ram"}}, "obs_type='ram': .* returns frames"),
        ((), {"kind": "cartpole"}, "Atari games only, not CartPole-v1"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused(wrappers: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_env_manager(section(*wrappers, **options), "evaluator", 0).launch()
    assert caught.value.hint


def test_an_id_may_name_its_module() -> None:
    wrappers = ("warp_frame", "frame_stack")
    given = {"env_id": "ale_py:ALE/Pong-v5", "n_evaluator_episode": 1, "stop_value": 20}
    game = options_of(section(*wrappers, kind="gymnasium", **given))
    assert (game.name, game.arguments["frameskip"], game.clip) == ("pong", 4, None)


def test_a_game_of_another_section_is_refused() -> None:
    """It has another API, so that other environments would be stepped than it names."""
    pytest.importorskip("dicore_agents")
    given = {"env_id": "ALE/Pong-v5", "kind": "gymnasium_agents"}
    with pytest.raises(ConfigError, match="Atari games only, not this environment") as caught:
        make_env_manager(section(**given), "evaluator", 0).launch()
    assert "env.type=atari" in str(caught.value.hint)


def test_unlike_games_and_reset_options_are_refused() -> None:
    with closing(AleVectorManager([object] * 2, {"task_id": "ALE/Pong-v5"})) as manager:
        manager.launch()
        with pytest.raises(UsageError, match="takes no options"):
            manager.reset({0: {"options": {"x": 1}}, 1: {"options": {"x": 1}}})
    with pytest.raises(ConfigError, match="Atari games only, not this environment"):
        AleVectorManager([object]).launch()
    with pytest.raises(ConfigError, match="Atari games only, not ALE/Pongg-v5"):
        AleVectorManager([object], {"task_id": "ALE/Pongg-v5"}).launch()


def test_returns_are_of_unclipped_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy sees the clipped ones."""
    with closing(manager_of("ale_vector")) as manager:
        step = manager._pool.vec._vec.step

        def paid(actions: Any) -> Any:
            obs, reward, *rest = step(actions)
            return obs, np.full_like(reward, 7), *rest

        monkeypatch.setattr(manager._pool.vec._vec, "step", paid)
        while not (ended := (answer := manager.step({0: 0, 1: 1})).value.terminated).any():
            assert answer.value.reward.tolist() == [1.0, 1.0]
        info = answer[int(ended.argmax())].info
        assert info["eval_episode_return"] == 7 * info["episode_length"]
