"""RELIABILITY B01, B02; FEATURES A44-A47: what fails is named, chained and can begin again."""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from dicore.errors import EnvCreateError, EnvError, EnvResetError, EnvStepError, NonFiniteError
from dicore.interfaces.env_manager import EnvState
from dicore_plugins.env_managers import ThreadEnvManager, env_pool, episodes
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.faults import (
    RemoteError,
    all_of,
    described,
    retry_wait,
    warn_no_effect,
)

from .toy_envs import BadReset, CountEnv, Faulty, Tired, column, manager_of, rollout

GOOD: dict[str, tuple[Any, float]] = {
    "int": (3, 3.0),
    "bool": (True, 1.0),
    "numpy_bool": (np.True_, 1.0),
    "float64": (np.float64(0.1), float(np.float32(0.1))),
    "half": (np.float16(0.5), 0.5),
    "shape_0": (np.array(0.25), 0.25),
    "shape_1": (np.array([0.25]), 0.25),
    "list_of_1": ([0.25], 0.25),
    "large": (1e38, float(np.float32(1e38))),
    "largest": (-3.4e38, float(np.float32(-3.4e38))),
    "negative": (-2, -2.0),
}


def rewards(value: Any, others: Any = 1.0) -> tuple[CountEnv, ...]:
    return CountEnv(0, rewards=(others,)), CountEnv(1, rewards=(value,), length=2)


@pytest.mark.parametrize(("given", "wanted"), GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("alone", [False, True], ids=["mixed", "alone"])
def test_rewards_of_every_form_become_float32(given: Any, wanted: float, alone: bool) -> None:
    manager = manager_of(*rewards(given, given if alone else 1.0))
    first, second = (manager.step({0: 0, 1: 0}) for _ in range(2))
    for answer in (first, second):
        assert answer.value.reward.dtype == np.float32
        assert answer.value.reward.tolist() == [wanted if alone else 1.0, wanted]
    assert second[1].info["eval_episode_return"] == wanted + wanted
    some = manager.step({1: 0})
    assert some.value.reward.tolist() == [wanted]


def test_tensors_are_rewards() -> None:
    torch = pytest.importorskip("torch")
    for given in (torch.tensor(0.25), torch.tensor([0.25]), torch.tensor(0.25, requires_grad=True)):
        manager = manager_of(*rewards(given))
        assert manager.step({0: 0, 1: 0}).value.reward.tolist() == [1.0, 0.25]


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (None, EnvStepError, "reward None is not a number"),
    "digits": ("1.5", EnvStepError, "reward '1.5' is not a number"),
    "text": ("much", EnvStepError, "reward 'much' is not a number"),
    "pair": (np.array([1.0, 2.0]), EnvStepError, "reward of shape (2,) is not a number"),
    "empty": ([], EnvStepError, "reward [] is not a number"),
    "dict": ({"a": 1}, EnvStepError, "reward {'a': 1} is not a number"),
    "nan": (float("nan"), NonFiniteError, "reward nan is not finite"),
    "numpy_nan": (np.float32("nan"), NonFiniteError, "reward nan is not finite"),
    "inf": (-float("inf"), NonFiniteError, "reward -inf is not finite"),
    "too_large": (1e300, NonFiniteError, "reward 1e+300 is too large for float32"),
}


