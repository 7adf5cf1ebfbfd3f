"""What holds for every registered manager: the data of `base` for one seed, and no leaks."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from dicore.data import EnvBatch
from dicore.run.random import seed_everything
from dicore.testing.compare import copied, difference
from dicore.testing.component import Component
from dicore.testing.scripted_env import WAKE, ScriptedEnv
from dicore_plugins.env_managers import BaseEnvManager, env_pool
from dicore_plugins.env_managers.subprocess import crew
from dicore_registry import default
from tests.named_memory import named_memory
from tests.soak import SOAK

MANAGERS = {
    entry.name: Component(entry, default())
    for entry in default().entries("env_manager")
    if default().judged(entry).status == "ok"
}
OPTIONS: dict[str, dict[str, Any]] = {
    "ale_vector": {"task_id": "ALE/Pong-v5", "num_threads": 1},
    "envpool": {"task_id": "CartPole-v1"},
}
ENVS: dict[str, list[Callable[[], Any]]] = {
    "cartpole": [partial(gymnasium.make, "CartPole-v1", max_episode_steps=25)] * 3,
    "scripted": [partial(ScriptedEnv, tag, 2 + tag) for tag in range(3)],
}


def played(manager: Any, steps: int) -> dict[int, list[Any]]:
    """Returns what each environment showed; actions depend on its id, step and observation."""
    found: dict[int, list[Any]] = {env_id: [] for env_id in range(manager.env_num)}
    while min(map(len, found.values())) < steps:
        ready = manager.ready_obs
        act = {i: (i + len(found[i]) + int(ready[i][0] > 0)) % 2 for i in ready}
        answer = manager.step(EnvBatch.of(act))
        for env_id in answer:
            step = answer[env_id]
            found[env_id].append(
                copied([step.obs, step.reward, step.terminated, step.truncated, step.info])
            )
    return {env_id: each[:steps] for env_id, each in found.items()}


@pytest.mark.parametrize("name", sorted(MANAGERS.keys() - {"base"}))
def test_the_data_is_that_of_base(name: str) -> None:
    for env, env_fn in ENVS.items():
        plays = []
        for manager in (
            BaseEnvManager(env_fn),
            MANAGERS[name].build(OPTIONS.get(name), env_fn=env_fn),
        ):
            with closing(manager):
                if "episode_seed" not in manager.capabilities:
                    pytest.skip("it does not declare 'episode_seed'")
                seed_everything(0)
                manager.seed(7)
                manager.launch()
                plays.append(played(manager, 60))
        wrong = difference(*plays)
        assert not wrong, f"{env}: {wrong}"


@pytest.mark.parametrize("name", sorted(MANAGERS))
def test_limits_hold_in_any_thread(name: str) -> None:
    """FEATURES A34, A43: also fractions of a second, where signals would not arrive."""
    texts: list[str] = []
    makes = [ScriptedEnv, partial(ScriptedEnv, 1, fault="hang")]
    options = {"step_timeout": 1.0, "restart_budget": 1, "envs_per_worker": 1}
    manager = MANAGERS[name].build(OPTIONS.get(name), env_fn=makes)
    if not {"deadlines", "workers"} & manager.capabilities:
        pytest.skip("it cannot interrupt environments")
    given = {key: value for key, value in options.items() if key in manager._cfg}

    def play() -> None:
        with closing(MANAGERS[name].build(given, env_fn=makes)) as manager:
            manager.launch()
            while not texts and time.monotonic() < begun + 90:
                answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
                found = [answer[env_id].info for env_id in answer]
                texts.extend(each["error"] for each in found if each.get("abnormal"))
            WAKE.set()

    begun = time.monotonic()
    thread = threading.Thread(target=play)
    thread.start()
    thread.join(100)
    WAKE.clear()
    assert len(texts) == 1
    assert "no answer within 1 s" in texts[0]


def held() -> Iterator[int]:
    """Counts processes, threads, descriptors, and shared and anonymous maps that this one holds."""
    gc.collect()
    yield len(psutil.Process().children(recursive=True))
    yield threading.active_count()
    yield len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a listing itself opens one
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    yield sum("memfd" in line or "/dev/shm" in line for line in maps)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", sorted(MANAGERS))
def test_creating_and_closing_leaves_nothing(name: str) -> None:
    """Five times, three where one takes a second; `benchmarks/` does it a hundred times."""
    counts = []
    rounds = 10 if SOAK else 3 if name == "ale_vector" else 5
    for number in range(rounds):
        manager = MANAGERS[name].build(OPTIONS.get(name), env_fn=ENVS["cartpole"])
        manager.launch()
        manager.step(manager.random_action())
        assert not named_memory(), "a process that is killed leaves it"
        if number % 2:
            manager.close()
        del manager
        counts.append(list(held()))
    assert counts[1:] == [counts[1]] * (rounds - 1), "processes, threads, descriptors, maps"


@pytest.mark.parametrize("name", sorted(MANAGERS))
def test_garbage_is_collected_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a thread holds a lock that others need, or sets a context variable."""
    set_by_close = []
    manager = MANAGERS[name].build(OPTIONS.get(name), env_fn=ENVS["cartpole"])
    manager.launch()
    manager.step(manager.random_action())
    monkeypatch.setattr(env_pool, "CLOSE_S", 90.0)  # who waits for the lock waits so long
    monkeypatch.setattr(crew, "_CLOSE_S", 90.0)
    monkeypatch.setattr(np, "errstate", lambda **kinds: set_by_close.append(kinds))
    with threading._active_limbo_lock:  # type: ignore[attr-defined]
        begun = time.monotonic()
        del manager
        gc.collect()
        took = time.monotonic() - begun
    assert took < 60
    assert not set_by_close
