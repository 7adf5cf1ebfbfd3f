"""Managers of vector envs: Gymnasium's native ones, SyncVectorEnv, EnvPool."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from dicore.config import compile_config
from dicore.data import EnvBatch
from dicore.errors import (
    ActionError,
    ConfigError,
    DicoreError,
    EnvCreateError,
    EnvResetError,
    EnvStateError,
    EnvStepError,
    NonFiniteError,
    UsageError,
)
from dicore.interfaces.env_manager import EnvState
from dicore.run.env_factory import make_env_manager
from dicore.testing.env_manager import EnvManagerContract
from dicore.testing.scripted_env import ScriptedEnv, SpacedEnv
from dicore_plugins.env_managers import VectorEnvManager
from dicore_plugins.env_managers.vector.config import _COMPARED

pytest.importorskip("dicore_contrib_envs")

MODES = ("NextStep", "SameStep", "Disabled")


def cartpole(env_num: int) -> VectorEnv[Any, Any, Any]:
    return gymnasium.make_vec("CartPole-v1", env_num, vectorization_mode="vector_entry_point")


def scripted(mode: str, makes: Sequence[Any]) -> Any:
    """Returns what makes a vector env of scripted environments."""
    return lambda _: SyncVectorEnv(makes, autoreset_mode=mode)


def opened(make: Any, env_num: int, **options: Any) -> VectorEnvManager:
    manager = VectorEnvManager.of(make, env_num, options)
    manager.seed(0)
    manager.launch()
    return manager


def lengths(*numbers: int, **options: Any) -> list[Any]:
    return [partial(ScriptedEnv, tag, length, **options) for tag, length in enumerate(numbers)]


class TestNextStep(EnvManagerContract):
    """The suite with a vector env of one's own, which cannot tell its environments apart."""

    mode = "NextStep"
    test_creates_envs_at_launch = test_env_attr_returns_all_values = None  # type: ignore[assignment]
    test_reset_error_names_the_env = None  # type: ignore[assignment]
    test_rewards_have_the_shape_of_their_space = None  # type: ignore[assignment]

    def make(self, env_fn: Sequence[Any], options: Mapping[str, Any] | None = None) -> Any:
        return VectorEnvManager.of(scripted(self.mode, env_fn), len(env_fn), options)

    def test_invalid_observations_raise(self) -> None:  # the vector env casts or refuses shapes
        for fault in ("nan", "reward"):
            makes = [ScriptedEnv, partial(ScriptedEnv, 1, fault=fault)]  # type: ignore[arg-type]
            with closing(self.make(makes)) as manager:
                manager.launch()
                for _ in range(2):
                    manager.step({0: 0, 1: 0})
                with pytest.raises(NonFiniteError, match="env 1") as caught:
                    manager.step({0: 0, 1: 0})
            assert caught.value.context["env_id"] == 1


class TestSameStep(TestNextStep):
    mode = "SameStep"


def test_native_env_without_its_reset_rows() -> None:
    """Each timestep is a row of the vector env; rows of resets are no timesteps."""
    count, actions = 5, np.random.default_rng(0).integers(0, 2, (200, 5))
    plain = cartpole(count)
    with closing(opened(cartpole, count)) as manager:
        seed = manager.state_dict()["seeds"]["run_seed"], manager._seeds
        assert seed[0] == 0
        twin = VectorEnvManager.of(cartpole, count)
        twin.seed(0)
        first = twin._seeds.peek(0)
        before, _ = plain.reset(seed=first)
        over = np.zeros(count, bool)
        total, length = np.zeros(count), np.zeros(count, int)
        for row in actions:
            ready = manager.ready_obs
            assert ready.env_id.tolist() == np.flatnonzero(~over).tolist()
            np.testing.assert_array_equal(ready.value, before[~over])
            answer = manager.step(EnvBatch(ready.env_id, {"action": row[ready.env_id]}))
            full = np.where(over, 0, row)
            full[over] = manager._idle()[over] if over.any() else 0
            before, reward, terminated, truncated, _ = plain.step(full)
            np.testing.assert_array_equal(answer.value.obs, before[~over])
            np.testing.assert_array_equal(answer.value.terminated, terminated[~over])
            np.testing.assert_array_equal(answer.value.truncated, truncated[~over])
            total[~over] += reward[~over]
            length[~over] += 1
            total[over] = length[over] = 0
            over = terminated | truncated
            for env_id in np.flatnonzero(over).tolist():
                info = answer[env_id].info
                assert info == {"eval_episode_return": total[env_id],
                                "episode_length": length[env_id]}  # fmt: skip
                assert manager.env_state(env_id) is EnvState.RESET