@pytest.mark.parametrize(("given", "error", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("alone", [False, True], ids=["mixed", "alone"])
def test_bad_rewards_are_named(
    given: Any, error: type[Exception], message: str, alone: bool
) -> None:
    envs = rewards(given)
    manager = manager_of(envs[1]) if alone else manager_of(*envs)
    env_id = manager.env_num - 1
    with pytest.raises(error, match=re.escape(f"env {env_id}: {message}")) as caught:
        manager.step(dict.fromkeys(range(manager.env_num), 0))
    assert caught.value.context["env_id"] == env_id
    assert f"step 1 of the episode with seed {envs[1].seeds[0]}" in str(caught.value)


class Boom(RuntimeError):
    pass


def boom(*_: Any) -> Any:
    raise Boom("the simulator is gone")


def test_a_step_that_raises_is_told_with_all_that_is_known() -> None:
    envs = [CountEnv(0), Faulty(boom), CountEnv(2)]
    manager = manager_of(*envs)
    rollout(manager, 1)
    with pytest.raises(EnvStepError) as caught:
        manager.step({0: 0, 1: 2, 2: 1})
    error, seed = caught.value, envs[1].seeds[0]
    assert error.context["env_id"] == 1
    assert error.context["seed"] == seed
    assert int(error.context["action"]) == 2
    assert isinstance(error.__cause__, Boom)
    text = str(error)
    for part in ("env 1", f"step 2 of the episode with seed {seed}", "action 2",
                 "Boom: the simulator is gone", "test_faults.py", "in boom"):  # fmt: skip
        assert part in text
    assert "boom" in "".join(traceback.format_exception(error))
    assert "env.manager.restart_budget=N" in error.hint
    assert "in Python, the manager's reset({env_id: None})" in error.hint


class Mute(Exception):
    def __str__(self) -> str:
        raise AttributeError("no text")


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Mute(), "Mute: (no text: its str() raises AttributeError)"),
        (ValueError("a" * 10**7), "a … (9990100 characters) … a"),
        (MemoryError(), "MemoryError: "),
    ],
    ids=["mute", "long", "empty"],
)
def test_odd_texts_of_exceptions(error: Exception, told: str, pickled: bool) -> None:
    text = described(RemoteError.of(error) if pickled else error)
    assert told in text
    assert len(text) < 20_000
    assert "Traceback" not in text


@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize("fault", [boom, lambda *good: None, lambda *good: good[:4]],
                         ids=["raises", "none", "four"])  # fmt: skip
def test_the_others_have_made_their_step(bad: int, fault: Any) -> None:
    envs = [Faulty(fault, i) if i == bad else CountEnv(i, length=2) for i in range(3)]
    manager = manager_of(*envs)
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match=f"env {bad}"):
        manager.step({0: 0, 1: 1, 2: 2})
    others = [i for i in range(3) if i != bad]
    assert [len(envs[i].actions) for i in range(3)] == [2, 2, 2]
    assert column(manager, 3) == dict.fromkeys(others, 0.0), "their episodes began anew"
    assert [len(envs[i].seeds) for i in others] == [2, 2]
    manager.reset({bad: None})
    assert column(manager, 3)[bad] == 0
    last = rollout(manager, 2)[-1]
    for i in others:
        assert last[i][4]["eval_episode_return"] == pytest.approx(0.5 + 1.5)
    assert last[bad][4] == {}


def test_a_step_of_the_wrong_form_is_told_as_such() -> None:
    manager = manager_of(CountEnv(0), Faulty(lambda *good: good[:3]))
    rollout(manager, 1)
    with pytest.raises(EnvStepError) as caught:
        rollout(manager, 1)
    assert "obs, reward, terminated, truncated, info" in caught.value.hint
    assert "returned an invalid result: not enough values to unpack" in caught.value.message
    assert "manager.py" not in caught.value.message


def test_all_that_failed_are_named() -> None:
    manager = manager_of(Faulty(boom, 0), CountEnv(1), Faulty(lambda o, _, *rest: (o, None, *rest)))
    rollout(manager, 1)
    with pytest.raises(EnvStepError) as caught:
        rollout(manager, 1)
    assert "env 0" in str(caught.value)
    assert "env 2" in str(caught.value)
    assert caught.value.context["env_ids"] == [0, 2]
    assert list(manager.ready_obs) == [1]
    manager.reset([0, 2])
    assert len(rollout(manager, 1)[0]) == 3


