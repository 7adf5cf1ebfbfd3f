"""Environments in worker processes: what a fault costs, and what is left behind."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces

from dicore.errors import EnvCreateError, EnvResetError, EnvStepError, UsageError
from dicore.testing.compare import copied, difference
from dicore.testing.component import Component
from dicore_plugins.env_managers import BaseEnvManager, SyncSubprocessManager
from dicore_registry import default
from tests.named_memory import named_memory

from . import faulty_env as faulty
from .faulty_env import FaultyEnv, action
from .toy_envs import CountEnv, SpaceEnv, cartpole, played

LIMIT_S = 2.0
ROOT = Path(__file__).parents[3]


def launched(*makes: Any, **options: Any) -> Any:
    options = {"retry_waiting_time": 0.01, "step_timeout": LIMIT_S, **options}
    manager = SyncSubprocessManager(makes, options)
    try:
        manager.launch()
    except BaseException:
        manager.close()
        raise
    return manager


@pytest.fixture(scope="module")
def four() -> Iterator[Any]:
    """Environments 0 and 1 share a worker, and 2 and 3 another."""
    makes = [partial(FaultyEnv, tag) for tag in range(4)]
    with closing(launched(*makes, envs_per_worker=2, restart_budget=1000)) as manager:
        yield manager


FAULTS: dict[Any, tuple[str, bool]] = {
    faulty.fails: ("ValueError: no wind", False),
    faulty.exits: (r"sys.exit\(enough\)", False),
    faulty.kills: ("SIGKILL, maybe out of memory while env 1 was stepped", True),
    faulty.segfaults: ("SIGSEGV", True),
    faulty.divides: ("SIGFPE", True),
    faulty.leaves: ("exit code 3", True),
    faulty.hangs: ("no answer within 2 s while env 1 was stepped", True),
    faulty.hangs_hard: ("no answer within 2 s while env 1 was stepped", True),
    faulty.NO_DICT: ("info is a list", False),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_fault_costs_an_episode_of_its_worker(four: Any, fault: Any) -> None:
    four.reset()
    four.step(dict.fromkeys(range(4), 0))
    begun = time.monotonic()
    answer = four.step({0: 0, 1: action(fault), 2: 0, 3: 0})
    assert time.monotonic() - begun < faulty.HANGS_S / 2
    text, dies = FAULTS[fault]
    error = answer[1].info["error"]
    assert error.startswith("env 1: ")
    assert re.search(text, error), error
    assert answer[1].info["abnormal"]
    assert answer[1].truncated
    assert bool(answer[0].info.get("abnormal")) == dies, "it shares the worker"
    assert [answer[each].obs.tolist() for each in (2, 3)] == [[2, 2], [3, 2]]
    assert [int(four.ready_obs[each][1]) for each in range(4)] == [0 if dies else 2, 0, 2, 2]
    four.step(dict.fromkeys(range(4), 0))
    assert len(set(four.worker_pids().values())) == 2


def test_all_faults_of_a_step_are_told(four: Any) -> None:
    four.reset()
    answer = four.step({0: action(faulty.fails), 1: 0, 2: 0, 3: action(faulty.kills)})
    assert "no wind" in answer[0].info["error"]
    assert "SIGKILL" in answer[3].info["error"]
    assert "env 3" in answer[2].info["error"], "it was lost with its worker"
    assert not answer[1].info


def test_a_stopped_worker_is_lost_at_the_limit_of_a_step(four: Any) -> None:
    four.reset()  # was its last call, whose limit is longer
    os.kill(four.worker_pids()[1], signal.SIGSTOP)
    begun = time.monotonic()
    answer = four.step(dict.fromkeys(range(4), 0))
    assert time.monotonic() - begun < faulty.HANGS_S / 2
    assert [bool(answer[each].info.get("abnormal")) for each in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_slow_step_is_told_and_kept(four: Any, caplog: pytest.LogCaptureFixture) -> None:
    four.reset()
    answer = four.step({0: action(faulty.slow), 1: 0, 2: 0, 3: 0})
    assert answer[0].obs.tolist() == [0, 1]
    assert "env 0 is being stepped for" in caplog.text


def test_what_has_no_name_is_pickled_by_value(four: Any) -> None:
    four.reset()
    assert four.step({0: faulty.LAMBDA, 1: 0, 2: 0, 3: 0})[0].info["f"]() == 7


def test_a_call_that_does_not_pickle_is_an_error_of_its_own(four: Any) -> None:
    four.reset()
    with pytest.raises(TypeError, match="lock"):
        four._pool.call(0, "close", threading.Lock())
    assert not any(four._pool._crew.of[0].requests)
    assert four.step(dict.fromkeys(range(4), 0)).value.obs[0][1] == 1


def test_without_a_budget_the_cause_is_raised() -> None:
    makes = [partial(FaultyEnv, tag) for tag in range(2)]
    with closing(launched(*makes, restart_budget=0)) as manager:
        with pytest.raises(EnvStepError, match=r"env 1: step 1 .*faulty_env.py:\d+, in fails") as e:
            manager.step({0: 0, 1: action(faulty.fails)})
        assert "raise ValueError" in str(e.value.__cause__), "the traceback of the worker"
        manager.reset({1: None})
        with pytest.raises(EnvStepError, match=r"env 0: .*SIGKILL"):
            manager.step({0: action(faulty.kills), 1: 0})
        manager.reset({0: None})
        assert len(manager.step({0: 0, 1: 0})) == 2


def test_a_lost_environment_waits_for_its_reset() -> None:
    makes = [partial(FaultyEnv, tag) for tag in range(2)]
    with closing(launched(*makes, envs_per_worker=2)) as manager:
        manager.step({0: action(faulty.kills)})
        assert int(manager.ready_obs[1][1]) == 0
        answer = manager.step({0: 0, 1: 0})
        assert "its worker was lost" in answer[1].info["error"]
        assert not manager.step({0: 0, 1: 0})[1].info


@pytest.mark.parametrize("fault", [faulty.fails, faulty.kills])
def test_a_reset_that_always_fails_ends_the_manager(fault: Any) -> None:
    text = "no wind" if fault is faulty.fails else "SIGKILL"
    manager = SyncSubprocessManager(
        [FaultyEnv, partial(FaultyEnv, 1, reset=fault)], {"retry_waiting_time": 0.01}
    )
    with pytest.raises(EnvResetError, match=rf"env 1: reset failed 3 times .*{text}"):
        manager.launch()
    assert manager.closed
    assert not manager.worker_pids()


def test_a_broken_instance_is_renewed() -> None:
    broken = partial(FaultyEnv, 0, reset=faulty.fails, from_reset=1)
    with closing(launched(broken, FaultyEnv, retry_type="renew", envs_per_worker=2)) as manager:
        manager.reset([0])
        manager.reset([0])
        assert len(manager.step({0: 0, 1: 0})) == 2
    with closing(launched(broken)) as manager, pytest.raises(EnvResetError, match="3 times"):
        manager.reset([0])


def lacks() -> None:
    raise ModuleNotFoundError("No module named 'wind'", name="wind")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (partial(FaultyEnv, make=lacks), EnvCreateError, "env 1 .*No module named 'wind'"),
        (partial(FaultyEnv, make=faulty.kills), EnvCreateError, "SIGKILL"),
        (partial(FaultyEnv, make=faulty.hangs), EnvCreateError, "no answer within 5 s .*made"),
        (
            partial(FaultyEnv, tag=faulty.SlowToLoad()),
            EnvCreateError,
            "no answer within 5 s while the process of env 1 was started",
        ),
    ],
)
def test_an_environment_that_cannot_be_made(make: Any, error: type[Exception], text: str) -> None:
    limit = 5.0 if "within" in text else 60.0
    manager = SyncSubprocessManager([FaultyEnv, make], {"connect_timeout": limit})
    with pytest.raises(error, match=text) as raised:
        manager.launch()
    assert "wind" not in text or "package that provides 'wind'" in raised.value.hint
    if "within" in text:
        wanted = "; the machine is very busy, or an import hangs" * ("started" in text)
        assert raised.value.hint == f"raise env.manager.connect_timeout{wanted}"
    assert manager.closed


def test_a_factory_that_does_not_pickle_is_named() -> None:
    lock = threading.Lock()
    manager = SyncSubprocessManager([FaultyEnv, partial(FaultyEnv, tag=lock)])
    with pytest.raises(EnvCreateError, match=r"env_fn\[1\].keywords\['tag'\] \(lock\)"):
        manager.launch()
    manager = SyncSubprocessManager([lambda: (FaultyEnv(), lock)])
    with pytest.raises(EnvCreateError, match=r"env_fn\[0\].lock"):
        manager.launch()


# ---- starting and ending


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    manager = SyncSubprocessManager([partial(FaultyEnv, tag, folder=tmp_path) for tag in range(4)])
    assert not manager.worker_pids()
    with closing(manager):
        assert manager.action_space.n > 2
        assert manager.observation_space.shape == (2,)
        first = manager.worker_pids()
        assert set(first) == {0, 1}
        assert [each.name for each in tmp_path.iterdir()] == ["made.0"]
        manager.launch()
        assert manager.worker_pids()[0] == first[0]
        assert manager.env_attr("pid") == list(manager.worker_pids().values())
    made = [(tmp_path / f"made.{tag}").read_text().split() for tag in range(4)]
    assert [len(each) for each in made] == [1] * 4
    assert not any(str(os.getpid()) in each for each in made)


@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_how_processes_start(context: str) -> None:
    scale = 3.0

    def make() -> Any:
        return CountEnv(rewards=(scale,))

    with closing(launched(make, make, context=context)) as manager:
        assert manager.step({0: 0, 1: 0})[1].reward == scale
        pids = set(manager.worker_pids().values())
        assert len(pids) == 2
    wait_for_end(pids)


def wait_for_end(pids: Iterable[int]) -> None:
    """Waits 30 s for the end of processes."""
    pids, until = list(pids), time.monotonic() + 30
    while any(map(running, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(running, pids))


def descriptors() -> tuple[int, int]:
    """Returns how many files and threads are open."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def test_closing_leaves_nothing_in_any_state() -> None:
    makes = [partial(FaultyEnv, tag) for tag in range(2)]
    with closing(launched(*makes, envs_per_worker=1)):
        pass
    gc.collect()  # what earlier tests left to the collector
    before = descriptors()
    for ends in ("launched", "twice", "spaces", "killed", "lost", "deleted"):
        manager: Any = SyncSubprocessManager(makes, {"envs_per_worker": 1, "restart_budget": 0})
        if ends == "spaces":
            assert manager.action_space is not None
        else:
            manager.launch()
        assert not named_memory()
        pids = set(manager.worker_pids().values())
        if ends == "killed":
            os.kill(manager.worker_pids()[1], signal.SIGKILL)
        if ends == "lost":
            with pytest.raises(EnvStepError):
                manager.step({0: 0, 1: action(faulty.kills)})
        if ends != "deleted":
            manager.close()
        if ends == "twice":
            manager.close()
        del manager
        wait_for_end(pids)
        gc.collect()  # exceptions keep the frames of the manager alive
        assert descriptors() == before, ends


