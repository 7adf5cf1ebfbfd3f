"""Frame stacks in env managers: the observations of copied stacks, each frame copied once."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.data import tree_paths
from dicore.errors import ConfigError, DicoreError, EnvSpaceError
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.env_wrappers.frame_stack import LazyFrames, LazyFrameStack, StackedBox
from dicore_plugins.env_wrappers.wrappers import NoopReset
from dicore_plugins.frames import StackedFrames
from dicore_registry import default
from tests.plugins.stack_envs import DEPTH, SIDE, Frames, copied, lazy

MANAGERS = ["base", "thread", "vector", "sync_subprocess"]


def manager(name: str, make: Any, form: str, **options: Any) -> Any:
    target = default().resolve("env_manager", name).target
    section = compile_section(config_class(target, "env_manager"), {"type": name, **options})
    envs = section.build(None, env_fn=[partial(make, form)] * 3)
    envs.seed(0)
    envs.launch()
    return envs


def assert_same(one: Any, other: Any) -> None:
    mine, theirs = (tree_paths(each) for each in (one, other))
    assert mine.keys() == theirs.keys()
    for path, leaf in mine.items():
        np.testing.assert_array_equal(np.asarray(leaf), theirs[path], err_msg=path)


def image(obs: Any) -> Any:
    return obs["image"] if isinstance(obs, dict) else obs


@pytest.mark.parametrize("step", ["step", "step_into"])
@pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name in MANAGERS for form in ("image", "dict")]
)
def test_observations_are_those_of_copied_stacks(name: str, form: str, step: str) -> None:
    mine, theirs = manager(name, lazy, form), manager("base", copied, form)
    try:
        assert mine.observation_space == theirs.observation_space
        rng = np.random.default_rng(0)
        for _ in range(40):
            assert isinstance(image(mine.ready_obs.value), StackedFrames)
            assert_same(mine.ready_obs.value, theirs.ready_obs.value)
            actions = {env_id: {"action": rng.integers(3)} for env_id in range(3)}
            found, wanted = (getattr(each, step)(actions) for each in (mine, theirs))
            assert_same(found.value.obs, wanted.value.obs)
            np.testing.assert_array_equal(found.value.done, wanted.value.done)
    finally:
        mine.close()
        theirs.close()


@pytest.mark.parametrize("name", ["sync_subprocess", "vector"])
def test_a_reset_that_takes_steps_leaves_the_last_stack_as_it_is(name: str) -> None:
    def after_steps(make: Any) -> Any:
        return lambda form: NoopReset(Doubled(make(form)), noop_max=6)

    mine = manager(name, after_steps(lazy), "image")
    theirs = manager("base", after_steps(copied), "image")
    try:
        for _ in range(40):
            assert_same(mine.ready_obs.value, theirs.ready_obs.value)
            found, wanted = (each.step(dict.fromkeys(range(3), 0)) for each in (mine, theirs))
            assert_same(found.value.obs, wanted.value.obs)
    finally:
        mine.close()
        theirs.close()


@pytest.mark.parametrize("name", MANAGERS)
def test_each_frame_is_copied_once(name: str) -> None:
    envs = manager(name, lazy, "image")
    seen, episodes = set(), 3
    try:
        seen.update(envs.ready_obs.value.numbers.ravel().tolist())
        for _ in range(40):
            answer = envs.step(dict.fromkeys(range(3), 0))
            episodes += int(answer.value.done.sum())
            assert len(answer.value.obs.chunks) <= 3
            seen.update(answer.value.obs.numbers.ravel().tolist())
            seen.update(envs.ready_obs.value.numbers.ravel().tolist())
    finally:
        envs.close()
    assert len(seen) == 40 * 3 + episodes


@pytest.mark.parametrize("name", ["base", "sync_subprocess"])
def test_running_episodes_are_brought_back(name: str) -> None:
    first, second = manager(name, lazy, "dict"), manager(name, lazy, "dict")
    try:
        for _ in range(11):
            first.step(dict.fromkeys(range(3), 1))
        second.load_state_dict(first.state_dict())
        assert second.brought_back
        for _ in range(9):
            assert_same(second.ready_obs.value, {
                key: np.asarray(leaf) for key, leaf in first.ready_obs.value.items()
            })  # fmt: skip
            for each in (first, second):
                each.step(dict.fromkeys(range(3), 2))
    finally:
        first.close()
        second.close()


def test_a_killed_worker_does_not_leave_its_frames() -> None:
    """The frames of the worker that replaces it are not taken for those of the killed one."""
    import os
    import signal

    envs = manager("sync_subprocess", lazy, "image", restart_budget=3, retry_type="renew")
    twin = manager("base", copied, "image")
    try:
        for number in range(20):
            if number == 5:
                for pid in set(envs.worker_pids().values()):
                    os.kill(pid, signal.SIGKILL)
            answer = envs.step(dict.fromkeys(range(3), 0))
            if number < 5:
                twin.step(dict.fromkeys(range(3), 0))
                assert_same(envs.ready_obs.value, np.asarray(twin.ready_obs.value))
            elif number == 5:
                assert answer.value.abnormal.all()
                first = np.asarray(envs.ready_obs.value)
                np.testing.assert_array_equal(first, np.repeat(first[:, :1], DEPTH, 1))
            else:
                shown = np.asarray(answer.value.obs)
                np.testing.assert_array_equal(shown[:, :-1], first[:, 1:])
                first = np.asarray(envs.ready_obs.value)
    finally:
        envs.close()
        twin.close()


class Given(gymnasium.Env[Any, Any]):
    """Returns what it is told to."""

    observation_space = Box(0, 200, (2,), np.uint8)
    action_space = Discrete(2)

    def __init__(self, *shown: Any) -> None:
        self.shown = list(shown)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.shown.pop(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.shown.pop(0), 0.0, False, False, {}


ZERO = np.zeros(2, np.uint8)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (np.zeros(3, np.uint8), r"observation is uint8\[3\], but its space is uint8\[2\]"),
        (np.zeros(2, np.float32), r"observation is float32\[2\], but its space is uint8\[2\]"),
        (None, "observation is None"),
    ],
)
def test_an_invalid_frame_is_an_error_that_names_it(shown: Any, said: str) -> None:
    with BaseEnvManager([lambda: LazyFrameStack(Given(ZERO, shown), 3)]) as envs:
        envs.launch()
        with pytest.raises(DicoreError, match=said):
            envs.step({0: 0})
    with pytest.raises(DicoreError, match=said):
        BaseEnvManager([lambda: LazyFrameStack(Given(shown), 3)]).launch()


def test_frames_that_only_need_a_cast_are_cast() -> None:
    shown = ZERO, [7, 8], np.array([9, 10])
    with BaseEnvManager([lambda: LazyFrameStack(Given(*shown), 3)]) as envs:
        envs.launch()
        envs.step({0: 0})
        envs.step({0: 0})
        assert envs.ready_obs.value.dtype == np.uint8
        assert np.asarray(envs.ready_obs.value).tolist() == [[[0, 0], [7, 8], [9, 10]]]


def test_bounds_and_not_finite_frames(caplog: pytest.LogCaptureFixture) -> None:
    with BaseEnvManager([lambda: LazyFrameStack(Given(ZERO, ZERO + 201), 3)]) as envs:
        envs.launch()
        envs.step({0: 0})
    assert "observation[2, 0] is 201, out of bounds 0 to 200" in caplog.text
    bad = np.array([0.0, np.nan], np.float32)
    env = Given(bad)
    env.observation_space = Box(-1, 1, (2,), np.float32)
    with pytest.raises(DicoreError, match=r"observation\[1\] is nan"):
        BaseEnvManager([lambda: LazyFrameStack(env, 3)]).launch()


class Doubled(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Changes stacks, and keeps their space."""

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation) // 2