def test_a_failure_of_some_alone() -> None:
    manager = manager_of(CountEnv(0), CountEnv(1), Faulty(boom, 2))
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match="env 2"):
        manager.step({2: 0, 0: 0})
    assert column(manager, 3) == {0: 2, 1: 1}


@pytest.mark.parametrize("kind", ["raises", "nan"])
def test_restart_budget_spoils_the_episode_and_no_more(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Often(CountEnv):
        def step(self, action: Any) -> Any:
            obs, *rest = super().step(action)
            if self.count == 3 and kind == "raises":
                raise Boom("again")
            return (obs * np.nan if self.count == 3 else obs, *rest)

    envs = [CountEnv(0, length=4), Often(1)]
    manager = manager_of(*envs, restart_budget=2)
    with caplog.at_level("WARNING", "dicore.env"):
        found = rollout(manager, 6)
    assert "restart 1/2" in caplog.text
    assert "restart 2/2" in caplog.text
    for step in (2, 5):
        obs, reward, terminated, truncated, info = found[step][1]
        assert obs[3] == 2, "the last one before the fault"
        assert (reward, terminated, truncated) == (0, False, True)
        assert info["abnormal"] is True
        assert "env 1" in info["error"]
        assert "eval_episode_return" not in info
    assert manager.restarts == 2
    assert found[3][1][0][3] == 1, "it has begun anew"
    assert found[3][0][2], "the other one ends as ever"
    rollout(manager, 2)
    with pytest.raises((EnvStepError, NonFiniteError), match="env 1"):
        rollout(manager, 1)


def test_a_cause_is_told_once_for_all_environments(caplog: pytest.LogCaptureFixture) -> None:
    bad = [CountEnv(0, length=0, rewards=(1.0, np.nan)) for _ in range(2)]
    manager = manager_of(*bad, restart_budget=2)
    with caplog.at_level("WARNING", "dicore.env"), pytest.raises(NonFiniteError) as caught:
        rollout(manager, 20)
    told = [each.getMessage()[-13:] for each in caplog.records]
    assert told == ["; restart 1/2", "; restart 2/2"]
    assert str(caught.value.message).count("env 0: ") == 1
    assert str(caught.value.message).endswith("before in the same way; likewise env 1")


def test_spoilt_episodes_are_marked_and_not_counted() -> None:
    manager = manager_of(CountEnv(0, length=2), Faulty(boom), restart_budget=1, episode_num=1)
    manager.step({0: 0, 1: 0})
    answer = manager.step({0: 0, 1: 0})
    assert answer.value.abnormal.tolist() == [False, True]
    assert not manager.done
    rollout(manager, 5)
    assert manager.done


def test_a_spoilt_episode_waits_for_its_reset_where_told_so() -> None:
    manager = manager_of(CountEnv(0), Faulty(boom), restart_budget=1, auto_reset=False)
    found = rollout(manager, 2)
    assert found[1][1][4]["abnormal"]
    assert list(manager.ready_obs) == [0]
    manager.reset([1])
    assert column(manager, 3) == {0: 2, 1: 0}


def test_the_same_fault_of_all_environments_is_one_line() -> None:
    pairs = [Faulty(lambda obs, *rest, n=n: (obs, np.array([n, 2.0]), *rest[1:])) for n in (0, 1)]
    other = Faulty(lambda obs, _, *rest: (obs, None, *rest))
    manager = manager_of(*pairs, other)
    with pytest.raises(EnvStepError) as caught:
        rollout(manager, 2)
    first, second = str(caught.value.message).splitlines()
    assert first.startswith("env 0: reward of shape (2,) is not a number; several need")
    assert first.endswith("; likewise env 1")
    assert second.startswith("env 2: reward None")
    group = [EnvStepError(f"env {n}: step 3 of the episode with seed {n + 5}") for n in range(3)]
    text = "env 0: step 3 of the episode with seed 5; likewise env 1, env 2"
    assert all_of(group).message == text
    resets = [EnvStepError(f"env {n}: no array, at the reset with seed {n}") for n in range(2)]
    assert all_of(resets).message == "env 0: no array, at the reset with seed 0; likewise env 1"
    assert caught.value.context["env_ids"] == [0, 1, 2]


def test_a_bad_last_step_is_an_error_and_ends_nothing() -> None:
    bad = Faulty(lambda obs, reward, *_: (obs, None, True, False, {}))
    manager = manager_of(CountEnv(0), bad, auto_reset=False)
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match="env 1: reward None"):
        rollout(manager, 1)
    assert manager.env_state(1) is EnvState.ERROR