def test_environments_that_hang_when_closed_are_killed() -> None:
    manager = launched(*[partial(FaultyEnv, tag, close=faulty.hangs_hard) for tag in range(2)])
    manager.step({0: action(faulty.starts_a_process), 1: action(faulty.starts_a_child)})
    workers = [psutil.Process(pid) for pid in set(manager.worker_pids().values())]
    everyone = [*workers, *(each for worker in workers for each in worker.children())]
    assert len(everyone) >= 4
    begun = time.monotonic()
    manager.close()
    assert time.monotonic() - begun < faulty.HANGS_S / 2
    wait_for_end([each.pid for each in everyone])


SCRIPT = """
import os, signal, sys
from functools import partial
from dicore_plugins.env_managers import SyncSubprocessManager
from tests.plugins.env_managers.faulty_env import FaultyEnv, action
import tests.plugins.env_managers.faulty_env as faulty

def main(end, context):
    manager = SyncSubprocessManager(
        [partial(FaultyEnv, tag) for tag in range(2)], {"context": context, "envs_per_worker": 1}
    )
    manager.launch()
    print(*manager.worker_pids().values(), flush=True)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "busy":
        manager._pool.send([0, 1], [action(faulty.hangs_hard)] * 2)
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "raise":
        raise ValueError("the end")
"""


