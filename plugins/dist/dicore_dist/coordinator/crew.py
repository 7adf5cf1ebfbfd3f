"""The collector processes of a run: started, checked, replaced, added and removed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config import RunConfig
from dicore.errors import DicoreError, EnvError
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.links.ray_runtime import RayRuntime
from dicore_dist.parallel.config import system_of
from dicore_dist.workers.processes import RoleProcess, end_processes
from dicore_dist.workers.roles import CollectorRole, RoleSpec

if TYPE_CHECKING:
    from torch import nn


__all__ = ["Call", "Crew", "StalledError", "Wait", "Worker"]

LOOK = 0.1
"""Seconds between two looks at signals and processes."""
_COMPLAIN = 10.0
"""Seconds of waiting after which the log says what for."""


class StalledError(EnvError):
    """No collector delivered samples for `stall_timeout` seconds."""


@dataclass
class Call:
    """A collect that a process was told to do.

    Attributes:
        facts: Address of (failure, facts).
        columns: Address of the samples.
        env_steps: Expected env steps.
    """

    facts: Any
    columns: Any
    env_steps: int = 0


@dataclass
class Worker:
    """A collector process, or the place of one that is to be started.

    Attributes:
        index: Its number.
        expected: It belongs to the first ones, and was never replaced.
        process: None: it waits for `start_at`.
        able: It can be called, as of the last look.
        calls: The collects that it was told to do, oldest first.
        restarts: Times that it was replaced.
        start_at: When it is started again.
        env_step: Env steps of its samples that were used.
        version: Number of the parameters that collected the latest of them.
        seconds: Time that it took to collect them.
    """

    index: int
    expected: bool = False
    process: RoleProcess | None = None
    able: bool = False
    calls: deque[Call] = field(default_factory=deque)
    restarts: int = 0
    start_at: float = 0.0
    env_step: int = 0
    version: int = -1
    seconds: float = 0.0

    def drop(self) -> None:
        """Kills the process."""
        if self.process is not None:
            self.process.kill()
        self.process, self.able = None, False

    def doing(self, now: float) -> str:
        """Returns what it is doing, for messages."""
        name, process = f"collector {self.index}", self.process
        if process is None:
            return f"{name} is started again in {max(self.start_at - now, 0):.0f} s"
        if not process.pid:
            return f"{name} has been starting for {now - process.started:.0f} s"
        steps = process.latest.get("env_step", 0)
        return f"{name} (pid {process.pid}) is collecting, {steps} env steps so far"


class Crew:
    """The collector processes.

    Args:
        cfg: The bound config of the run.
        runtime: Starts the processes.
        model: Network that was given instead of the configured one.
        say: Receives lines for the log.
        folder: Folder for what the processes print.

    Attributes:
        workers: The processes.
        epoch: Number of processes that were started so far, also in earlier parts of the run.
    """

    def __init__(
        self,
        cfg: RunConfig,
        runtime: RayRuntime,
        *,
        model: nn.Module | None,
        say: Callable[[str], object],
        folder: Path,
    ) -> None:
        self._cfg, self.system = cfg, system_of(cfg)
        self._runtime, self._model, self._folder = runtime, model, folder
        self.say = say
        self._restarts = Restarts(self.system.max_restarts, self.system.restart_window)
        self.epoch = 0
        self._look_at = 0.0
        self.workers: list[Worker] = []

    def resize(self, count: int) -> None:
        """Adds or removes processes, so that there are `count`."""
        while len(self.workers) < count:
            self.workers.append(Worker(len(self.workers), expected=not self.epoch))
        gone = self.workers[count:]
        del self.workers[count:]
        self._end(gone)
        for worker in gone:
            self.say(f"collector {worker.index} was removed")

    def _start(self, worker: Worker) -> None:
        self.epoch += 1
        worker.process = RoleProcess(
            self._runtime,
            CollectorRole,
            RoleSpec(self._cfg, worker.index, self.epoch, self._model),
            f"collector {worker.index}",
            cores=self.system.collector_cores,
            output=self._output(worker),
        )

    def _output(self, worker: Worker) -> Path:
        return self._folder / f"collector-{worker.index}" / "output.txt"

    def able(self, now: float) -> list[Worker]:
        """Looks after all processes, ten times a second; returns those that can be called.

        Raises:
            DicoreError: see `look_after`.
        """
        if now >= self._look_at:
            self._look_at = now + LOOK
            self._runtime.check()
            for worker in self.workers:
                worker.able = self.look_after(worker, now)
        return [each for each in self.workers if each.able]

    def look_after(self, worker: Worker, now: float) -> bool:
        """Starts, checks and replaces a process; returns whether it can be called.

        Raises:
            DicoreError: it cannot be built, does not start, or keeps dying.
        """
        if worker.process is None:
            if now >= worker.start_at:
                self._start(worker)
            return False
        process = worker.process
        try:
            ready, silence = process.is_ready(), process.silence(now)
        except Exception as error:
            if not self._runtime.is_death(error):
                raise
            self.lost(worker, "its process ended")
            return False
        if not ready and now - process.started > self.system.start_timeout:
            raise DicoreError(
                f"{process.name} did not start within {self.system.start_timeout:g} s",
                hint="lower pipeline.system.collector_num or collector_cores, or raise"
                " pipeline.system.start_timeout",
            )
        if silence > self.system.heartbeat_timeout:
            self.lost(worker, f"it has been silent for {silence:.1f} s")
            return False
        return ready

    def lost(self, worker: Worker, reason: str) -> None:
        """Replaces a process; the samples that it was collecting are lost, not those it has.

        Raises:
            DicoreError: it has died too often, see `Restarts`.
        """
        name, told = f"collector {worker.index}", len(worker.calls)
        worker.drop()
        worker.calls = deque(each for each in worker.calls if self._has(each))
        if worker.calls:
            self.delivered(worker)
        worker.expected = False
        worker.restarts += 1
        pause = self._restarts.lost(name)
        if pause is None:
            raise DicoreError(
                f"{name}: {reason}; lost {self._restarts.count(name)} times, with nothing collected"
                " in between",
                hint=f"see {self._output(worker)}",
            )
        worker.start_at = time.monotonic() + pause
        lost = told - len(worker.calls)
        self.say(f"{name}: {reason}; it is replaced, {lost} collects under way are lost")
        if not pause:
            self._start(worker)

    def _has(self, call: Call) -> bool:
        """Returns whether the samples of a collect are there, now that its process is gone."""
        addresses = [call.facts, call.columns]
        if not all(self._runtime.ready([each]) for each in addresses):
            return False
        try:
            self._runtime.get(addresses)
        except Exception as error:
            if not self._runtime.is_death(error):
                raise
            return False
        return True

    def delivered(self, worker: Worker) -> None:
        """Notes that a process has collected something."""
        self._restarts.delivered(f"collector {worker.index}")

    def complaint(self) -> str:
        """Returns what each process is doing, for messages."""
        now = time.monotonic()
        return "; ".join(worker.doing(now) for worker in self.workers)

    def close(self) -> None:
        """Ends the processes, within seconds."""
        self._end(self.workers)

    def _end(self, workers: Iterable[Worker]) -> None:
        end_processes(self._runtime, [each.process for each in workers if each.process])
        for worker in workers:
            worker.process = None
            worker.calls.clear()


class Wait:
    """A wait for samples: complains, gives up, and ends when the run is to stop.

    Args:
        crew: The processes waited for.
        should_stop: Ends the wait.
        limit: Seconds after which it gives up.

    Attributes:
        now: Time of the last look.
    """

    def __init__(self, crew: Crew, should_stop: Callable[[], bool] | None, limit: float) -> None:
        self._crew, self._stop, self._limit = crew, should_stop, limit
        self.start = self.now = self._complained = time.monotonic()

    def goes_on(self) -> bool:
        """Returns whether to wait on.

        Raises:
            StalledError: the limit is exceeded.
        """
        self.now = time.monotonic()
        if self._stop is not None and self._stop():
            return False
        waited = self.now - self.start
        if self.now - self._complained >= _COMPLAIN:
            self._complained = self.now
            self._crew.say(f"no samples for {waited:.0f} s: {self._crew.complaint()}")
        if waited > self._limit:
            raise StalledError(
                f"no samples for {waited:.0f} s: {self._crew.complaint()}",
                hint="if the environment is that slow, raise pipeline.system.stall_timeout",
            )
        return True