@pytest.mark.parametrize("retry_type", ["reset", "renew"])
@pytest.mark.parametrize("after", [0, 1], ids=["launch", "automatic"])
def test_a_reset_that_fails_twice_is_tried_again(retry_type: str, after: int) -> None:
    made: list[BadReset] = []

    def make() -> Any:
        made.append(BadReset(2, after=after) if not made else CountEnv(1, length=2))
        return made[-1]

    options = {"max_retry": 3, "retry_waiting_time": 0.0, "retry_type": retry_type}
    manager = BaseEnvManager([lambda: CountEnv(0), make], options)
    manager.seed(0)
    manager.launch()
    rollout(manager, 4)
    assert len(made) == (1 if retry_type == "reset" else 2)
    if retry_type == "reset":
        assert len(made[0].seeds) == 3 + 2, "three episodes, two tries more"
        assert len(set(made[0].seeds)) == 3, "a try has the seed of the one before"
    else:
        assert made[0].closed == 1


@pytest.mark.parametrize("max_retry", [1, 2, 3])
def test_exhausted_tries_are_counted(max_retry: int, caplog: pytest.LogCaptureFixture) -> None:
    bad = BadReset(times=9, after=1)
    manager = manager_of(CountEnv(0, length=2), bad, max_retry=max_retry)
    rollout(manager, 1)
    times = "once" if max_retry == 1 else f"{max_retry} times"
    with (
        caplog.at_level("WARNING", "dicore.env"),
        pytest.raises(EnvResetError, match=rf"env 1: reset failed {times} \(seed") as caught,
    ):
        rollout(manager, 1)
    assert caught.value.context == {"env_id": 1, "seed": bad.seeds[-1], "tries": max_retry}
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "no power" in str(caught.value)
    assert "toy_envs.py" in str(caught.value)
    assert 9 - bad.times == max_retry
    assert len(caplog.records) == max_retry - 1
    assert manager.closed, "retries are spent"
    bad.times = 0
    manager.launch()
    assert len(rollout(manager, 1)[0]) == 2


def test_waits_between_tries() -> None:
    import time

    manager = manager_of(BadReset(times=2), launch=False, retry_waiting_time=0.05)
    begun = time.monotonic()
    manager.launch()
    assert time.monotonic() - begun >= 0.1


def test_resets_by_hand_name_what_failed_and_close() -> None:
    envs = (CountEnv(0), BadReset(9, 1, after=1), CountEnv(2), BadReset(9, 3, after=1))
    manager = manager_of(*envs)
    rollout(manager, 1)
    with pytest.raises(EnvResetError, match="env 1") as caught:
        manager.reset()
    assert caught.value.context["env_ids"] == [1, 3]
    assert "env 3" in str(caught.value)
    assert manager.closed
    assert [env.closed for env in envs] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "result", [None, np.zeros(4, np.float32), [np.zeros(4, np.float32), {}], (1, 2, 3)]
)
def test_a_reset_of_the_wrong_form(result: Any) -> None:
    class Env(CountEnv):
        def reset(self, **kwargs: Any) -> Any:
            super().reset(**kwargs)
            return result

    with pytest.raises(EnvResetError, match="env 0: reset returned") as caught:
        manager_of(Env(0))
    assert "observation and info" in caught.value.hint


