"""Processes of roles: started, asked for a sign of life, replaced, stopped."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

import dicore
from dicore import errors
from dicore.errors import DicoreError, UsageError
from dicore_dist.links.ray_runtime import RayRuntime
from dicore_dist.workers.roles import RoleSpec

__all__ = ["RoleProcess", "end_processes", "raise_failure"]


class _Host:
    """Runs a role in a process; what a role raises is returned as text."""

    def __init__(self) -> None:
        self._role: Any = None

    def build(
        self, role: Callable[[RoleSpec], object], spec: RoleSpec, output: str
    ) -> dict[str, Any]:
        """Builds a role, and returns what this process is.

        Args:
            role: Class of the role.
            spec: What to build it from.
            output: File for what the process prints; made where its folder exists.
        """
        _redirect(Path(output))
        failure: Any = None
        try:
            self._role = role(spec)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            failure = _described(error)
        facts = {"pid": os.getpid(), "dicore": dicore.__version__, "failure": failure}
        return {**facts, "host": socket.gethostname()}

    def call(self, method: str, *args: object) -> Any:
        """Calls a method; returns (None, its result), or (the failure, None)."""
        try:
            return None, getattr(self._role, method)(*args)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return _described(error), None

    def collect(self, *args: object) -> tuple[Any, Any]:
        """Calls `collect` of the role; returns (failure, facts), and the samples apart."""
        failure, result = self.call("collect", *args)
        facts, columns = result or (None, None)
        return (failure, facts), columns

    def progress(self) -> dict[str, int]:
        """Returns a sign of life."""
        found: dict[str, int] = self._role.progress()
        return found

    def stop(self) -> None:
        """Asks the role to stop."""
        if self._role is not None:
            self._role.stop()


def _redirect(output: Path) -> None:
    """Appends what this process prints to a file, if its folder is there."""
    if not output.parent.parent.is_dir():
        return
    output.parent.mkdir(exist_ok=True)
    with output.open("ab") as file:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            stream.flush()
            os.dup2(file.fileno(), number)


def _described(error: BaseException) -> dict[str, str]:
    text = error.message if isinstance(error, DicoreError) else f"{type(error).__name__}: {error}"
    return {
        "class": type(error).__name__,
        "text": text,
        "hint": getattr(error, "hint", "") or "",
        "trace": "".join(traceback.format_exception(error)),
    }


def raise_failure(name: str, failure: dict[str, str]) -> None:
    """Raises what a role raised in its process, as the same class of `dicore.errors`."""
    cls = getattr(errors, failure["class"], DicoreError)
    if not (isinstance(cls, type) and issubclass(cls, DicoreError)):
        cls = DicoreError
    error = cls(f"{name}: {failure['text']}", hint=failure["hint"])
    error.add_note(f"In the process of {name}:\n{failure['trace']}")
    raise error


class RoleProcess:
    """One process of a role.

    Args:
        runtime: Starts it.
        role: Class of the role, for instance `CollectorRole`.
        spec: What the role is built from.
        name: Its name in messages: `collector 0`.
        cores: CPU cores to reserve.
        output: File for what it prints.

    Attributes:
        pid: Its process id; 0 before it is ready.
        seen: When it was last heard of.
        latest: What it last said about its progress.
    """

    def __init__(
        self,
        runtime: RayRuntime,
        role: Callable[[RoleSpec], Any],
        spec: RoleSpec,
        name: str,
        *,
        cores: float,
        output: Path,
    ) -> None:
        self._runtime, self.name, self.spec = runtime, name, spec
        self._actor, self._cores = runtime.process(_Host, cores=cores), cores
        try:
            self._hello = self._actor.build.remote(role, spec, str(output))
        except (TypeError, AttributeError, ValueError) as error:
            raise UsageError(
                f"{name}: the config cannot be sent to another process: {error}",
                hint="create locks, files and connections in the environment's __init__",
            ) from error
        self._ping: object = None
        self._asked = 0.0
        self.started = self.seen = time.monotonic()
        self.pid = 0
        self._local: psutil.Process | None = None
        self.latest: dict[str, int] = {}

    def call(self, method: str, *args: object) -> Any:
        """Calls a method of the role; returns the address of (failure, result)."""
        return self._actor.call.remote(method, *args)

    def collect(self, *args: object) -> list[Any]:
        """Calls `collect`; returns the addresses of (failure, facts), and of the samples."""
        made: list[Any] = self._actor.collect.options(num_returns=2).remote(*args)
        return made

    def is_ready(self) -> bool:
        """Returns whether the role is built.

        Raises:
            DicoreError: it cannot be built, or the process runs another version of dicore.
        """
        if self.pid or self._hello is None:
            return bool(self.pid)
        if not self._runtime.ready([self._hello]):
            return False
        hello = self._runtime.get(self._hello)
        if hello["failure"] is not None:
            raise_failure(self.name, hello["failure"])
        if hello["dicore"] != dicore.__version__:
            raise DicoreError(
                f"{self.name} runs dicore {hello['dicore']}, this process {dicore.__version__}",
                hint="install the same version on all machines",
            )
        self.pid, self.seen = hello["pid"], time.monotonic()
        if hello["host"] == socket.gethostname():
            with contextlib.suppress(psutil.Error):
                self._local = psutil.Process(self.pid)
        return True

    def silence(self, now: float) -> float:
        """Returns for how long a question has been waiting for an answer, in seconds; asks again.

        Raises:
            Exception: the process is gone, see `RayRuntime.is_death`.
        """
        if not self.is_ready():
            return 0.0
        if self._ping is None:
            if now - self._asked >= 1.0:
                self._ping = self._actor.progress.options(concurrency_group="health").remote()
                self._asked = now
            return 0.0
        if self._runtime.ready([self._ping]):
            self.latest, self._ping = self._runtime.get(self._ping), None
            self.seen = now
            return 0.0
        return now - self._asked

    def stop(self) -> Any:
        """Asks the role to stop and to close its environments; returns the address of the end."""
        self._actor.stop.options(concurrency_group="health").remote()
        return self._actor.call.remote("close")

    def give_back(self) -> bool:
        """Keeps the process, whose role has ended, for another role, if processes are kept."""
        kept = self._runtime.keep(self._actor, _Host, self._cores)
        self.pid = 0 if kept else self.pid
        return kept

    def kill(self, *, by_ray: bool = False) -> None:
        """Kills the process.

        Args:
            by_ray: Only asks Ray, which ends it without a message but not if it is stopped; False:
                also kills it from here, if it is on this machine.
        """
        self._runtime.kill(self._actor)
        if self._local is not None and not by_ray:
            with contextlib.suppress(psutil.Error):
                self._local.kill()

    def is_alive(self) -> bool:
        """Returns whether there is a process on this machine that was ready."""
        return self._local is not None and self._local.is_running()


def end_processes(
    runtime: RayRuntime, processes: Sequence[RoleProcess], limit: float = 2.0
) -> None:
    """Lets roles close their environments, for at most `limit` seconds; then kills them."""
    ends = {each.stop(): each for each in processes if each.pid}
    left, until = list(processes), time.monotonic() + limit
    while ends and time.monotonic() < until:
        for end in runtime.ready([*ends], 0.1):
            process = ends.pop(end)
            if process.give_back():
                left.remove(process)
    for each in left:
        each.kill(by_ray=True)
    until = time.monotonic() + 1.0
    while any(each.is_alive() for each in left) and time.monotonic() < until:
        time.sleep(0.02)
    for each in left:
        if each.is_alive():
            each.kill()
