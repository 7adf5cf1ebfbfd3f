"""Each env wrapper by name: what it does to an environment, and what it says where it cannot."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from dicore.config import compile_config
from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore.hookspecs.manager import load_plugins
from dicore.run.env_factory import EnvFactory, make_env_manager, spec_of
from dicore.run.launch import TrainRequest, build_pipeline, compile_for
from dicore.testing.compare import copied, difference
from dicore.testing.inner_env import InnerEnv
from dicore_registry import default
from tests.plugins.env_managers.toy_envs import CountEnv


def wrap(name: str, env: Any = None, **options: Any) -> Any:
    target = default().resolve("env_wrapper", name).target
    section = compile_section(config_class(target, "env_wrapper"), {"type": name, **options})
    return section.build(None, env=InnerEnv() if env is None else env)


def rollout(env: Any, action: Any = 1, seed: int = 0) -> list[tuple[Any, ...]]:
    """Plays one episode; obs, reward, terminated, truncated, info of each step."""
    env.reset(seed=seed)
    told = []
    while not told or not (told[-1][2] or told[-1][3]):
        told.append(env.step(action))
    return told


def rewards(env: Any) -> list[float]:
    return [float(step[1]) for step in rollout(env)]


BARE = rewards(InnerEnv())


def test_time_limit_cuts_without_terminating() -> None:
    told = rollout(wrap("time_limit", max_episode_steps=3))
    assert [step[2:4] for step in told] == [(False, False)] * 2 + [(False, True)]


def test_noop_reset_begins_by_doing_nothing() -> None:
    env = InnerEnv(length=50)
    made = wrap("noop_reset", env, noop_max=5)
    counts = []
    for seed in range(20):
        before = env.steps
        obs, _ = made.reset(seed=seed)
        counts.append(env.steps - before)
        again, _ = made.reset(seed=seed)
        np.testing.assert_array_equal(obs, again)
    assert set(counts) == {1, 2, 3, 4, 5}
    with pytest.raises(ConfigError, match="'noop_reset': noop_action 7 is not in Discrete"):
        wrap("noop_reset", noop_action=7)


def test_action_repeat_and_max_and_skip_pay_the_sum() -> None:
    sums = [sum(BARE[:3]), sum(BARE[3:6]), BARE[6]]
    assert rewards(wrap("action_repeat", action_repeat=3)) == pytest.approx(sums)
    assert rewards(wrap("max_and_skip", skip=3)) == pytest.approx(sums)


def test_max_and_skip_shows_the_larger_of_the_last_two() -> None:
    frames = [step[0] for step in rollout(InnerEnv("image"))]
    shown = [step[0] for step in rollout(wrap("max_and_skip", InnerEnv("image"), skip=3))]
    np.testing.assert_array_equal(shown[0], np.maximum(frames[1], frames[2]))
    np.testing.assert_array_equal(shown[2], frames[6])
    assert wrap("max_and_skip", skip=1).reset(seed=0)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max_and_skip", {"skip": 2}), ("frame_stack", {}), ("lazy_frame_stack", {}),
        ("obs_plus_prev_action_reward", {}), ("reward_in_obs", {}), ("obs_norm", {}),
    ],
)  # fmt: skip
def test_an_environment_may_write_its_observations_anew(name: str, options: Any) -> None:
    """It returns the same array from every step."""
    plays = []
    for reuse in (False, True):
        made = wrap(name, Falls(length=8, reuse=reuse), **options)
        made.reset(seed=0)
        plays.append([copied(tree_map(np.array, made.step(0)[0])) for _ in range(4)])
    assert difference(*plays) == ""


class Falls(CountEnv):
    """Its observations become smaller, so that the maximum of two is the one before."""

    def show(self) -> Any:
        obs = super().show()
        obs *= -1
        return obs


def test_sticky_action_repeats_now_and_then() -> None:
    def places(probability: float) -> Any:
        env = wrap("sticky_action", InnerEnv(length=40), probability=probability)
        env.reset(seed=0)
        return [float(env.step(number % 3)[1]) for number in range(40)]

    assert places(0.0) != places(0.5)
    assert places(0.5) == places(0.5)


def test_rescale_action_takes_a_range_of_its_own() -> None:
    env = wrap("rescale_action", InnerEnv("continuous"))
    assert (env.action_space.low.min(), env.action_space.high.max()) == (-1.0, 1.0)
    bare = rollout(InnerEnv("continuous"), np.array([2.0, -1.0], np.float32))
    told = rollout(env, np.array([1.0, -0.5], np.float32))
    assert [step[1] for step in told] == pytest.approx([step[1] for step in bare])


def test_discretize_action_offers_even_values_of_each_action() -> None:
    env = wrap("discretize_action", InnerEnv("continuous"), bins=5)
    assert env.action_space == MultiDiscrete([5, 5])
    np.testing.assert_array_equal(env.action(np.array([0, 3])), [-2.0, 1.0])
    pendulum = wrap("discretize_action", gymnasium.make("Pendulum-v1"))
    assert pendulum.action_space == Discrete(11)
    values = [pendulum.action(number) for number in range(11)]
    np.testing.assert_allclose(values, np.linspace(-2, 2, 11)[:, None], rtol=1e-6)
    assert values[0].dtype == np.float32


def test_clip_reward_and_delay_reward() -> None:
    assert rewards(wrap("clip_reward")) == pytest.approx(np.clip(BARE, -1, 1))
    assert rewards(wrap("delay_reward", delay_reward_step=3)) == pytest.approx(
        [0, 0, sum(BARE[:3]), 0, 0, sum(BARE[3:6]), BARE[6]]
    )


def test_the_true_return_is_told_from_below_a_clipped_reward() -> None:
    for name in ("clip_reward", "reward_norm"):
        *before, last = rollout(wrap("flat_obs", wrap(name)))
        assert last[4]["eval_episode_return"] == pytest.approx(sum(BARE))
        assert not any("eval_episode_return" in step[4] for step in before)
    *_, last = rollout(wrap("clip_reward", wrap("eval_episode_return", wrap("clip_reward"))))
    assert last[4]["eval_episode_return"] == pytest.approx(sum(np.clip(BARE, -1, 1)))


def test_obs_norm_and_reward_norm_come_to_a_common_scale() -> None:
    env = wrap("obs_norm", InnerEnv(length=500))
    seen = np.array([step[0] for step in rollout(env)])[50:]
    assert abs(seen).max() < 10
    paid = rewards(wrap("reward_norm", InnerEnv(length=500)))
    assert np.abs(paid[50:]).max() < 10 < np.abs(rewards(InnerEnv(length=500))).max()


def test_static_obs_norm_by_numbers_given() -> None:
    env = wrap("static_obs_norm", mean=[1.0, 2.0, 3.0, 4.0], std=2.0)
    bare = InnerEnv().reset(seed=0)[0]
    np.testing.assert_allclose(env.reset(seed=0)[0], (bare - [1, 2, 3, 4]) / 2, rtol=1e-6)
    np.testing.assert_allclose(env.observation_space.high, [49.5, 49, 48.5, 48])
    with pytest.raises(ConfigError, match=r"have 3 and 1 values, .* shape \(4,\)"):
        wrap("static_obs_norm", mean=[1.0, 2.0, 3.0], std=1.0)
    with pytest.raises(ConfigError, match="std: must be given"):
        wrap("static_obs_norm")


def test_scaled_float_frame() -> None:
    env = wrap("scaled_float_frame", InnerEnv("image"))
    bare = InnerEnv("image").reset(seed=0)[0]
    np.testing.assert_allclose(env.reset(seed=0)[0], bare / np.float32(255), rtol=1e-6)
    assert env.observation_space == Box(0.0, 1.0, (12, 10, 3), np.float32)


def test_warp_frame_makes_small_grey_squares() -> None:
    pytest.importorskip("cv2")
    env = wrap("warp_frame", InnerEnv("image"), size=6)
    obs, _ = env.reset(seed=0)
    assert (obs.shape, obs.dtype) == ((6, 6), np.uint8)
    luma = InnerEnv("image").reset(seed=0)[0] @ [0.299, 0.587, 0.114]
    same_size = wrap("warp_frame", InnerEnv("image"), size=10).env
    np.testing.assert_allclose(same_size.reset(seed=0)[0], luma, atol=0.51)
    assert abs(float(obs.mean()) - float(luma.mean())) < 2.0


def test_frame_stack_and_obs_transpose() -> None:
    env = wrap("frame_stack", n_frames=3)
    first, _ = env.reset(seed=0)
    second = env.step(1)[0]
    assert first.shape == (3, 4)
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(second[:2], first[1:])
    turned = wrap("obs_transpose", InnerEnv("image"))
    bare = InnerEnv("image").reset(seed=0)[0]
    np.testing.assert_array_equal(turned.reset(seed=0)[0], bare.transpose(2, 0, 1))
    assert turned.observation_space.shape == (3, 12, 10)
    assert wrap("obs_transpose", InnerEnv("image"), axes=[1, 0, 2]).observation_space.shape == (
        10, 12, 3,
    )  # fmt: skip


def test_flat_obs_and_the_last_action_beside() -> None:
    env = wrap("obs_plus_prev_action_reward")
    obs, _ = env.reset(seed=0)
    assert (int(obs["prev_action"]), float(obs["prev_reward"][0])) == (0, 0.0)
    obs, reward, *_ = env.step(2)
    assert int(obs["prev_action"]) == 2
    assert float(obs["prev_reward"][0]) == pytest.approx(reward)
    assert isinstance(env.observation_space, Dict)
    flat = wrap("flat_obs", wrap("obs_plus_prev_action_reward"))
    assert flat.reset(seed=0)[0].shape == (4 + 3 + 1,)


def test_ram_is_an_image_of_one_column() -> None:
    env = wrap("ram")
    obs, _ = env.reset(seed=0)
    assert (obs.shape, obs.dtype) == ((4, 1, 1), np.float32)
    assert obs.ravel().tolist() == InnerEnv().reset(seed=0)[0].tolist()
    assert env.observation_space == Box(-100.0, 100.0, (4, 1, 1), np.float32)


def test_the_reward_beside_the_observation() -> None:
    env = wrap("reward_in_obs")
    obs, _ = env.reset(seed=0)
    assert obs["reward"].tolist() == [0.0]
    obs, reward, *_ = env.step(2)
    assert obs["reward"] == pytest.approx(reward)
    assert env.observation_space.contains(obs)


def test_hybrid_actions_as_a_dict() -> None:
    env = wrap("gym_hybrid_dict_action", InnerEnv("hybrid"))
    arguments = Box(np.float32([-1, 0, 0]), np.float32([1, 2, 2]))
    assert env.action_space == Dict({"action_type": Discrete(3), "action_args": arguments})
    given = {"action_type": 2, "action_args": np.array([-0.5, 1.5, 0.25], np.float32)}
    bare = (2, np.float32([-0.5]), np.float32([1.5, 0.25]))
    told, wanted = rollout(env, given), rollout(InnerEnv("hybrid"), bare)
    assert [step[1] for step in told] == [step[1] for step in wanted]


class Pays(InnerEnv):
    """Pays two agents, or for two objectives."""

    reward_space = Box(-np.inf, np.inf, (2,), np.float32)

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward, -1.0], np.float32), *rest


def test_rewards_of_several_numbers() -> None:
    bare = np.array([step[1] for step in rollout(Pays())])
    *_, last = rollout(wrap("eval_episode_return", Pays()))
    np.testing.assert_allclose(last[4]["eval_episode_return"], bare.sum(0), rtol=1e-6)
    delayed = np.array(
        [step[1] for step in rollout(wrap("delay_reward", Pays(), delay_reward_step=3))]
    )
    np.testing.assert_allclose(delayed[[2, 5, 6]], [bare[:3].sum(0), bare[3:6].sum(0), bare[6]])
    assert not delayed[[0, 1, 3, 4]].any()
    env = wrap("reward_in_obs", Pays())
    env.reset(seed=0)
    obs, reward, *_ = env.step(1)
    assert obs["reward"].tolist() == reward.tolist()
    _, (shown, paid, *_) = rollout(wrap("obs_plus_prev_action_reward", Pays()))[:2]
    np.testing.assert_allclose(shown["prev_reward"], paid)
    for name, options in (("action_repeat", {"action_repeat": 3}), ("max_and_skip", {"skip": 3})):
        skipped = [step[1] for step in rollout(wrap(name, Pays(), **options))]
        np.testing.assert_allclose(skipped[:2], [bare[:3].sum(0), bare[3:6].sum(0)], rtol=1e-6)
    with pytest.raises(ConfigError, match="'reward_norm' needs rewards of one number"):
        wrap("reward_norm", Pays())


class Odd(gymnasium.Env[Any, Any]):
    observation_space = Dict({"a": Discrete(3)})
    action_space = Dict({"b": Discrete(3)})


@pytest.mark.parametrize(
    "name",
    ["noop_reset", "max_and_skip", "warp_frame", "scaled_float_frame", "clip_reward",
     "action_repeat", "delay_reward", "eval_episode_return", "frame_stack", "obs_transpose",
     "obs_norm", "static_obs_norm", "reward_norm", "ram", "episodic_life", "fire_reset",
     "gym_hybrid_dict_action", "obs_plus_prev_action_reward", "reward_in_obs", "time_limit",
     "flat_obs", "gym_to_gymnasium"],
)  # fmt: skip
def test_the_names_of_di_engine(name: str) -> None:
    """FEATURES A14: each is registered; the conformance suite runs on all."""
    assert default().find("env_wrapper", name).status in ("ok", "unavailable")


NEEDS = {
    "warp_frame": "image observations, uint8",
    "frame_stack": "array observations",
    "max_and_skip": "array observations",
    "obs_norm": "array observations",
    "static_obs_norm": "array observations",
    "scaled_float_frame": "array observations",
    "obs_transpose": "array observations",
    "noop_reset": "discrete actions",
    "discretize_action": "bounded continuous actions",
    "rescale_action": "bounded continuous actions",
    "obs_plus_prev_action_reward": "numbers or arrays as actions",
    "episodic_life": "discrete actions",
    "fire_reset": "an environment with an action FIRE",
    "gym_hybrid_dict_action": r"actions Tuple\(Discrete, Box, …\)",
    "ram": "observations that are vectors of numbers",
}


@pytest.mark.parametrize(("name", "wanted"), NEEDS.items())
def test_what_does_not_fit_is_an_error_of_the_config(name: str, wanted: str) -> None:
    if name == "warp_frame":
        pytest.importorskip("cv2")
    given = {"std": 2.0} if name == "static_obs_norm" else {}
    with pytest.raises(ConfigError, match=rf"env\.env_wrapper: '{name}' needs {wanted}") as caught:
        wrap(name, Odd(), **given)
    assert ("flat_obs" in str(caught.value.hint)) == (name in ("obs_norm", "static_obs_norm"))


def config(*wrappers: Any) -> Any:
    env = {
        "type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 1,
        "n_evaluator_episode": 1, "env_wrapper": list(wrappers),
    }  # fmt: skip
    policy = {"type": "dqn", "collect": {"n_sample": 8}}
    return compile_config({"env": env, "policy": policy, "pipeline": {"logger": []}})


def test_a_config_lists_wrappers_innermost_first() -> None:
    compiled = config(
        {"type": "time_limit", "max_episode_steps": 5}, {"type": "frame_stack", "n_frames": 2}
    )
    made = EnvFactory(compiled.env, None)()  # type: ignore[arg-type]
    assert type(made).__name__ == "FrameStackObservation"
    assert type(made.env.env).__name__ == "TimeLimit", "below the wrapper that copies frames"
    manager = make_env_manager(compiled.env, "collector", 0)
    manager.launch()
    try:
        assert manager.ready_obs.value.shape == (2, 2, 4)
        for _ in range(5):
            answer = manager.step({0: 0, 1: 1})
        assert answer.value.truncated.tolist() == [True, True]
        assert [each["episode_length"] for each in answer.value.info] == [5, 5]
    finally:
        manager.close()


@pytest.mark.parametrize(
    ("wrapper", "said"),
    [
        (
            "time_limt",
            r"env\.env_wrapper\[0\]\.type: no env_wrapper named 'time_limt'; .*time_limit",
        ),
        ("time_limit", r"env\.env_wrapper\[0\]\.max_episode_steps"),
        ({"type": "frame_stack", "n_frames": 0}, r"env\.env_wrapper\[0\]\.n_frames: must be >= 1"),
        ({"type": "clip_reward", "min_reward": 2.0}, r"max_reward: must be >= min_reward 2\.0"),
        ({"type": "rescale_action", "min_action": 2.0}, r"max_action: must be > min_action 2\.0"),
    ],
)
def test_mistakes_are_found_when_the_config_is_compiled(wrapper: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(wrapper)


def test_a_wrapper_that_does_not_fit_is_found_before_a_run_begins() -> None:
    with pytest.raises(ConfigError, match="'rescale_action' needs bounded continuous actions"):
        spec_of(config("rescale_action").env, 0)


@pytest.mark.learns
def test_a_training_through_wrappers(tmp_path: Any) -> None:
    from dicore.run.launch import launch

    wrappers = '["eval_episode_return", "clip_reward", "flat_obs"]'
    outcome = launch(
        env="cartpole", policy="dqn", exp_name=str(tmp_path / "run"), max_env_step=700,
        overrides=[f"env.env_wrapper={wrappers}", "pipeline.logger=[]",
                   "policy.learn.update_per_collect=16"],
    )  # fmt: skip
    assert outcome.run.result.train_iter > 0
    assert outcome.run.result.best_return is not None


@pytest.mark.parametrize(
    ("policy", "better"), [("ppo", r"policy\.model\.obs_norm=true"), ("dqn", "static_obs_norm")]
)
def test_what_measures_all_environments_together_is_named(
    policy: str, better: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped = ["env.env_wrapper=[obs_norm]"]
    request = TrainRequest(env="cartpole", policy=policy, overrides=wrapped)
    compiled, _ = compile_for(request, None, load_plugins())
    build_pipeline(compiled, load_plugins())
    assert re.search(f"obs_norm measures each environment by itself.*{better}", caplog.text)


@pytest.mark.parametrize("name", ["obs_norm", "reward_norm"])
def test_statistics_of_a_run_go_on_with_it(name: str) -> None:
    """A manager's state brings running episodes back with what the wrapper had seen before."""
    section = compile_config({
        "env": {"type": "cartpole", "env_wrapper": [name], "collector_env_num": 2,
                "n_evaluator_episode": 1, "stop_value": 1.0},
        "policy": {"type": "dqn"},
    }).env  # fmt: skip

    def told(manager: Any, steps: int) -> list[Any]:
        manager_steps = (manager.step({0: k % 2, 1: 0}) for k in range(steps))
        return [(s.value.obs.tolist(), s.value.reward.tolist()) for s in manager_steps]

    manager, twin = (make_env_manager(section, "collector", 3) for _ in range(2))
    manager.launch()
    told(manager, 37)
    twin.load_state_dict(manager.state_dict())
    twin.launch()
    assert twin.brought_back
    assert told(twin, 40) == told(manager, 40)
    manager.close()
    twin.close()