def test_renew_throws_the_broken_one_away_after_a_step_too() -> None:
    made: list[CountEnv] = []

    def make() -> Any:
        made.append(Faulty(boom) if not made else CountEnv(7))
        return made[-1]

    options = {"restart_budget": 1, "retry_type": "renew", "retry_waiting_time": 0.0}
    manager = BaseEnvManager([make], options)
    manager.launch()
    rollout(manager, 2)
    assert [env.tag for env in made] == [1, 7]
    assert made[0].closed == 1
    found = rollout(manager, 1)
    assert found[0][0][0][1] == 7, "the new one is stepped"


def test_the_new_one_knows_what_the_layers_of_the_broken_one_had_seen() -> None:
    class Broken(Tired):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            if self.steps == 3 and not made[1:]:
                boom()
            return result

    made: list[Any] = []

    def make() -> Any:
        made.append(Broken(CountEnv(0, length=9)))
        return made[-1]

    options = {"restart_budget": 1, "retry_type": "renew", "retry_waiting_time": 0.0}
    manager = BaseEnvManager([make], options)
    manager.launch()
    rollout(manager, 4)
    assert len(made) == 2
    assert made[1].steps == 4


def test_a_constructor_that_fails_while_renewing() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(None)
        if len(made) > 1:
            raise OSError("no display")
        return BadReset(9)

    options = {"retry_type": "renew", "retry_waiting_time": 0.0}
    manager = BaseEnvManager([make], options)
    with pytest.raises((EnvCreateError, EnvResetError), match="no display"):
        manager.launch()
    assert manager.closed


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ModuleNotFoundError("No module named 'ale_py'", name="ale_py"), "'ale_py'"),
        (ValueError("odd"), "make one env by hand"),
        (TypeError("missing 1 required positional argument: 'size'"), "a type or a default"),
    ],
)
def test_failed_constructions_say_what_to_do(error: Exception, hint: str) -> None:
    def fail() -> Any:
        raise error

    for use in (lambda m: m.launch(), lambda m: m.observation_space):
        with pytest.raises(EnvCreateError, match="env 0 could not be made") as caught:
            use(BaseEnvManager([fail]))
        assert caught.value.__cause__ is error
        assert hint in caught.value.hint


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(EnvError, match="is no environment") as caught:
        BaseEnvManager([lambda: CountEnv(0), object]).launch()
    assert caught.value.context["env_id"] == 1


def test_limits_that_one_process_cannot_keep_are_told(caplog: pytest.LogCaptureFixture) -> None:
    warn_no_effect.cache_clear()
    with caplog.at_level(logging.WARNING, "dicore.env"):
        BaseEnvManager([lambda: CountEnv(0)])
        assert not caplog.records
        for _ in range(3):  # of a run: to see the spaces, to collect, to evaluate
            BaseEnvManager([lambda: CountEnv(0)], {"step_timeout": 3.0})
    assert len(caplog.records) == 1
    assert "step_timeout has no effect" in caplog.text


def test_interrupts_are_not_faults() -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    manager = manager_of(Faulty(stop), restart_budget=9)
    rollout(manager, 1)
    with pytest.raises(KeyboardInterrupt):
        rollout(manager, 1)


@pytest.mark.parametrize("kind", [BaseEnvManager, ThreadEnvManager])
def test_after_an_interrupt_no_episode_goes_on(kind: Any) -> None:
    """Nobody knows which environments made the step."""

    class Waits(CountEnv):
        def step(self, action: Any) -> Any:
            if len(self.seeds) == 1 and self.count == 1:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            return super().step(action)

    options = {"restart_budget": 1, "retry_waiting_time": 0.0}
    with closing(kind([CountEnv, Waits, CountEnv], options)) as manager:
        manager.launch()
        rollout(manager, 1)
        with pytest.raises(KeyboardInterrupt):
            rollout(manager, 1)
        (answer,) = rollout(manager, 1)
        assert all("was interrupted" in answer[env_id][4]["error"] for env_id in range(3))
        assert column(manager, 3) == {0: 0, 1: 0, 2: 0}
        (answer,) = rollout(manager, 1)
        assert [answer[env_id][0][3] for env_id in range(3)] == [1, 1, 1]