def script(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "main.py"
    path.write_text(SCRIPT + body)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(path)],
        env=env, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "context"),
    [("kill", "forkserver"), ("busy", "forkserver"), ("busy", "fork"), ("raise", "forkserver")],
)
def test_workers_end_with_the_main_process(end: str, context: str, tmp_path: Path) -> None:
    guard = f"\nif __name__ == '__main__':\n    main({end!r}, {context!r})\n"
    done = script(guard, tmp_path)
    assert done.returncode == (1 if end == "raise" else -signal.SIGKILL), done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    wait_for_end(pids)


def running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_script_without_a_guard_is_told_once(tmp_path: Path) -> None:
    done = script("\nmain('', 'forkserver')\n", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("the main script starts workers when it is imported") == 1
    assert "Error" in done.stderr.splitlines()[-2] or "if __name__" in done.stderr


def test_a_script_from_standard_input(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    own = "class Own(FaultyEnv):\n    pass\n"
    body = "main('', 'forkserver')\nmanager = SyncSubprocessManager([Own])\nmanager.launch()\n"
    end = "print(manager.step({0: 0}).value.obs)\n"
    done = subprocess.run(
        [sys.executable, "-"], input=SCRIPT + own + body + end,
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[[0. 1.]]" in done.stdout


class Multiplies(FaultyEnv):
    """Multiplies large matrices, and tells in how many threads."""

    def step(self, action: Any) -> Any:
        *result, _ = super().step(0)
        np.ones((500, 500)) @ np.ones((500, 500))
        return *result, {"threads": len(list(Path("/proc/self/task").iterdir())), "used": blas()}


def blas() -> int | None:
    """Returns the number of threads in which NumPy's OpenBLAS computes; None: it has none."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    for path in {line.split()[-1] for line in maps if "openblas" in line}:
        found = getattr(ctypes.CDLL(path), "scipy_openblas_get_num_threads64_", None)
        if found is not None:
            return int(found())
    return None


THREADS = """
from tests.plugins.env_managers.test_subprocess import Multiplies
from dicore_plugins.env_managers import SyncSubprocessManager
import numpy as np
import sys
if __name__ == "__main__":
    np.ones((500, 500)) @ np.ones((500, 500))
    manager = SyncSubprocessManager([Multiplies], {"context": sys.argv[1]})
    manager.launch()
    info = manager.step({0: 0})[0].info
    print(info["threads"], info["used"])
    manager.close()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("context", ["forkserver", "fork"])
def test_workers_compute_in_one_thread(context: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(THREADS)
    env = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run(
        [sys.executable, "main.py", context], cwd=tmp_path, env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    threads, used = done.stdout.split()
    assert used in ("1", "None")
    assert context == "fork" or threads == "1", "idle threads may be left after a fork"


@pytest.mark.parametrize("kind", ["sync_subprocess", "async_subprocess"])
def test_processes_that_cannot_be_started(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, failures = vars(os)["fork"], [1] * 9

    def limited() -> int:
        if failures:
            failures.pop()
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", limited)
    options = {"context": "fork", "envs_per_worker": 1, "retry_waiting_time": 0.01}
    makes = [partial(FaultyEnv, tag) for tag in range(2)]
    component = Component(default().find("env_manager", kind), default())
    manager = component.build(options, env_fn=makes)
    with pytest.raises(EnvCreateError, match=r"env 0 .*its process could not be started") as raised:
        manager.launch()
    assert "envs_per_worker" in raised.value.hint
    assert manager.closed
    failures.clear()
    with closing(component.build(options, env_fn=makes)) as manager:
        manager.launch()
        failures.append(1)
        texts: list[str] = []
        act, until = action(faulty.kills), time.monotonic() + 60
        while not (texts and 1 in manager.ready_obs) and time.monotonic() < until:
            answer = manager.step({i: act if i else 0 for i in manager.ready_obs})
            texts += [each["error"] for each in answer.value.info if each.get("abnormal")]
            act = 0
        assert len(texts) == 1
        assert "SIGKILL" in texts[0]
        assert not failures, "another attempt was made"


def test_too_many_workers_for_the_open_files() -> None:
    manager = SyncSubprocessManager([FaultyEnv] * 100_000, {"envs_per_worker": 1})
    with pytest.raises(UsageError, match="100000 workers need about 500000 open files"):
        manager.launch()


# ---- data


@pytest.mark.parametrize(
    "options",
    [
        {}, {"envs_per_worker": 1}, {"envs_per_worker": 3, "shared_memory": False},
        {"reset_inplace": False}, {"transport": {"type": "pipe"}}, {"copy_on_get": True},
    ],
    ids=str,
)  # fmt: skip
def test_the_data_is_that_of_base(options: dict[str, Any]) -> None:
    wanted = played(BaseEnvManager([plain] * 5), 80)
    found = played(SyncSubprocessManager([plain] * 5, options), 80)
    assert difference(wanted, found) == ""


def plain() -> Any:
    return gymnasium.make("CartPole-v1", max_episode_steps=15)


def test_the_data_of_stateful_layers_is_that_of_base() -> None:
    wanted = played(BaseEnvManager([cartpole] * 3), 80)
    found = played(SyncSubprocessManager([cartpole] * 3), 80)
    assert difference(wanted, found) == ""


@pytest.mark.parametrize("make", [plain, cartpole])
def test_running_episodes_are_replayed_in_workers(make: Any) -> None:
    with closing(SyncSubprocessManager([make] * 3)) as manager:
        manager.seed(3)
        manager.launch()
        for step in range(40):
            manager.step(dict.fromkeys(range(3), step % 2))
        state, ready = copied(manager.state_dict()), copied(manager.ready_obs.value)
    for twin in (SyncSubprocessManager([make] * 3), BaseEnvManager([make] * 3)):
        with closing(twin):
            twin.load_state_dict(state)
            twin.launch()
            assert twin.brought_back
            assert difference(copied(twin.ready_obs.value), ready) == ""


SPACES: dict[str, Any] = {
    "half": spaces.Box(-1, 1, (3,), np.float16),
    "double": spaces.Box(-1, 1, (3,), np.float64),
    "bools": spaces.MultiBinary((2, 2)),
    "scalar": spaces.Box(-1, 1, (), np.float32),
    "empty": spaces.Box(-1, 1, (0,), np.float32),
    "image": spaces.Box(0, 255, (64, 64, 3), np.uint8),
    "text": spaces.Text(6),
    "sequence": spaces.Sequence(spaces.Discrete(5)),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "mixed": spaces.Dict(word=spaces.Text(4), image=spaces.Box(0, 255, (32, 32), np.uint8)),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_observations_of_every_space(space: Any) -> None:
    makes = [lambda length=length: SpaceEnv(copy.deepcopy(space), length) for length in (3, 2)]
    found = []
    for each in (BaseEnvManager(makes), SyncSubprocessManager(makes, {"context": "fork"})):
        with closing(each) as manager:
            manager.seed(1)
            manager.launch()
            rows = [copied(manager.ready_obs.value)]
            for _ in range(5):
                rows.append(copied(manager.step_into({0: 0, 1: 0}).value.obs))
                rows.append(copied(manager.ready_obs.value))
        found.append(rows)
    assert str(found[0]) == str(found[1])


def test_a_hundred_megabytes() -> None:
    for options, size in ({}, 25_000_000), ({"shared_memory": False}, 1_000_000):
        make = partial(FaultyEnv, size=size)
        with closing(launched(make, **options, step_timeout=20.0)) as manager:
            assert manager.step({0: 0})[0].obs[-1] == 1.0


def test_what_is_handed_out_lasts_until_the_next_but_one_step() -> None:
    makes = [partial(FaultyEnv, tag, size=2000) for tag in range(2)]
    for copies in (False, True):
        with closing(launched(*makes, copy_on_get=copies)) as manager:
            shown = [manager.step_into({0: 0, 1: 0}).value.obs for _ in range(2)]
            assert [int(each[1, 1]) for each in shown] == [1, 2]
            shown[1][:] = -1
            shown.append(manager.step_into({0: 0, 1: 0}).value.obs)
            assert shown[2][0, 1] == 3
            assert (shown[0] is shown[2] or np.shares_memory(shown[0], shown[2])) != copies
            if copies:
                assert int(shown[0][1, 1]) == 1
                shown[2][:] = -1
                assert manager.ready_obs.value[0, 1] == 3, "nothing that was handed out is shared"
                shown[2][0, 1] = 3
        assert shown[2][0, 1] == 3, "closing takes no memory away that is in use"


def interrupted(manager: Any) -> bool:
    """Returns whether Ctrl-C came in a step; on a busy machine it may come after the step."""
    timer, stepped = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)), False
    try:
        timer.start()
        manager.step({0: action(faulty.slow), 1: 0, 2: 0, 3: 0})
        stepped = True
        time.sleep(60)
    except KeyboardInterrupt:
        timer.join()
    return not stepped


def test_ctrl_c_in_a_step_loses_no_data_silently(four: Any) -> None:
    four.reset()
    while not interrupted(four):
        four.reset()
    answer = four.step(dict.fromkeys(range(4), 0))
    assert all(answer[each].info["abnormal"] for each in range(4))
    assert [int(answer.value.obs[each][1]) for each in range(4)] == [0] * 4
    assert four.step(dict.fromkeys(range(4), 0)).value.obs[:, 1].tolist() == [1] * 4


def test_a_network_inside_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    obs = importlib.import_module("network_in_env").main("spawn")
    assert obs.shape == (4, 16)
    assert np.isfinite(obs).all()
    assert len(np.unique(obs, axis=0)) == 4


# ---- without waiting


def test_send_returns_at_once_and_wait_what_has_come(four: Any) -> None:
    pool = four._pool
    four.reset()
    pool.send([0, 2], [action(faulty.slow), 0])
    pool.send([3], [0])
    assert pool.pending == {0, 2, 3}
    assert sorted(pool.wait(2)[0]) == [2, 3]
    assert pool.wait(1, timeout=0.0)[0] == []
    assert pool.wait(5)[0] == [0]
    assert pool.pending == set()


def test_a_reset_drops_a_pending_answer(four: Any) -> None:
    pool = four._pool
    four.reset()
    pool.send([0, 1, 2], [action(faulty.slow), 0, action(faulty.kills)])
    pool.reset([0], [1], [{}])
    ids, obs, _, _, _, raised = pool.wait(3)
    assert sorted(ids) == [1, 2]
    assert obs[ids.index(1)].tolist() == [1, 1]
    assert "SIGKILL" in str(raised[ids.index(2)])
    pool.send([3], [0])
    assert "lost" in str(pool.wait(1)[5][0])
    pool.send([0], [0])
    assert pool.wait(1)[1].tolist() == [[0, 1]]
    four.reset()