def test_a_single_environment_is_always_ready() -> None:
    with closing(opened(scripted("NextStep", lengths(2)), 1)) as manager:
        steps = []
        for _ in range(5):
            assert list(manager.ready_obs) == [0]
            steps.append(int(manager.ready_obs[0][3]))
            manager.step({0: 1})
    assert steps == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_data(mode: str) -> None:
    def play(seed: int) -> list[Any]:
        with closing(VectorEnvManager.of(scripted(mode, lengths(2, 3, 4)), 3)) as manager:
            manager.seed(seed)
            manager.launch()
            return [manager.step(dict.fromkeys(manager.ready_obs, 1)).value.obs.tolist()
                    for _ in range(12)]  # fmt: skip

    assert play(1) == play(1) != play(2)


@pytest.mark.parametrize("mode", MODES)
def test_time_limits_are_truncations(mode: str) -> None:
    with closing(opened(scripted(mode, lengths(2, 2, end="truncated")), 2)) as manager:
        manager.step({0: 0, 1: 0})
        step = manager.step({0: 0, 1: 0}).value
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.obs[:, 3].tolist() == [2, 2]


@pytest.mark.parametrize("mode", MODES)
def test_environments_left_out_miss_an_episode(mode: str) -> None:
    """At its start an episode may be left out, as by an evaluator; then it is never seen."""
    with closing(opened(scripted(mode, lengths(2, 3)), 2)) as manager:
        seen = []
        for _ in range(3):
            seen.append(list(manager.step(dict.fromkeys([1], 0))))
            assert manager.env_state(0) in (EnvState.STEP, EnvState.RESET, EnvState.RUN)
            if 0 in manager.ready_obs:
                break
        assert seen[:2] == [[1], [1]]
        while 0 not in manager.ready_obs:
            manager.step({})
        assert int(manager.ready_obs[0][3]) == 0


@pytest.mark.parametrize("mode", MODES)
def test_environments_within_an_episode_cannot_be_left_out(mode: str) -> None:
    with closing(opened(scripted(mode, lengths(4, 4)), 2)) as manager:
        manager.step({0: 0, 1: 0})
        with pytest.raises(EnvStateError, match=r"\[1\] are within an episode"):
            manager.step({0: 0})
        assert len(manager.step({0: 0, 1: 0})) == 2
        with pytest.raises(EnvStateError, match="waits for environments"):
            manager.step({})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_an_autoreset_env_cannot_do_is_refused(mode: str) -> None:
    make = scripted(mode, lengths(4, 4))
    with closing(opened(make, 2)) as manager:
        with pytest.raises(UsageError, match="cannot be reset without the others"):
            manager.reset([1])
        with pytest.raises(UsageError, match="level"):
            manager.reset({0: {"level": 1}})
        manager.reset({0: None, 1: None})
    with pytest.raises(UsageError, match="auto_reset=false"):
        opened(make, 2, auto_reset=False)


def test_reset_options_reach_the_vector_env() -> None:
    with closing(opened(cartpole, 3)) as manager:
        options = {"options": {"low": 0.01, "high": 0.02}}
        manager.reset(dict.fromkeys(range(3), options))
        assert (manager.ready_obs.value >= 0.01).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_step_restarts_all_within_the_budget(mode: str, caplog: Any) -> None:
    makes = [ScriptedEnv, partial(ScriptedEnv, 1, fault="nan")]
    with closing(opened(scripted(mode, makes), 2, restart_budget=1)) as manager:
        manager.step({0: 0, 1: 0})
        before = manager.step({0: 0, 1: 0}).value.obs
        failed = manager.step({0: 0, 1: 0}).value
        assert failed.abnormal.all()
        assert failed.truncated.all()
        assert not failed.terminated.any()
        assert "observation[1] is nan, at step 3" in failed.info[0]["error"]
        np.testing.assert_array_equal(failed.obs, before)
        assert manager.ready_obs.value[:, 3].tolist() == [0, 0]
    with closing(opened(scripted(mode, makes), 2)) as manager:
        for _ in range(2):
            manager.step({0: 0, 1: 0})
        with pytest.raises(NonFiniteError, match="env 1"):
            manager.step({0: 0, 1: 0})
        assert manager.env_state(0) is EnvState.ERROR
        with pytest.raises(EnvStateError, match="env 0 is ERROR"):
            manager.step({0: 0, 1: 0})
        manager.reset()
        assert len(manager.step({0: 0, 1: 0})) == 2


