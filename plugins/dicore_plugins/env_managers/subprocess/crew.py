"""The workers of a pool: which environments each has, their start, and the memory they share."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dicore.errors import EnvSpaceError
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.channel import Lifeline
from dicore_plugins.env_managers.subprocess.process import Limits, Request, Worker, pickled
from dicore_plugins.env_managers.transports.interface import EnvLayout, IEnvTransport
from dicore_plugins.env_managers.transports.pipe import Pipe

__all__ = ["Crew"]

_LOG = logging.getLogger("dicore.env")
_CLOSE_S = 3.5
"""Time in which workers close their environments; then they are killed."""


class Crew:
    """Worker processes, each with environments whose ids follow each other.

    Args:
        env_fn: A factory per env id.
        cfg: The manager's options.

    Attributes:
        workers: All workers; none is started.
        of: The worker of each environment.
        transport: Carries the data of steps.
    """

    def __init__(self, env_fn: Mapping[int, Callable[[], Any]], cfg: Any) -> None:
        self._cfg = cfg
        self._owner = os.getpid()
        self._lifeline = Lifeline()
        self.transport: IEnvTransport = Pipe()
        limits = Limits(*(
            float("inf") if limit is None else limit
            for limit in (cfg.connect_timeout, cfg.reset_timeout, cfg.step_timeout)
        ))  # fmt: skip
        ids = list(env_fn)
        size = cfg.envs_per_worker or -(-len(ids) // _cores())
        self.workers: list[Worker] = []
        for first in range(0, len(ids), size):
            own = ids[first : first + size]
            makes = pickled([env_fn[env_id] for env_id in own])
            self.workers.append(Worker(makes, own, cfg.context, limits, self._lifeline))
        self.of = {env_id: worker for worker in self.workers for env_id in worker.ids}

    def started(self, env_id: int) -> Worker:
        """Returns the worker of an environment, started if need be."""
        worker = self.of[env_id]
        if not worker.alive:
            worker.start()
        return worker

    def launch(self, workers: Iterable[Worker]) -> dict[Worker, RemoteError]:
        """Makes the environments of workers, at the same time, where they are not made.

        Returns:
            Why some could not be made; these workers are ended.
        """
        waiting = [worker for worker in workers if not worker.launched]
        failed: dict[Worker, RemoteError] = {}
        asked: list[tuple[Worker, Request]] = []
        for worker in waiting:
            self.started(worker.ids[0])
            asked.append((worker, worker.post("launch")))
        for worker, request in asked:
            try:
                worker.time_limits = worker.value(request)
                worker.launched = True
                self.attach([worker])
            except RemoteError as error:
                failed[worker] = error
                worker.end()
        return failed

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
        self.attach(self.workers)

    def attach(self, workers: Sequence[Worker]) -> None:
        """Gives the memory of the transport to workers.

        Raises:
            RemoteError: a worker ended.
        """
        files = list(self.transport.files())
        if files:
            asked = [(worker, worker.post("attach", self.transport)) for worker in workers]
            for worker, request in asked:
                worker.value(request)
                socket.send_fds(worker.channel.socket, [b"f"], files)

    def close(self) -> None:
        """Ends all workers within 5 s; those whose environments hang are killed."""
        if os.getpid() != self._owner:
            return  # a forked child has no workers
        until = time.monotonic() + _CLOSE_S
        for worker in self.workers:
            worker.dismiss()
        for worker in self.workers:
            worker.leave(until)
        self.transport.close()
        self._lifeline.close()


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
