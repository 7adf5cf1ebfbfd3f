"""FEATURES A17-A19, A22, A23, A25, A28, A31: where each environment stands."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from dicore.errors import (
    ActionError,
    ClosedError,
    EnvCreateError,
    EnvResetError,
    EnvStateError,
    EnvStepError,
    UsageError,
)
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers.base.manager import BaseEnvManager

from .toy_envs import BadReset, CountEnv, Faulty, manager_of, rollout


def states(manager: BaseEnvManager) -> list[str]:
    return [manager.env_state(env_id).name for env_id in range(manager.env_num)]


class Watcher(CountEnv):
    """Looks at its own state while it is being reset."""

    manager: BaseEnvManager
    seen: list[EnvState]

    def reset(self, **kwargs: Any) -> Any:
        self.seen.append(self.manager.env_state(0))
        return super().reset(**kwargs)


def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


def test_nothing_is_made_before_it_is_needed() -> None:
    made = []
    manager = BaseEnvManager([lambda i=i: made.append(i) or CountEnv(i) for i in range(3)])
    assert (manager.closed, manager.active_env, made) == (True, [], [])
    assert states(manager) == ["VOID"] * 3
    assert manager.observation_space.shape == (4,)
    assert made == [0]
    assert states(manager) == ["INIT", "VOID", "VOID"]
    manager.launch()
    assert made == [0, 1, 2]
    assert states(manager) == ["RUN"] * 3
    assert manager.active_env == [0, 1, 2]
    manager.close()
    assert states(manager) == ["VOID"] * 3


def test_run_reset_run_of_an_automatic_reset() -> None:
    env = Watcher(0, length=2)
    manager = manager_of(env, launch=False)
    env.manager, env.seen = manager, []
    manager.launch()
    rollout(manager, 3)
    assert env.seen == [EnvState.RESET] * 2
    assert states(manager) == ["RUN"]


def test_run_need_reset_run_by_hand() -> None:
    manager = manager_of(CountEnv(0, length=2), CountEnv(1, length=5), auto_reset=False)
    rollout(manager, 2)
    assert states(manager) == ["NEED_RESET", "RUN"]
    assert list(manager.ready_obs) == [1]
    with pytest.raises(EnvStateError, match=r"env 0 is NEED_RESET.*cannot be stepped") as caught:
        manager.step({0: 0, 1: 0})
    assert caught.value.context == {"env_id": 0, "state": "NEED_RESET"}
    manager.step({1: 0})
    manager.reset({0: None})
    assert states(manager) == ["RUN", "RUN"]
    assert [manager.ready_obs[i][3] for i in range(2)] == [0, 3]


def test_run_done_run_counts_episodes() -> None:
    manager = manager_of(*(CountEnv(i, length=i + 1) for i in range(3)), episode_num=2)
    ended = 0
    while not manager.done:
        ended += sum(step[2] for step in rollout(manager, 1)[0].values())
    assert ended == 6
    assert states(manager) == ["DONE"] * 3
    assert (len(manager.ready_obs), manager.active_env) == (0, [])
    with pytest.raises(EnvStateError, match="env 1 is DONE"):
        manager.step({1: 0})
    manager.reset([1])
    assert states(manager) == ["DONE", "RUN", "DONE"]
    assert (manager.done, manager.active_env) == (False, [1])
    rollout(manager, 4)
    assert manager.done, "env 1 has played its two episodes again"
    manager.reset()
    assert states(manager) == ["RUN"] * 3


@pytest.mark.parametrize("auto_reset", [True, False])
def test_episode_num_ends_with_done_however_it_is_reset(auto_reset: bool) -> None:
    manager = manager_of(CountEnv(length=1), episode_num=1, auto_reset=auto_reset)
    rollout(manager, 1)
    assert states(manager) == ["DONE"]
    assert manager.done


def test_run_error_run() -> None:
    manager = manager_of(CountEnv(0), Faulty(boom))
    rollout(manager, 1)
    with pytest.raises(EnvStepError):
        manager.step({0: 0, 1: 0})
    assert states(manager) == ["RUN", "ERROR"]
    with pytest.raises(EnvStateError, match="env 1 is ERROR"):
        manager.step({1: 0})
    manager.reset({1: None})
    assert states(manager) == ["RUN", "RUN"]
    assert len(rollout(manager, 1)[0]) == 2


def test_reset_error_void() -> None:
    """Retries are spent: the manager closes, and can be launched again."""
    manager = manager_of(CountEnv(0), BadReset(times=3, after=1))
    with pytest.raises(EnvResetError):
        rollout(manager, 2)
    assert manager.closed
    assert states(manager) == ["VOID", "VOID"]
    manager.launch()
    assert states(manager) == ["RUN", "RUN"]


def test_void_error_void_of_a_launch() -> None:
    good = CountEnv(0)
    manager = manager_of(good, BadReset(times=3), launch=False)
    with pytest.raises(EnvResetError):
        manager.launch()
    assert manager.closed
    assert states(manager) == ["VOID", "VOID"]
    assert good.closed == 1
    manager.launch()
    assert states(manager) == ["RUN", "RUN"]


def test_a_constructor_that_fails_leaves_the_manager_closed() -> None:
    def fail() -> Any:
        raise OSError("no display")

    good = CountEnv(0)
    manager = BaseEnvManager([lambda: good, fail])
    with pytest.raises(EnvCreateError, match=r"env 1 could not be made: OSError: no display") as e:
        manager.launch()
    assert isinstance(e.value.__cause__, OSError)
    assert e.value.context["env_id"] == 1
    assert manager.closed
    assert good.closed == 1


@pytest.mark.parametrize("what", ["ready_obs", "random_action", "step", "step_into", "reset"])
def test_use_while_closed_raises(what: str) -> None:
    manager = manager_of(CountEnv(0), launch=False)

    def use() -> Any:
        if what == "ready_obs":
            return manager.ready_obs
        arguments = [{0: 0}] if what.startswith("step") else []
        return getattr(manager, what)(*arguments)

    with pytest.raises(ClosedError, match="not launched"):
        use()
    manager.launch()
    use()
    manager.close()
    with pytest.raises(ClosedError, match="not launched"):
        use()


def test_the_destructor_closes() -> None:
    env = CountEnv(0)
    manager = manager_of(env)
    del manager
    gc.collect()
    assert env.closed == 1


def test_leaving_a_with_block_closes() -> None:
    env = CountEnv(0)
    with manager_of(env) as manager:
        assert not manager.closed
    assert (manager.closed, env.closed) == (True, 1)


def test_a_failing_close_is_told_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(CountEnv):
        def close(self) -> None:
            raise OSError("stuck")

    last = CountEnv(1)
    manager = manager_of(Stuck(0), last)
    with caplog.at_level("WARNING", "dicore.env"):
        manager.close()
    assert "closing env 0 failed: OSError: stuck" in caplog.text
    assert last.closed == 1


@pytest.mark.parametrize("env_id", [-1, 2])
def test_unknown_ids_are_refused(env_id: int) -> None:
    manager = manager_of(CountEnv(0), CountEnv(1))
    for use in (manager.step, manager.reset, lambda some: manager.reset(list(some))):
        with pytest.raises(EnvStateError, match=rf"unknown env id {env_id}"):
            use({env_id: {}} if use == manager.reset else {env_id: 0})
    assert np.array_equal(manager.ready_obs.env_id, [0, 1])


def test_repr_tells_size_and_state() -> None:
    manager = manager_of(CountEnv(0), CountEnv(1))
    assert repr(manager) == "BaseEnvManager(2 envs, open)"
    manager.close()
    assert repr(manager) == "BaseEnvManager(2 envs, closed)"


def test_one_object_is_one_environment() -> None:
    """Two that share it would step each other."""
    env = CountEnv(0)
    manager = BaseEnvManager([lambda: env, lambda: CountEnv(1), lambda: env])
    with pytest.raises(EnvCreateError, match="env 0 and env 2 are the same object"):
        manager.launch()
    assert manager.closed


@pytest.mark.parametrize("wrong", [[], CountEnv, None])
def test_factories_come_in_a_list(wrong: Any) -> None:
    with pytest.raises(UsageError, match="a list of functions"):
        BaseEnvManager(wrong)


@pytest.mark.parametrize("wrong", [[0, 1], None, 0])
def test_actions_come_by_environment(wrong: Any) -> None:
    with pytest.raises(ActionError, match="by env id"):
        manager_of(CountEnv(0), CountEnv(1)).step(wrong)


@pytest.mark.parametrize("env_id", [1.5, "1", True, None], ids=repr)
def test_an_id_that_is_no_integer_names_no_environment(env_id: Any) -> None:
    manager = manager_of(CountEnv(0), CountEnv(1))
    for act in (lambda: manager.step({env_id: 0}), lambda: manager.reset([env_id])):
        with pytest.raises(EnvStateError, match=f"env id {env_id!r} is not an integer"):
            act()
    with pytest.raises(EnvStateError, match="are not env ids"):
        manager.reset("01")
    manager.reset(np.array([1]))
    assert manager.step({np.int64(1): 0})[1].obs[3] == 1