def test_what_a_native_env_raises() -> None:
    class Broken(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            raise RuntimeError("planted")

    class Unready(SyncVectorEnv):
        def reset(self, **kwargs: Any) -> Any:
            raise RuntimeError("planted")

    planted = pytest.raises(EnvStepError, match="the step of Broken failed: RuntimeError: planted")
    with closing(opened(lambda n: Broken([ScriptedEnv] * n), 2)) as manager, planted:
        manager.step({0: 0, 1: 0})
    with pytest.raises(EnvResetError, match="RuntimeError: planted"):
        opened(lambda n: Unready([ScriptedEnv] * n), 2)
    with pytest.raises(EnvCreateError, match=r"of 2 environments, got .* of 3"):
        opened(lambda n: SyncVectorEnv([ScriptedEnv] * 3), 2)
    with pytest.raises(EnvCreateError, match=r"expected a gymnasium\.vector\.VectorEnv"):
        opened(lambda n: ScriptedEnv(), 2)


class Odd(SyncVectorEnv):
    """Returns something else from the second step on, or raises it."""

    def __init__(self, change: Any) -> None:
        super().__init__(lengths(5, 5))
        self.change, self.count = change, 0

    def step(self, actions: Any) -> Any:
        self.count += 1
        result = super().step(actions)
        return result if self.count < 2 else self.change(*result)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda obs, *rest: (obs[:1], *rest), "observation is"),
        (lambda obs, *rest: (None, *rest), "observation is None"),
        (lambda obs, reward, *rest: (obs, 1.0, *rest), r"rewards of shape \[\]; expected \[2\]"),
        (lambda obs, reward, *rest: (obs, reward * 1e300, *rest), "env 0: reward .* too large"),
        (lambda obs, reward, a, *rest: (obs, reward, None, *rest), "returned None for terminated"),
        (lambda obs, reward, a, *rest: (obs, reward, a + 2, *rest), "returned array"),
        (lambda *rest: (*rest[:4], [{}, {}]), "returned a list for info"),
        (lambda *rest: rest[:4], "the step of Odd failed: ValueError"),
    ],
)
def test_invalid_columns_are_refused(change: Any, text: str) -> None:
    with closing(opened(lambda _: Odd(change), 2)) as manager:
        manager.step({0: 0, 1: 0})
        with pytest.raises(DicoreError, match=text):
            manager.step({0: 0, 1: 0})
        with pytest.raises(EnvStateError, match="is ERROR"):
            manager.step({0: 0, 1: 0})


def test_an_interrupted_step_stops_all() -> None:
    """Nobody knows which environments were stepped, and which rows are those of resets."""

    def interrupt(*result: Any) -> Any:
        raise KeyboardInterrupt

    with closing(opened(lambda _: Odd(interrupt), 2)) as manager:
        manager.step({0: 0, 1: 0})
        with pytest.raises(KeyboardInterrupt):
            manager.step({0: 0, 1: 0})
        assert manager.env_state(0) is EnvState.ERROR


def test_an_unknown_autoreset_mode_is_refused() -> None:
    def make(env_num: int) -> Any:
        vec = SyncVectorEnv([ScriptedEnv] * env_num)
        vec.metadata["autoreset_mode"] = "weird"
        return vec

    with pytest.raises(UsageError, match="is 'weird'"):
        opened(make, 2)


def test_environments_that_are_one_object_are_refused() -> None:
    env = ScriptedEnv()
    with pytest.raises(EnvCreateError, match="same object"):
        VectorEnvManager([lambda: env] * 2).launch()


