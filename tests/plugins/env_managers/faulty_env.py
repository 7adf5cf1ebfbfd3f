"""An environment that does what its action says, also what ends its process."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

HANGS_S = 120.0


def fine() -> None:
    """Does nothing."""


def fails() -> None:
    raise ValueError("no wind")


def kills() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfaults() -> None:
    ctypes.string_at(0)


def divides() -> None:
    os.kill(os.getpid(), signal.SIGFPE)


def leaves() -> None:
    os._exit(3)


def exits() -> None:
    sys.exit("enough")


def hangs() -> None:
    time.sleep(HANGS_S)


def hangs_hard() -> None:
    """Holds the GIL and ignores SIGTERM."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(int(HANGS_S))


def slow() -> None:
    time.sleep(0.8)


def starts_a_process() -> None:
    """Starts a process that would outlive it."""
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({HANGS_S})"])


def starts_a_child() -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(HANGS_S,))
    child.start()


class SlowToLoad:
    """Takes long to unpickle, as an import may take long."""

    def __reduce__(self) -> Any:
        return time.sleep, (HANGS_S,)


ACTIONS = (
    fine, fails, kills, segfaults, divides, leaves, exits, hangs, hangs_hard, slow,
    starts_a_process, starts_a_child,
)  # fmt: skip
LOCK, NO_DICT, LAMBDA = (len(ACTIONS) + at for at in range(3))


class FaultyEnv(gymnasium.Env[Any, Any]):
    """Counts steps; observations are float32 [2]: the tag and the step.

    Args:
        tag: Tells this environment from others.
        reset: What a reset does.
        make: What making it does.
        close: What closing it does.
        size: Length of the observation.
        folder: Gets a file `made.<tag>` with a line per process in which it was made.
        from_reset: `reset` does so from this reset on.
    """

    def __init__(
        self,
        tag: int = 0,
        reset: Any = fine,
        make: Any = fine,
        close: Any = fine,
        size: int = 2,
        folder: Path | None = None,
        from_reset: int = 0,
    ) -> None:
        make()
        self.tag, self._reset, self._close = tag, reset, close
        self._resets, self._from_reset = 0, from_reset
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(len(ACTIONS) + 3)
        self.count = 0
        self.pid = os.getpid()
        if folder is not None:
            with (folder / f"made.{tag}").open("a") as file:
                file.write(f"{os.getpid()}\n")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        self._resets += 1
        if self._resets > self._from_reset:
            self._reset()
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        self.count += 1
        info: Any = {}
        if action < len(ACTIONS):
            ACTIONS[action]()
        else:
            info = {LOCK: {"lock": threading.Lock()}, NO_DICT: [1], LAMBDA: {"f": lambda: 7}}[
                int(action)
            ]
        return self._obs(), 1.0, False, False, info

    def close(self) -> None:
        self._close()

    def _obs(self) -> Any:
        obs = np.zeros(self.observation_space.shape, np.float32)
        obs[:] = self.count
        obs[0] = self.tag
        return obs


def action(what: Any) -> int:
    """Returns the action that does so."""
    return what if isinstance(what, int) else ACTIONS.index(what)
