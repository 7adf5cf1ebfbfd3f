"""The workers of a pool: which environments each has, their start, and the memory they share."""

from __future__ import annotations

import logging
import os
import resource
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.errors import EnvSpaceError, UsageError
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.factories import pickled, preload
from dicore_plugins.env_managers.subprocess.process import Worker
from dicore_plugins.env_managers.transports.interface import EnvLayout, IEnvTransport
from dicore_plugins.env_managers.transports.pipe import Pipe
from dicore_plugins.env_managers.workers import WATCH_S, BaseCrew, BaseWorker, Limits

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["Crew"]

_LOG = logging.getLogger("dicore.env")
_CLOSE_S = 3.5
"""Time in which workers close their environments; then they are killed."""
_FILES_PER_WORKER = 5
_OTHER_FILES = 64
_MOST_PER_CORE = 8
"""Workers per core from which on a warning is logged."""
_OPEN: weakref.WeakSet[Crew] = weakref.WeakSet()


def _close_all() -> None:
    for crew in list(_OPEN):
        crew.close(_CLOSE_S)


# when Python ends: before multiprocessing waits for the processes, which would wait for this one
util.Finalize(None, _close_all, exitpriority=10)


class Crew(BaseCrew):
    """Worker processes, each with environments whose ids follow each other.

    Args:
        env_fn: A factory per env id.
        cfg: The manager's options.
        output: Returns the file for what the environments of a worker print, from their ids; None:
            they print to the terminal.

    Attributes:
        transport: Carries the data of steps.
    """

    def __init__(
        self,
        env_fn: Mapping[int, Callable[[], Env]],
        cfg: Any,
        output: Callable[[Sequence[int]], Path | None] = lambda ids: None,
    ) -> None:
        self._cfg = cfg
        self._owner = os.getpid()
        self.transport: IEnvTransport = Pipe()
        connect, reset, step = (
            float("inf") if limit is None else limit
            for limit in (cfg.connect_timeout, cfg.reset_timeout, cfg.step_timeout)
        )
        limits = Limits(connect, reset, step)
        ids = list(env_fn)
        size = cfg.envs_per_worker or -(-len(ids) // available_cores())
        parts = [ids[first : first + size] for first in range(0, len(ids), size)]
        _check(cfg.context, len(parts), size)
        _warn_of_many(len(parts), available_cores(), len(ids))
        if cfg.context == "forkserver":
            preload(env_fn.values())
        self.workers: Sequence[Worker] = [
            Worker(
                pickled({env_id: env_fn[env_id] for env_id in part}),
                part, cfg.context, limits, output(part),
            )
            for part in parts
        ]  # fmt: skip
        _OPEN.add(self)
        self.of: Mapping[int, Worker] = {i: worker for worker in self.workers for i in worker.ids}

    def new_transport(self, layout: EnvLayout) -> None:
        """Makes the configured transport, or the pipe for spaces that it cannot carry."""
        from dicore_plugins.env_managers.transports.shared_memory import SharedMemory

        self.transport.close()
        cfg = self._cfg
        try:
            if cfg.transport is not None:
                self.transport = cfg.transport.build(None, layout=layout)
            else:
                self.transport = SharedMemory(layout) if cfg.shared_memory else Pipe()
        except EnvSpaceError as error:
            _LOG.info("env workers use the pipe, not shared memory: %s", error.message)
            self.transport = Pipe()
        self._attach(self.workers)  # one that ends here is started again by the next reset

    def _attach(self, workers: Sequence[Worker]) -> dict[Worker, RemoteError]:
        """Gives the memory of the transport to workers.

        Returns:
            Why some could not take it; these workers are ended.
        """
        files = list(self.transport.files())
        failed: dict[Worker, RemoteError] = {}
        asked = [(worker, worker.post("attach", self.transport)) for worker in workers if files]
        for worker, request in asked:
            try:
                worker.value(request)
                worker.send_files(files)
            except RemoteError as error:
                failed[worker] = error
                worker.end()
        return failed

    def join(self, worker: BaseWorker) -> None:
        """Gives a worker that made its environments the memory, and the states of lost ones.

        Raises:
            RemoteError: the worker ended, or a state could not be restored.
        """
        for error in self._attach([self.of[worker.ids[0]]]).values():
            raise error
        super().join(worker)

    def wait(self, seconds: float, count: int = 1) -> None:
        """Waits until something comes, a limit is reached, or that time is over."""
        poll, waiting = select.poll(), [worker for worker in self.workers if worker.requests]
        for worker in waiting:
            poll.register(worker.channel, select.POLLIN)
        if not poll.poll(min(seconds, WATCH_S) * 1000):
            for worker in waiting:
                worker.watch()

    def close(self, seconds: float, *, quiet: bool = False) -> None:
        """Ends all workers within 5 s; those whose environments hang are killed."""
        if os.getpid() != self._owner:
            return  # a forked child has no workers
        until = time.monotonic() + _CLOSE_S  # also of garbage: environments may have files to write
        for worker in self.workers:
            worker.dismiss()
        for worker in self.workers:
            worker.leave(until)
        self.transport.close()


def _check(context: str, workers: int, size: int) -> None:
    """Refuses what would fail later, or hang.

    Raises:
        UsageError: there are too many workers for the limit of open files, or processes would be
            forked with CUDA in use.
    """
    needed = _FILES_PER_WORKER * workers
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and needed + _OTHER_FILES > limit:
        more = -(-size * needed // max(1, limit - _OTHER_FILES))
        raise UsageError(
            f"{workers} workers need about {needed} open files; the limit is {limit}",
            hint=f"raise it (ulimit -n) or set env.manager.envs_per_worker={more}",
        )
    if context != "fork":
        return
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise UsageError(
            "workers cannot be forked after CUDA was used",
            hint="set env.manager.context=forkserver",
        )
    threads = threading.active_count()
    if threads > 1:
        _LOG.warning(
            "workers are forked with %d threads running, which can hang them, and this process if"
            " another thread computes; set env.manager.context=forkserver", threads
        )  # fmt: skip


@cache
def _warn_of_many(workers: int, cores: int, envs: int) -> None:
    """Warns, once, of many more workers than cores."""
    if workers > _MOST_PER_CORE * cores:
        _LOG.warning(
            "%d workers share %d cores; if the environments compute rather than wait,"
            " env.manager.envs_per_worker=%d is faster", workers, cores, -(-envs // cores),
        )  # fmt: skip


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