class Wide(ScriptedEnv):
    """Pays a reward per objective."""

    reward_space = gymnasium.spaces.Box(-10, 10, (2,))

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward, -reward]), *rest


@pytest.mark.parametrize("mode", MODES)
def test_rewards_of_a_shape(mode: str) -> None:
    class Paying(SyncVectorEnv):
        single_reward_space = Wide.reward_space

        def __init__(self, makes: Any) -> None:
            super().__init__(makes, autoreset_mode=AutoresetMode(mode))
            self._rewards = np.zeros((len(makes), 2))

    with closing(opened(lambda n: Paying([partial(Wide, length=2)] * n), 2)) as manager:
        assert manager.reward_space.shape == (2,)
        manager.step({0: 0, 1: 1})
        step = manager.step({0: 0, 1: 2}).value
    assert step.reward.tolist() == [[0.5, -0.5], [2.5, -2.5]]
    assert step.reward.dtype == np.float32
    assert step.info[1]["eval_episode_return"].tolist() == [4.0, -4.0]


def config(*wrappers: Any, env: str = "cartpole", **manager: Any) -> Any:
    given = {"type": env, "manager": {"type": "vector", **manager}, "env_wrapper": list(wrappers)}
    return compile_config({"env": given, "policy": {"type": "random"}}).env


def test_by_config() -> None:
    """The environment's own vector env, or SyncVectorEnv, or what to set instead."""
    with closing(make_env_manager(config(), "collector", 0)) as manager:
        manager.launch()
        assert type(manager._pool.vec).__name__ == "CartPoleVectorEnv"
        assert manager.capabilities == frozenset()
    with closing(make_env_manager(config(env="acrobot"), "collector", 0)) as manager:
        assert "episode_seed" in manager.capabilities
    with closing(make_env_manager(config("clip_reward"), "collector", 0)) as manager:
        manager.launch()
        assert type(manager._pool.vec).__name__ == "SyncVectorEnv", "of wrapped environments"
        assert len(manager.step(manager.random_action())) == 8
    for section, message in (
        (
            config("clip_reward", vectorization_mode="vector_entry_point"),
            "clip_reward cannot wrap env 'CartPole-v1'",
        ),
        (
            config(env="acrobot", vectorization_mode="vector_entry_point"),
            "no vector env of its own",
        ),
    ):
        with pytest.raises((ConfigError, UsageError), match=message) as caught:
            make_env_manager(section, "collector", 0).launch()
        assert "vectorization_mode=sync" in str(caught.value.hint)


def test_sync_gives_the_data_of_the_base_manager() -> None:
    """Episodes have the same seeds, so that rewards, ends and observations are equal."""

    def play(name: str) -> list[Any]:
        env = config({"type": "time_limit", "max_episode_steps": 7}, env="acrobot", type=name)
        found = []
        with closing(make_env_manager(env, "collector", 3)) as manager:
            manager.launch()
            for number in range(20):
                answer = manager.step(dict.fromkeys(range(8), number % 3)).value
                found.append([answer.obs.tolist(), answer.reward.tolist(), answer.done.tolist()])
        return found

    assert play("vector") == play("base")


def test_a_loaded_state_begins_the_next_episodes(caplog: Any) -> None:
    with closing(opened(cartpole, 2)) as manager:
        for _ in range(5):
            manager.step(manager.random_action())
        state = manager.state_dict()
        used = manager.ready_obs.value.copy()
    twins = []
    for _ in range(2):
        twin = VectorEnvManager.of(cartpole, 2)
        twin.load_state_dict(state)
        with caplog.at_level(logging.WARNING), closing(twin):
            twin.launch()
            assert twin.brought_back is False
            assert "cannot repeat episodes" in caplog.text
            twins.append(twin.ready_obs.value)
    np.testing.assert_array_equal(*twins)
    assert not np.array_equal(twins[0], used)