def leave(*_: Any) -> Any:
    sys.exit(0)


def test_an_exit_in_a_step_is_a_fault() -> None:
    manager = manager_of(CountEnv(0), Faulty(leave), restart_budget=1)
    assert rollout(manager, 2)[1][1][4]["abnormal"]
    manager = manager_of(CountEnv(0), Faulty(leave))
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match=r"env 1: step 2 .*sys\.exit\(0\) was called.*in leave"):
        rollout(manager, 1)


def test_an_exit_elsewhere_is_a_fault_too(caplog: pytest.LogCaptureFixture) -> None:
    class Env(CountEnv):
        reset = close = leave  # type: ignore[assignment]

    with pytest.raises(EnvCreateError, match=r"env 0 .*sys\.exit\(0\)"):
        BaseEnvManager([leave]).launch()
    with pytest.raises(EnvResetError, match=r"env 0: reset failed 3 times .*sys\.exit\(0\)"):
        manager_of(Env())
    assert "closing env 0 failed: sys.exit(0) was called" in caplog.text


@pytest.mark.parametrize("flag", [float("nan"), "no", 2, object()], ids=type)
@pytest.mark.parametrize("place", [0, 1], ids=["terminated", "truncated"])
def test_an_end_that_is_no_bool_is_named(flag: Any, place: int) -> None:
    def step(obs: Any, reward: Any, *rest: Any) -> Any:
        flags = [False, False]
        flags[place] = flag
        return obs, reward, *flags, {}

    manager = manager_of(CountEnv(0), Faulty(step), restart_budget=1)
    rollout(manager, 1)
    found = rollout(manager, 1)[0][1]
    name = ("terminated", "truncated")[place]
    assert f"env 1: {name} is " in found[4]["error"]
    assert found[2:4] == (False, True)
    assert column(manager, 3) == {0: 2, 1: 0}


@pytest.mark.parametrize("flag", [np.True_, 1, np.array([True]), 1.0], ids=str)
def test_an_end_may_be_any_single_truth_value(flag: Any) -> None:
    manager = manager_of(Faulty(lambda obs, reward, *_: (obs, reward, flag, None, {})))
    found = rollout(manager, 2)[1][0]
    assert (found[2], found[3], found[4]["episode_length"]) == (True, False, 2)


@pytest.mark.parametrize("info", [None, [1], "all fine", (), 7, np.ones(2)], ids=str)
@pytest.mark.parametrize("ends", [False, True])
def test_an_info_that_is_no_dict_is_a_fault(info: Any, ends: bool) -> None:
    def step(obs: Any, reward: Any, *_: Any) -> Any:
        return obs, reward, ends, False, info

    manager = manager_of(CountEnv(0), Faulty(step), restart_budget=1)
    found = rollout(manager, 2)[1]
    assert found[1][4]["abnormal"]
    wanted = f"env 1: info is a {type(info).__name__}, not a dict, at step 2"
    assert found[1][4]["error"].startswith(wanted)
    assert not found[0][4], "the other one is as ever"
    manager = manager_of(CountEnv(0), Faulty(step))
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match="env 1: info is a "):
        rollout(manager, 1)
    assert manager.env_state(1) is EnvState.ERROR


def test_an_info_that_is_no_dict_is_a_fault_at_any_time() -> None:
    class Late(CountEnv):
        def step(self, action: Any) -> Any:
            *rest, info = super().step(action)
            return *rest, None if self.count == 150 else info

    manager = manager_of(Late(length=0))
    rollout(manager, 149)
    with pytest.raises(EnvStepError, match="env 0: info is a NoneType"):
        rollout(manager, 1)


