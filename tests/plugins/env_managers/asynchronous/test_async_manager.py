"""Environments at their own pace: who is slow, resets or hangs does not slow the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from dicore.errors import ClosedError, EnvResetError, EnvStateError, EnvStepError
from dicore.interfaces.env_manager import EnvState
from dicore.testing.component import Component
from dicore_plugins.env_managers import AsyncEnvManager, BaseEnvManager
from dicore_registry import default
from dicore_registry.queries import look_up
from tests.plugins.env_managers.toy_envs import BadReset, CountEnv

WAKE = threading.Event()


@pytest.fixture(autouse=True)
def _wake() -> Iterator[None]:
    WAKE.clear()
    yield
    WAKE.set()


def _pass(seconds: float) -> None:
    if seconds < 0:
        WAKE.wait(30)
    else:
        time.sleep(seconds)


class Slow(CountEnv):
    """Takes its time in steps and in resets after the first; below 0: until it is woken."""

    def __init__(
        self, tag: int, step_s: float = 0.0, reset_s: float = 0.0, length: int = 5, hang: int = 0
    ) -> None:
        super().__init__(tag, length)
        self.step_s, self.reset_s, self.hang = step_s, reset_s, hang

    def step(self, action: Any) -> Any:
        _pass(self.step_s)
        made = super().step(action)
        if len(self.actions) == self.hang:
            WAKE.wait(30)
        return made

    def reset(self, **kwargs: Any) -> Any:
        made = super().reset(**kwargs)
        if len(self.seeds) > 1:
            _pass(self.reset_s)
        return made


def manager_of(makes: list[Callable[[], Any]], **options: Any) -> closing[Any]:
    manager = AsyncEnvManager(makes, {"children": "thread", "retry_waiting_time": 0.0, **options})
    manager.seed(0)
    manager.launch()
    return closing(manager)


def act(manager: Any, times: int = 1) -> Any:
    for _ in range(times):
        answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
    return answer


def test_the_slow_do_not_slow_the_fast() -> None:
    with manager_of([partial(Slow, i, -(i // 2), 0.0, 0) for i in range(4)]) as manager:
        assert set(manager.step(dict.fromkeys(range(4), 0))) == {0, 1}
        counts = dict.fromkeys(range(4), 0)
        while min(counts[0], counts[1]) < 50:
            for env_id in act(manager):
                counts[env_id] += 1
        assert counts[2] == counts[3] == 0
        assert [manager.env_state(i) for i in (2, 3)] == [EnvState.STEP] * 2
        WAKE.set()
        while min(counts.values()) < 3:
            for env_id in act(manager):
                counts[env_id] += 1


@pytest.mark.parametrize(
    ("wait_s", "num", "hang", "answers"), [(30, 1, 0, 4), (0.0, 4, 0, 4), (0.0, 1, 1, 1)]
)
def test_it_waits_for_more(wait_s: float, num: int, hang: int, answers: int) -> None:
    """As long as it is told to, and no longer than until all have answered."""
    options = {"wait_num": num, "step_wait_timeout": wait_s}
    times = [0.0, *([-1.0] * 3 if hang else (0.05, 0.1, 0.15))]
    with manager_of([partial(Slow, i, times[i]) for i in range(4)], **options) as manager:
        begun = time.monotonic()
        assert len(act(manager)) == answers
        assert time.monotonic() - begun < 29, "all of them had answered"


def test_resets_go_on_in_the_background() -> None:
    """What the slow one does meanwhile, the others do in more than 50 steps."""
    makes = [partial(Slow, 0, 0.0, -1, 3), *(partial(Slow, i, 0.0, 0.0, 5) for i in (1, 2, 3))]
    with manager_of(makes, step_wait_timeout=0.0) as manager:
        while manager.env_state(0) is not EnvState.RESET:
            act(manager)
        assert 0 not in manager.ready_obs
        with pytest.raises(EnvStateError, match="env 0 is RESET"):
            manager.step({0: 0})
        steps = dict.fromkeys((1, 2, 3), 0)
        while min(steps.values()) < 51:
            for env_id in act(manager):
                steps[env_id] += 1
        WAKE.set()
        while 0 not in manager.ready_obs:
            act(manager)
        assert manager.ready_obs[0][3] < 2, "a new episode"


def test_reset_inplace_waits_for_resets() -> None:
    both = threading.Barrier(2)

    class Meets(CountEnv):
        def reset(self, **kwargs: Any) -> Any:
            both.wait(30)  # which fails if they are reset one after the other
            return super().reset(**kwargs)

    makes = [partial(Meets, i, 2) for i in (0, 1)]
    with manager_of(makes, reset_inplace=True, wait_num=2) as manager:
        act(manager)
        answer = act(manager)
        assert all(answer[i].done for i in answer)
        assert [manager.env_state(i) for i in (0, 1)] == [EnvState.RUN] * 2
        assert set(manager.ready_obs) == {0, 1}


def test_without_timesteps_it_waits_for_resets() -> None:
    with manager_of([partial(Slow, i, 0.0, 0.2, 1) for i in (0, 1)]) as manager:
        manager.step({0: 0, 1: 0})
        found = manager.step({})
        assert len(found) == 0
        assert found.value.obs.shape == (0, 4)
        assert len(manager.ready_obs) > 0
        manager.step(dict.fromkeys(manager.ready_obs, 0))
        manager.reset()
        assert set(manager.ready_obs) == {0, 1}
        manager.step({0: 0, 1: 0})
        assert len(manager.ready_obs) > 0, "which waits for a reset"
        while len(manager.ready_obs) < 2:
            manager.step({})
        with pytest.raises(EnvStateError, match="none was"):
            manager.step({})


def test_each_action_sent_is_answered_once() -> None:
    """`step(block=False)` and `recv`."""
    with manager_of([partial(Slow, i, 0.002 * i, 0.0, 4) for i in range(4)]) as manager:
        sent, received = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0)
        for _ in range(40):
            ready = manager.ready_obs
            if len(ready):
                assert len(manager.step(dict.fromkeys(ready, 1), block=False)) == 0
                for env_id in ready:
                    sent[env_id] += 1
                with pytest.raises(EnvStateError, match="is STEP"):
                    manager.step(dict.fromkeys(set(ready), 1), block=False)
            for env_id in (answer := manager.recv()):
                assert answer[env_id].obs[3] == received[env_id] % 4 + 1
                received[env_id] += 1
        while sent != received:
            for env_id in manager.recv():
                received[env_id] += 1
        while len(manager.ready_obs) < 4:
            assert len(manager.recv()) == 0
        assert len(manager.step({}, block=False)) == 0
        with pytest.raises(EnvStateError, match="none was"):
            manager.recv()
    with pytest.raises(ClosedError):
        manager.step({0: 0}, block=False)


def test_a_hanging_step_costs_its_episode() -> None:
    hangs = iter((2, 0))
    makes = [partial(Slow, 0), lambda: Slow(1, hang=next(hangs))]
    options = {"step_timeout": 1.0, "restart_budget": 1, "step_wait_timeout": 0.0, "wait_num": 1}
    with manager_of(makes, **options) as manager:
        counts, abnormal, begun = [0, 0], 0, time.perf_counter()
        while counts[1] < 4:
            answer = act(manager)
            for env_id in answer:
                counts[env_id] += 1
                abnormal += answer[env_id].info.get("abnormal", False)
            if abnormal and not WAKE.is_set():
                assert time.perf_counter() - begun > 0.9
                WAKE.set()
        assert abnormal == 1
        assert counts[0] > 10, "it goes on meanwhile"
        assert int(manager.ready_obs[1][3]) == 2, "the late answer is dropped"


def test_failing_resets_are_tried_again_in_the_background() -> None:
    makes = [partial(BadReset, 2, 0, 1), partial(Slow, 1, 0.0, 0.0, 0)]
    options = {"max_retry": 3, "retry_waiting_time": 0.2, "step_wait_timeout": 0.0}
    with manager_of(makes, **options) as manager:
        while manager.env_state(0) is not EnvState.RESET:
            act(manager)
        seen = 0
        while 0 not in manager.ready_obs:
            seen += len(act(manager))
        assert seen > 2, "the other one goes on"
        assert manager.env_attr("seeds")[0][-3:] == [manager.env_attr("seeds")[0][-1]] * 3
    with manager_of(makes, **options | {"max_retry": 2, "retry_waiting_time": 0.0}) as manager:
        with pytest.raises(EnvResetError, match="env 0: reset failed 2 times"):
            act(manager, 10**6)
        assert manager.closed


def test_a_bad_observation_of_a_reset_in_the_background() -> None:
    class Bad(CountEnv):
        def reset(self, **kwargs: Any) -> Any:
            obs, info = super().reset(**kwargs)
            return (obs if len(self.seeds) != 2 else obs * float("nan")), info

    with manager_of([lambda: Bad(0, 2), partial(Slow, 1)]) as manager:
        with pytest.raises(Exception, match=r"env 0: observation.* is nan"):
            act(manager, 10**6)
        assert manager.env_state(0) is EnvState.ERROR
        manager.reset({0: None})
        assert 0 in manager.ready_obs


def test_errors_of_steps_name_their_environment() -> None:
    class Bad(CountEnv):
        def step(self, action: Any) -> Any:
            WAKE.wait(30)
            raise RuntimeError("gone")

    options = {"wait_num": 1, "step_wait_timeout": 0.0, "restart_budget": 0}
    with manager_of([partial(Slow, 0), lambda: Bad(1)], **options) as manager:
        assert list(manager.step({0: 0, 1: 2})) == [0]
        WAKE.set()
        with pytest.raises(EnvStepError, match=r"env 1: step 1 of .* failed on action 2"):
            act(manager, 10**6)


def test_the_state_is_that_of_the_next_episodes() -> None:
    """Also while a reset is in progress; pending actions are no part of it."""
    makes = [partial(CountEnv, i, 3) for i in (0, 1)]
    with manager_of([partial(Slow, i, 0.0, 0.1, 3) for i in (0, 1)]) as manager:
        for _ in range(3):
            manager.step({0: 0, 1: 0})
        assert manager.env_state(0) is EnvState.RESET
        state = manager.state_dict()
        assert set(manager.ready_obs) == {0, 1}
    twin = BaseEnvManager(makes)
    twin.load_state_dict(state)
    twin.launch()
    assert twin.brought_back
    assert [twin.ready_obs[i].tolist() for i in (0, 1)] == [each["obs"].tolist() for each in
                                                            state["running"]]  # fmt: skip


def test_it_closes_while_steps_and_resets_are_pending(caplog: pytest.LogCaptureFixture) -> None:
    with manager_of([partial(Slow, 0, 0.0, 0.3, 1), partial(Slow, 1, 0.3)]) as manager:
        manager.step({0: 0, 1: 0}, block=False)
        manager.recv()
        manager.close()
        assert "did not close" not in caplog.text
        manager.launch()
        assert set(manager.ready_obs) == {0, 1}
        assert [int(manager.ready_obs[i][3]) for i in (0, 1)] == [0, 0]


def test_by_name_it_steps_in_threads_of_this_process() -> None:
    component = Component(look_up(default(), "env_manager/env_supervisor"), default())
    made = [Slow(0), Slow(1, -1)]
    makes = [partial(made.__getitem__, i) for i in (0, 1)]
    options = {"wait_num": 1, "step_wait_timeout": 0.0}
    with closing(component.build(options, env_fn=makes)) as manager:
        assert isinstance(manager, AsyncEnvManager)
        manager.seed([3, 4])
        manager.launch()
        assert set(manager.step({0: 2, 1: 2})) == {0}, "the other one waits to be woken"
        assert manager.env_state(1) is EnvState.STEP
        assert made[0].actions == [2], "it is not a copy that was stepped"
        assert [each.seeds for each in made] == [[3], [4]]
        WAKE.set()
    assert [each.closed for each in made] == [1, 1]