def test_wrappers_go_on_with_what_they_measured() -> None:
    section = config("obs_norm", "reward_norm")
    with closing(make_env_manager(section, "collector", 0)) as manager:
        manager.launch()
        for _ in range(40):
            manager.step(manager.random_action())
        state = copy.deepcopy(manager.state_dict())
    assert [each[1]["count"] > 40 for each in state["layers"]] == [True] * 8
    with closing(make_env_manager(section, "collector", 0)) as twin:
        twin.load_state_dict(state)
        twin.launch()
        after = twin.state_dict()["layers"]
    for (rewards, obs), (other, seen) in zip(state["layers"], after, strict=True):
        assert rewards["var"] == other["var"]
        assert seen["count"] == obs["count"] + 1, "the first observation of the new episode"


@pytest.mark.parametrize("mode", MODES)
def test_the_last_info_is_that_of_the_step(mode: str) -> None:
    with closing(opened(scripted(mode, lengths(2)), 1)) as manager:
        manager.step({0: 0})
        info = manager.step({0: 0})[0].info
    assert info == {"step": 2, "eval_episode_return": 1.0, "episode_length": 2}


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Dict({"text": spaces.Text(4), "number": spaces.Box(-1, 1, (2,), np.float64)}),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_observations_that_are_no_arrays(mode: str, space: Any) -> None:
    makes = [partial(SpacedEnv, space, spaces.Discrete(2), 2)] * 3
    with closing(opened(scripted(mode, makes), 3)) as manager:
        for _ in range(3):
            answer = manager.step(manager.random_action())
            for env_id in answer:
                assert space.contains(as_it_was(answer[env_id].obs))