def test_a_wrapper_around_the_stacks_sees_them_as_arrays() -> None:
    def outside(make: Any) -> Any:
        return lambda form: Doubled(make(form))

    mine, theirs = (
        manager("base", outside(lazy), "image"),
        manager("base", outside(copied), "image"),
    )
    for _ in range(12):
        assert_same(mine.ready_obs.value, theirs.ready_obs.value)
        for each in (mine, theirs):
            each.step(dict.fromkeys(range(3), 0))
    mine.close()
    theirs.close()


def test_an_array_of_another_shape_is_refused() -> None:
    class Cropped(Doubled):
        def observation(self, observation: Any) -> Any:
            return np.asarray(observation)[1:]

    with pytest.raises(EnvSpaceError, match=r"uint8\[3, 6, 6\], but its space is uint8\[4, 6, 6\]"):
        manager("base", lambda form: Cropped(lazy(form)), "image")


def test_the_environment_alone_returns_stacks_that_are_arrays_to_numpy() -> None:
    env, other = lazy(), copied()
    assert isinstance(env.observation_space, StackedBox)
    (first, _), (wanted, _) = (each.reset(seed=1) for each in (env, other))
    assert isinstance(first, LazyFrames)
    for _ in range(3):
        assert env.observation_space.contains(first)
        assert first.shape == (DEPTH, SIDE, SIDE)
        np.testing.assert_array_equal(first, wanted)
        np.testing.assert_array_equal(first[-1], wanted[-1])
        np.testing.assert_array_equal(first / 2, wanted / 2)
        first, wanted = env.step(0)[0], other.step(0)[0]


@pytest.mark.parametrize(
    ("form", "keys", "said"),
    [
        ("image", ["image"], "needs a dict observation for its option keys"),
        ("dict", ["pixels"], r"needs the parts \['pixels'\] of a dict observation"),
    ],
)
def test_parts_that_are_not_there_are_an_error(form: str, keys: list[str], said: str) -> None:
    target = default().resolve("env_wrapper", "lazy_frame_stack").target
    section = compile_section(target, {"type": "lazy_frame_stack", "keys": keys})
    with pytest.raises(ConfigError, match=said):
        section.build(None, env=Frames(form))
