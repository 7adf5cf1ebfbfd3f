"""Traces which files one value passes, from the command line to the optimizer or to the loss.

A file is on the path when one of its functions *holds* the value: as an argument, a local variable
or a return value, or one level below (an item, a dict value or an attribute of these). A caller
holds what it passes and what it gets back. The files are in the order in which the value arrives.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType
from typing import Any

PACKAGES = (
    *("dicore", "dicore_registry", "dicore_plugins"),
    *("dicore_compat", "dicore_dist", "dicore_agents", "dicore_worlds", "dicore_contrib"),
    "dicore_contrib_envs",
    "dicore_tools",
)
LEARNING_RATE = 0.000123
COMMAND = ["train", "-q", "-e", "cartpole", "-p", "dqn", "-s", "0"]
NO_WARM_UP = ["policy.collect.random_collect_size=0", "policy.learn.batch_size=8"]
_ITEMS = 64
"""Containers with more entries are not searched."""


class Path:
    """The files that hold a value, in the order in which it arrives.

    Args:
        matches: Says whether an object is the value.
        until: The function whose call ends the trace, the process and the training.
    """

    def __init__(self, matches: Callable[[Any], bool], until: str) -> None:
        self.matches, self.until = matches, until
        self.files: dict[str, str] = {}

    def start(self) -> None:
        """Watches all functions of dicore's packages from now on."""
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)

    def _watch(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_qualname == self.until:
            self._finish(frame)
        if event not in ("call", "return"):
            return
        caller = frame.f_back
        here, there = self._is_new(frame), self._is_new(caller)
        if event == "call" and file_of(frame):
            if (here or there) and self._any(frame.f_locals.values()):
                self._add(caller)  # it passes what the function gets
                self._add(frame)
        elif event == "return":
            if here and self._any(frame.f_locals.values()):
                self._add(frame)
            if there and self._any((arg,)):
                self._add(caller)

    def _finish(self, frame: FrameType | None) -> None:
        """Adds the functions that are still running, prints all files and ends the process."""
        sys.setprofile(None)
        running = []
        while frame is not None:
            running.append(frame)
            frame = frame.f_back
        for each in reversed(running):
            if self._any(each.f_locals.values()):
                self._add(each)
        os.write(1, json.dumps(list(self.files.items())).encode())
        os._exit(0)

    def _is_new(self, frame: FrameType | None) -> bool:
        return frame is not None and bool(file := file_of(frame)) and file not in self.files

    def _add(self, frame: FrameType | None) -> None:
        if frame is not None and (file := file_of(frame)):
            self.files.setdefault(file, frame.f_code.co_qualname.replace("<locals>.", ""))

    def _any(self, objects: Iterable[Any]) -> bool:
        return any(self.matches(each) or any(map(self.matches, inside(each))) for each in objects)


def file_of(frame: FrameType, known: dict[str, str] = {}) -> str:  # noqa: B006 - a cache
    """Returns the path of a frame's file below its package; "" for other packages and imports."""
    code = frame.f_code
    path = known.get(code.co_filename)
    if path is None:
        parts = code.co_filename.replace(os.sep, "/").split("/")
        at = [number for number, part in enumerate(parts) if part in PACKAGES]
        path = "/".join(parts[at[-1] :]) if at and "tests" not in parts else ""
        known[code.co_filename] = path
    return "" if code.co_name == "<module>" else path


def inside(value: Any) -> Iterator[Any]:
    """Yields items, dict values or attributes of an object."""
    if isinstance(value, dict):
        if len(value) <= _ITEMS:
            yield from (*value, *value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        if len(value) <= _ITEMS:
            yield from tuple(value)
    elif not isinstance(value, str | bytes | int | float | type | ModuleType):
        for name in {*getattr(value, "__dict__", ()), *_slots(type(value))}:
            try:
                yield object.__getattribute__(value, name)
            except AttributeError:
                continue


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def is_learning_rate(value: Any) -> bool:
    """Says whether a value is the learning rate, as a number or within a text."""
    if isinstance(value, str):
        return "0.000123" in value and len(value) < 200
    return isinstance(value, float) and value == LEARNING_RATE


class Observation:
    """Says whether a value is an observation or has it as a row: an array, a tensor, a batch."""

    def __init__(self, obs: Any) -> None:
        self.obs = obs

    def __call__(self, value: Any) -> bool:
        module = type(value).__module__
        if module.startswith("dicore.data"):
            return any(map(self, inside(value)))
        if isinstance(value, dict) and len(value) <= _ITEMS:  # the columns of a batch
            return any(map(self, value.values()))
        if module == "torch" and type(value).__name__ in ("Tensor", "Parameter"):
            value = value.detach().numpy()
        shape = getattr(value, "shape", ())
        if type(value).__module__ != "numpy" or not shape or shape[-1] != len(self.obs):
            return False
        return bool((value.reshape(-1, len(self.obs)) == self.obs).all(1).any())


def watch_env_steps(seen: Callable[[int, Any], None]) -> None:
    """Calls a function with number and observation of every step of CartPole."""
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    step, count = CartPoleEnv.step, itertools.count()

    def watched(env: Any, action: Any) -> Any:
        result = step(env, action)
        seen(next(count), result[0].copy())
        return result

    CartPoleEnv.step = watched  # type: ignore[method-assign]


def choose_observation(place: str) -> None:
    """Prints the number of the last env step whose observation is in the first batch."""
    import torch

    steps: list[Any] = []
    watch_env_steps(lambda number, obs: steps.append(obs))

    def backward(*_: object, **__: object) -> None:
        frame: FrameType | None = inspect.currentframe()
        batches: list[Any] = []
        while frame is not None and not batches:
            found = [each for each in frame.f_locals.values() if type(each).__name__ == "Batch"]
            batches, frame = found, frame.f_back
        numbers = [n for n, obs in enumerate(steps) if Observation(obs)(batches[0]["obs"])]
        os.write(1, json.dumps(numbers[-1]).encode())
        os._exit(0)

    torch.Tensor.backward = backward  # type: ignore[method-assign,assignment]
    train(place, *NO_WARM_UP)


def trace_observation(place: str, chosen: int) -> None:
    """Prints the files from an env step to the loss."""

    def seen(number: int, obs: Any) -> None:
        if number == chosen:
            Path(Observation(obs), until="Tensor.backward").start()

    watch_env_steps(seen)
    train(place, *NO_WARM_UP)


def trace_learning_rate(place: str) -> None:
    """Prints the files from the command line to the optimizer."""
    import torch  # noqa: F401 - its own functions are not watched while it is imported

    Path(is_learning_rate, until="FlatOptimizer.step").start()
    train(place, f"policy.learn.learning_rate={LEARNING_RATE:f}")


def train(place: str, *options: str) -> None:
    """Runs `dicore train`; the trace ends the process before the training ends."""
    from dicore.cli import main

    code = main([*COMMAND, "--exp-name", f"{place}/run", *options])
    raise SystemExit(f"the training ended before the trace did ({code})")


def run(what: str) -> Any:
    """Returns what a trace of its own process prints."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(  # noqa: S603 - this file
            [sys.executable, "-P", __file__, what, place],
            capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def path_of(what: str) -> list[tuple[str, str]]:
    """Returns files and functions that a value passes: `learning_rate` or `observation`."""
    chosen = f"observation {run('choose')}" if what == "observation" else what
    return [(file, function) for file, function in run(chosen)]


if __name__ == "__main__":
    (name, *number), folder = sys.argv[1].split(), sys.argv[2]
    if name == "learning_rate":
        trace_learning_rate(folder)
    elif name == "choose":
        choose_observation(folder)
    else:
        trace_observation(folder, int(number[0]))