def as_it_was(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {**obs, "number": obs["number"].astype(np.float64)}
    return obs


def test_infos_of_single_environments() -> None:
    class Telling(ScriptedEnv):
        def step(self, action: Any) -> Any:
            *rest, info = super().step(action)
            return *rest, {"tag": self.tag, **info, "inner": {"part": np.full(2, self.tag)},
                           **({"odd": "yes"} if self.tag else {})}  # fmt: skip

    with closing(opened(scripted("NextStep", [partial(Telling, i) for i in range(2)]), 2)) as env:
        infos = env.step({0: 0, 1: 0}).value.info
    assert infos[0]["tag"] == 0
    assert "odd" not in infos[0]
    assert infos[-1]["odd"] == "yes"
    assert infos[1]["inner"]["part"].tolist() == [1, 1]
    assert len(infos[0:2]) == len(infos) == 2


def put(env: Any, obs: Any) -> None:
    """Sets the state that an observation shows; what it does not show has no effect."""
    env, (x, y, *more) = env.unwrapped, obs
    if hasattr(env, "set_state"):  # of MuJoCo: positions, without the first ones, and velocities
        state = np.concatenate([np.zeros(env.model.nq + env.model.nv - len(obs)), obs])
        env.set_state(state[: env.model.nq], state[env.model.nq :])
    elif type(env).__name__ == "PendulumEnv":
        env.state = np.array([np.arctan2(y, x), *more])
    elif type(env).__name__ == "AcrobotEnv":
        env.state = np.array([np.arctan2(y, x), np.arctan2(more[1], more[0]), *more[2:]])
    else:
        env.state = np.array(obs)


class TestEnvPool:
    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("envpool")
        monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file

    def make(self, env_num: int = 3, **options: Any) -> Any:
        from dicore_plugins.env_managers import EnvPoolManager

        return EnvPoolManager([lambda: None] * env_num, {"num_threads": 1, **options})

    def of_section(self, env: str, manager: dict[str, Any] | None = None, **options: Any) -> Any:
        named = {"type": "envpool", "num_threads": 1, **(manager or {})}
        given = {"env": {"type": env, "manager": named, **options}, "policy": {"type": "random"}}
        return make_env_manager(compile_config(given).env, "collector", 0)

    def test_cartpole(self) -> None:
        """Same seed, same data; every environment has its seed; returns are those of CartPole."""
        found = []
        for _ in range(2):
            with closing(self.make(task_id="CartPole-v1")) as manager:
                manager.seed([5, 6, 7])
                manager.launch()
                first = manager.ready_obs.value.copy()
                ends = []
                for _ in range(60):
                    answer = manager.step(dict.fromkeys(manager.ready_obs, 1))
                    for env_id in answer:
                        if answer[env_id].done:
                            info = answer[env_id].info
                            assert info["eval_episode_return"] == info["episode_length"] >= 8
                            assert info["elapsed_step"] == info["episode_length"]
                            ends.append((env_id, info["episode_length"]))
                found.append((first.tolist(), ends))
                manager.restart_episodes()
                manager.reset()
                np.testing.assert_array_equal(manager.ready_obs.value, first)
        assert found[0] == found[1]
        assert len(found[0][1]) > 6

    @pytest.mark.parametrize("env_id", sorted(_COMPARED))
    def test_steps_are_those_of_gymnasium(self, env_id: str) -> None:
        """From the state that an episode of EnvPool begins with, by equal actions."""
        if env_id.endswith("-v5"):
            pytest.importorskip("mujoco")
        plain = gymnasium.make(env_id)
        plain.reset(seed=0)
        plain.action_space.seed(0)
        with closing(self.make(env_num=1, task_id=env_id)) as manager:
            manager.seed(3)
            manager.launch()
            put(plain, manager.ready_obs.value[0].astype(float))
            for _ in range(25):
                action = plain.action_space.sample()
                obs, reward, terminated, _, _ = plain.step(action)
                (step,) = manager.step({0: action}).values()
                near = {"rtol": 1e-3, "atol": 1e-3}  # the first state is known in float32
                np.testing.assert_allclose(step.obs, obs, **near)
                np.testing.assert_allclose(step.reward, reward, **near)
                assert bool(step.terminated) == terminated
                if terminated:
                    break
            limit = manager._pool._spec.config.max_episode_steps
            assert plain.spec is not None
            assert limit == plain.spec.max_episode_steps
        plain.close()

    def test_another_environment_than_that_of_the_section_is_refused(self) -> None:
        """Whose options, and those of agents, would have no effect."""
        told = r"env\.manager\.task_id=Acrobot-v1: the environment of the section is CartPole-v1"
        with pytest.raises(ConfigError, match=told):
            self.of_section("cartpole", {"task_id": "Acrobot-v1"}).launch()
        self.of_section("cartpole", {"task_id": "CartPole-v1"}).close()

    def test_wrappers_are_refused_with_options_that_it_has(self) -> None:
        with pytest.raises(ConfigError, match="clip_reward cannot wrap") as caught:
            make_env_manager(config("clip_reward", type="envpool"), "collector", 0).launch()
        hint = "set env.manager.type=vector, or env.manager.type=base, or remove the wrappers"
        assert caught.value.hint == hint

    def test_options_of_the_section_are_passed_or_refused(self) -> None:
        """Else another environment would be trained than the config names."""

        made = self.of_section
        pytest.importorskip("mujoco")
        with closing(made("halfcheetah", ctrl_cost_weight=0.7)) as manager:
            manager.launch()
            assert manager._pool.vec.config["ctrl_cost_weight"] == pytest.approx(0.7)
        with closing(made("frozenlake")) as manager:
            assert manager._pool._options == {"max_episode_steps": 100}
        with closing(made("frozenlake", max_episode_steps=7)) as manager:
            assert manager._pool._options == {"max_episode_steps": 7}
        with closing(made("lunarlander")) as manager:
            assert manager._pool._options == {}
        for options in ({"map_name": "8x8"}, {"is_slippery": False}, {"make_kwargs": {"desc": []}}):
            with pytest.raises(ConfigError, match="FrozenLake-v1 has no such option") as caught:
                made("frozenlake", **options).launch()
            assert "env.manager.type=base" in caught.value.hint

    @pytest.mark.parametrize("env", ["cartpole_pomdp", "minigrid"])
    def test_a_changed_environment_is_refused(self, env: str) -> None:
        """EnvPool's has the velocities that one removes, and not the planes of the other."""
        pytest.importorskip("dicore_contrib_envs")
        pytest.importorskip("minigrid")
        with pytest.raises(ConfigError, match=f"has other data than {env}") as caught:
            self.of_section(env).launch()
        assert "env.manager.type=base" in str(caught.value.hint)

    @pytest.mark.parametrize("env", ["gym", "gymnasium"])
    def test_make_kwargs_are_passed_or_refused(self, env: str) -> None:
        """Of every section that has an `env_id`, also with a `task_id`."""
        pytest.importorskip(env)
        given = {"env_id": "Pendulum-v1", "n_evaluator_episode": 1, "stop_value": 0}
        for manager in ({}, {"task_id": "Pendulum-v1"}):
            kwargs = {"max_episode_steps": 7}
            with closing(self.of_section(env, manager, make_kwargs=kwargs, **given)) as made:
                made.launch()
                assert made._pool.vec.config["max_episode_steps"] == 7
        with closing(self.of_section(env, make_kwargs={"g": 10.0}, **given)) as made:
            assert made._pool._options == {}, "it is the usual one"
        for manager, name in (({}, "g"), ({"task_id": "Pendulum-v1"}, "zzz")):
            with pytest.raises(ConfigError, match=rf"env\.make_kwargs\.{name}=0\.0") as caught:
                self.of_section(env, manager, make_kwargs={name: 0.0}, **given).launch()
            assert "env.manager.type=base" in str(caught.value.hint)

    def test_a_cut_episode_shows_its_own_last_state(self) -> None:
        """Pendulum's rewards follow from the state before: -(angle^2 + 0.1 speed^2), no torque."""
        with closing(self.make(2, task_id="Pendulum-v1")) as manager:
            manager.seed([4, 5])
            manager.launch()
            ends = []
            for step in range(410):
                before = {env_id: obs.copy() for env_id, obs in manager.ready_obs.items()}
                answer = manager.step({env_id: np.zeros(1, np.float32) for env_id in before})
                for env_id in answer:
                    cos, sin, speed = before[env_id].astype(np.float64)
                    wanted = -(np.arctan2(sin, cos) ** 2 + 0.1 * speed**2)
                    assert answer[env_id].reward == pytest.approx(wanted, abs=1e-4)
                    turned = np.arctan2(*answer[env_id].obs[1::-1]) - np.arctan2(sin, cos)
                    turned = (turned + np.pi) % (2 * np.pi) - np.pi
                    assert turned == pytest.approx(0.05 * answer[env_id].obs[2], abs=1e-4)
                    assert not answer[env_id].terminated
                    if answer[env_id].truncated:
                        assert answer[env_id].info["episode_length"] == 200
                        ends.append((step, env_id))
            assert [env_id for _, env_id in ends] == [0, 1, 0, 1]

    @pytest.mark.parametrize(
        "env_id", ["HalfCheetah-v5", "Ant-v5", "LunarLander-v3", "BipedalWalker-v3"]
    )
    def test_ids_are_those_of_gymnasium(self, env_id: str) -> None:
        """Spaces are equal, too: what was trained with one is evaluated with the other."""
        spec = gymnasium.spec(env_id)
        pytest.importorskip("mujoco" if "mujoco" in str(spec.entry_point) else "Box2D")
        with (
            closing(self.make(1, task_id=env_id)) as manager,
            closing(gymnasium.make(env_id)) as env,
        ):
            assert manager.observation_space.shape == env.observation_space.shape
            if isinstance(env.action_space, gymnasium.spaces.Discrete):
                assert manager.action_space == env.action_space
            else:
                np.testing.assert_allclose(manager.action_space.high, env.action_space.high)
                np.testing.assert_allclose(manager.action_space.low, env.action_space.low)
            assert manager.action_space.shape == env.action_space.shape

    def test_frames_are_those_of_envpool(self) -> None:
        with closing(self.make(2, task_id="Pong-v5")) as manager:
            assert manager.observation_space.shape == (4, 84, 84)
            manager.launch()
            answer = manager.step({0: 0, 1: 1})
            assert answer.value.obs.dtype == np.uint8
            assert "lives" in answer[0].info
            with pytest.raises(ActionError, match="action 6"):
                manager.step({0: 6, 1: 0})

    def test_unknown_arguments(self) -> None:
        with pytest.raises(UsageError, match=r"make_kwargs.*'foo'"):
            self.make(task_id="CartPole-v1", make_kwargs={"foo": 1}).launch()

    def test_unknown_ids(self) -> None:
        for name, near in (("ALE/Pong-v5", "Pong-v5"), (None, "…")):
            with pytest.raises(UsageError, match="EnvPool has no environment") as caught:
                self.make(task_id=name).launch()
            assert f"task_id={near} " in str(caught.value.hint)
