"""Environments in threads: steps overlap, nothing is pickled, and what hangs is given up."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import gymnasium
import psutil
import pytest

from dicore.errors import EnvCreateError, EnvResetError, EnvStepError
from dicore_plugins.env_managers import BaseEnvManager, ThreadEnvManager
from dicore_plugins.env_managers.threads.worker import Inbox
from tests.plugins.env_managers.toy_envs import CountEnv, Tired, rollout


@pytest.fixture
def wake() -> Iterator[threading.Event]:
    """Ends the hangs of a test."""
    event = threading.Event()
    yield event
    event.set()


class Hanging(CountEnv):
    """Hangs in its second step, in its second reset, or where it is made, until it is woken."""

    def __init__(self, where: str, wake: threading.Event, tag: int = 1) -> None:
        super().__init__(tag)
        self.where, self.wake = where, wake
        self.returned = False
        if where == "init":
            wake.wait(30)

    def step(self, action: Any) -> Any:
        made = super().step(action)
        if self.where == "step" and self.count == 2:
            self.wake.wait(30)
            self.returned = True
        return made

    def reset(self, **kwargs: Any) -> Any:
        made = super().reset(**kwargs)
        if self.where == "reset" and len(self.seeds) == 2:
            self.wake.wait(30)
        return made


class Together(CountEnv):
    """Steps when all others do; a barrier keeps it from being pickled."""

    def __init__(self, tag: int, together: threading.Barrier) -> None:
        super().__init__(tag)
        self.together = together
        self.threads = {threading.current_thread()}

    def step(self, action: Any) -> Any:
        self.threads.add(threading.current_thread())
        self.together.wait(30)  # which fails if they are stepped one after the other
        return super().step(action)

    def reset(self, **kwargs: Any) -> Any:
        self.threads.add(threading.current_thread())
        return super().reset(**kwargs)

    def render(self) -> Any:
        self.threads.add(threading.current_thread())

    def close(self) -> None:
        self.threads.add(threading.current_thread())
        super().close()


def threaded(makes: list[Callable[[], Any]], **options: Any) -> closing[Any]:
    manager = ThreadEnvManager(makes, {"retry_waiting_time": 0.0, **options})
    manager.seed(0)
    return closing(manager)


def test_steps_overlap_and_each_environment_has_its_thread() -> None:
    envs: list[Together] = []
    together = threading.Barrier(8)

    def make(tag: int) -> Any:
        envs.append(Together(tag, together))
        return envs[-1]

    with threaded([lambda tag=tag: make(tag) for tag in range(8)]) as manager:
        before = threading.active_count()
        assert manager.observation_space.shape == (4,)
        assert threading.active_count() <= before + 1
        manager.launch()
        assert threading.active_count() == before + 8
        rollout(manager, 5)
        manager.env_call("render")
        used = psutil.Process().cpu_times()
        time.sleep(0.2)
        after = psutil.Process().cpu_times()
        assert after.user + after.system - used.user - used.system < 0.1, "it waits by working"
    assert [len(env.threads) for env in envs] == [1] * 8
    assert len(set.union(*(env.threads for env in envs))) == 8
    assert threading.main_thread() not in set.union(*(env.threads for env in envs))


def test_the_last_answer_wakes_who_waits_for_it() -> None:
    """He does not sleep until his time is over."""
    inbox, found = Inbox(), list[bool]()
    waiting = threading.Thread(target=lambda: found.append(inbox.wait(2, 60)))
    waiting.start()
    while inbox._enough != 2:
        time.sleep(0.001)
    for number in range(2):
        inbox.put(None, number, None)  # type: ignore[arg-type] # nobody looks at the life
    waiting.join(30)
    assert found == [True]


def test_resets_overlap() -> None:
    all_of_them = threading.Barrier(8)

    class Meets(CountEnv):
        def reset(self, **kwargs: Any) -> Any:
            all_of_them.wait(30)  # which fails if they are reset one after the other
            return super().reset(**kwargs)

    with threaded([Meets] * 8) as manager:
        manager.launch()
        manager.reset()
        assert [len(manager.env_attr("seeds")[i]) for i in range(8)] == [2] * 8


def test_a_hanging_step_is_given_up(
    wake: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Hanging] = []

    def make() -> Any:
        made.append(Hanging("step" if not made else "", wake))
        return made[-1]

    options = {"step_timeout": 0.5, "restart_budget": 1}
    with threaded([lambda: CountEnv(0), make], **options) as manager:
        manager.launch()
        rollout(manager, 1)
        begun = time.perf_counter()
        (found,) = rollout(manager, 1)
        assert time.perf_counter() - begun > 0.4
        assert found[1][4] == {"abnormal": True, "error": found[1][4]["error"]}
        assert "no answer within 0.5 s" in found[1][4]["error"]
        assert re.search(r"env 1 is being stepped for \d+\.\d s; the limit is 0\.5 s", caplog.text)
        assert "env 1: no answer within 0.5 s" in caplog.text
        assert found[0][0][3] == 2, "the others have made their step"
        assert len(made) == 2
        wake.set()  # the late answer is that of no later step
        for count in (1, 2, 3):
            (found,) = rollout(manager, 1)
            assert found[1][0].tolist()[1:] == [1, 0, count]
        until = time.monotonic() + 30
        while not made[0].closed and time.monotonic() < until:
            time.sleep(0.01)
        assert made[0].returned
        assert made[0].closed == 1, "the thread that was given up closes its environment"
    assert [env.closed for env in made] == [1, 1]


def test_a_hanging_step_without_a_budget_raises_and_can_be_reset(wake: threading.Event) -> None:
    where = iter(["step", ""])
    with threaded([CountEnv, lambda: Hanging(next(where), wake)], step_timeout=0.2) as manager:
        manager.launch()
        rollout(manager, 1)
        with pytest.raises(EnvStepError, match=r"env 1: step 2 .*no answer within 0\.2 s"):
            rollout(manager, 1)
        manager.reset({1: None})
        assert [found[1][0][3] for found in rollout(manager, 3)] == [1, 2, 3]


@pytest.mark.parametrize(("failures", "raises"), [(1, False), (2, True)])
def test_a_hanging_reset_is_tried_again(
    wake: threading.Event, failures: int, *, raises: bool
) -> None:
    where = iter(["reset"] * failures + [""])
    options = {"reset_timeout": 0.3, "max_retry": 2}

    def make() -> Any:
        env = Hanging(next(where), wake)
        env.seeds.append(None)  # so that the first reset hangs
        return env

    with threaded([CountEnv, make], **options) as manager:
        if raises:
            with pytest.raises(EnvResetError, match="env 1: reset failed 2 times"):
                manager.launch()
            assert manager.closed
        else:
            manager.launch()
            assert [found[1][0][3] for found in rollout(manager, 2)] == [1, 2]


def test_an_environment_that_cannot_be_made_in_time(wake: threading.Event) -> None:
    with threaded([CountEnv, lambda: Hanging("init", wake)], reset_timeout=0.3) as manager:
        begun = time.perf_counter()
        with pytest.raises(
            EnvCreateError, match=r"env 1 could not be made: .*no answer within 0\.3 s"
        ):
            manager.launch()
        assert time.perf_counter() - begun < 29, "the environment takes 30 s"
        assert manager.closed


def test_a_hanging_environment_does_not_keep_it_from_closing(
    wake: threading.Event, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_plugins.env_managers.env_pool.CLOSE_S", 0.5)
    env = CountEnv()
    env.close = lambda: wake.wait(30)  # type: ignore[assignment,method-assign,return-value]
    other = CountEnv()
    with caplog.at_level(logging.WARNING), threaded([lambda: env, lambda: other]) as manager:
        manager.launch()
        begun = time.perf_counter()
        manager.close()
        assert time.perf_counter() - begun < 29, "the environment takes 30 s"
        assert "env 0: it did not close within 0.5 s" in caplog.text
        assert other.closed == 1


def test_faults_of_threads_are_those_of_the_environment() -> None:
    class Bad(CountEnv):
        def step(self, action: Any) -> Any:
            return super().step(action)[:3]

    with threaded([CountEnv, Bad]) as manager:
        manager.launch()
        with pytest.raises(EnvStepError, match=r"env 1: step 1 .* invalid result: not enough"):
            rollout(manager, 1)

    def missing() -> Any:
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    with threaded([CountEnv, missing]) as manager:
        with pytest.raises(EnvCreateError, match="env 1 could not be made") as caught:
            manager.launch()
        assert "nowhere" in caught.value.hint
    env = CountEnv()
    with (
        threaded([lambda: env] * 2) as manager,
        pytest.raises(EnvCreateError, match="the same object"),
    ):
        manager.launch()


def test_states_of_layers_and_running_episodes_are_saved() -> None:
    def make() -> Any:
        return Tired(gymnasium.make("CartPole-v1", max_episode_steps=30))

    managers = [cls([make] * 2) for cls in (BaseEnvManager, ThreadEnvManager, ThreadEnvManager)]
    for manager in managers[:2]:
        manager.seed(3)
        manager.launch()
        rollout(manager, 40, lambda step: step % 2)
    base, thread, twin = managers
    twin.load_state_dict(thread.state_dict())
    twin.launch()
    assert twin.brought_back
    for _ in range(40):
        found = [rollout(manager, 1, lambda step: 1) for manager in managers]
        for _, reward, *flags in found[0][0].values():
            assert all(each[0].keys() == {0, 1} for each in found)
            assert [[list(each[0][i][1:4]) for i in (0, 1)] for each in found[1:]] == [
                [list(found[0][0][i][1:4]) for i in (0, 1)]
            ] * 2, (reward, flags)
    for manager in managers:
        manager.close()
    assert base.closed