NOISELESS = """
import numpy as np
from tests.plugins.env_managers.toy_envs import Faulty, manager_of, rollout
for bad in (np.inf, 1e300, np.float32(3e38)):
    pays = lambda obs, reward, *rest: (obs, bad, *rest)
    owes = lambda obs, reward, *rest: (obs, -bad, *rest)
    rollout(manager_of(Faulty(pays, 0), Faulty(owes, 1), restart_budget=1), 3)
shows = lambda obs, *rest: (obs + np.float32("-inf"), *rest)
rollout(manager_of(Faulty(shows, 0), restart_budget=1), 3)
"""


def test_no_warning_of_numpy_leaks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOISELESS], capture_output=True, text=True, check=True, timeout=200
    )
    assert "RuntimeWarning" not in done.stderr


class Stuck(CountEnv):
    free = threading.Event()

    def close(self) -> None:
        self.free.wait(60)


def test_environments_that_hang_when_closed_hold_nothing_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_pool, "CLOSE_S", 0.4)
    good = CountEnv(7)
    manager = manager_of(*(Stuck(tag) for tag in range(5)), good)
    begun = time.monotonic()
    manager.close()
    assert time.monotonic() - begun < 30, "each of them hangs for 60 s"
    Stuck.free.set()
    assert good.closed == 1
    assert "env 4: close() did not return within 0.4 s" in caplog.text


def test_a_stop_iteration_is_a_fault_like_any_other() -> None:
    def stop(*_: Any) -> Any:
        raise StopIteration

    envs = [Faulty(stop, 0), CountEnv(1)]
    manager = manager_of(*envs)
    rollout(manager, 1)
    with pytest.raises(EnvStepError, match="env 0"):
        rollout(manager, 1)
    assert len(envs[1].actions) == 2


def test_a_fault_at_the_time_limit_is_a_fault() -> None:
    from gymnasium.wrappers import TimeLimit

    manager = manager_of(TimeLimit(CountEnv(0), 2), TimeLimit(Faulty(boom), 2), restart_budget=1)
    *_, last = rollout(manager, 2)
    assert last[0][3]
    assert last[1][4]["abnormal"]
    assert "eval_episode_return" not in last[1][4]
    *_, last = rollout(manager, 2)
    assert [last[i][4]["episode_length"] for i in range(2)] == [2, 2]


def test_old_failures_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(episodes.time, "monotonic", lambda: now[0])
    for window in (600.0, None):
        bad = CountEnv(0, length=0, rewards=(1.0, np.nan))
        manager = manager_of(bad, restart_budget=2, restart_window=window)
        for number in range(2):
            assert [found[0][4].get("abnormal") for found in rollout(manager, 2)] == [None, True]
            now[0] += 599.0 * (1 - number)
        assert manager.state_dict()["restarts"] == [2]
        now[0] += 2.0  # the first one is 601 s ago
        rollout(manager, 1)
        if window is None:
            with pytest.raises(NonFiniteError):
                rollout(manager, 1)
            continue
        assert rollout(manager, 1)[0][0][4]["abnormal"]
        rollout(manager, 1)
        with pytest.raises(NonFiniteError, match="failed 2 times before in the same way") as e:
            rollout(manager, 1)
        assert str(e.value).count("reward nan is not finite") == 1
        assert e.value.context["env_id"] == 0


@pytest.mark.parametrize(
    ("first", "attempt", "wait"),
    [(0.5, 1, 0.5), (0.5, 2, 1.0), (0.5, 3, 2.0), (0.5, 9, 30.0), (0.0, 2, 0.0), (60.0, 3, 60.0)],
)
def test_each_wait_is_about_twice_as_long(first: float, attempt: int, wait: float) -> None:
    state = random.getstate()
    waits = [retry_wait(first, attempt) for _ in range(200)]
    assert 0.75 * wait <= min(waits) <= max(waits) <= 1.25 * wait
    assert len(set(waits)) > 1 or not wait
    assert random.getstate() == state, "it is that of the run"
