"""Runs the same main function in several processes whose tasks exchange events."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dicore.console import say
from dicore.errors import UsageError
from dicore.task import task
from dicore_compat.comm.bus import TcpQueue
from dicore_compat.comm.router import EventRouter
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.coordinator.supervisor import Job, Supervisor
from dicore_dist.links.channel import TOKEN_VARIABLE, address_of, listen, parsed, token_of

__all__ = ["Parallel"]

_TOPOLOGIES = ("mesh", "star", "alone")
_CONNECT_S = 20.0
_LOG = logging.getLogger("dicore.comm")


@dataclass(frozen=True)
class _Node:
    """What a worker process needs to join the others."""

    node_id: int
    listen_to: str
    attach_to: tuple[str, ...]
    token: str
    labels: tuple[str, ...]
    mq_type: str


class Parallel:
    """Runs a main function in several processes; events of the global task reach all of them.

        def main():
            with task.start(ctx=OnlineRLContext()):
                task.add_role(task.role.LEARNER if task.router.node_id == 0 else ...)
                task.use(ContextExchanger()).use(ModelExchanger(policy.collect_mode))
                ...

        if __name__ == "__main__":
            Parallel.runner(n_parallel_workers=3, topology="star")(main)

    Sockets are on the loopback interface unless `address` says otherwise; every connection is
    proved by a shared token, and nothing on it is unpickled.
    """

    @classmethod
    def runner(  # noqa: PLR0913, PLR0917 - DI-engine's arguments
        cls,
        n_parallel_workers: int,
        mq_type: str = "tcp",
        attach_to: Sequence[str] | None = None,
        protocol: str = "ipc",
        address: str | None = None,
        ports: Sequence[int] | int | None = None,
        topology: str = "mesh",
        labels: Collection[str] | None = None,
        node_ids: Sequence[int] | int | None = None,
        auto_recover: bool = False,
        max_retries: float = 10,
        startup_interval: float = 0.0,
    ) -> Callable[..., None]:
        """Returns a function that runs `main(*args, **kwargs)` in all processes.

        Args:
            n_parallel_workers: Number of processes.
            mq_type: Message queue between them (`dicore list message_queue`).
            attach_to: Addresses of processes of another runner to connect to.
            protocol: `ipc`: Unix sockets, this machine only; `tcp`.
            address: Host name or IP address at which the processes listen, with `tcp`.
            ports: Port of each process, or of the first (the next ones follow); None: free ports.
            topology: `mesh`: all are connected; `star`: all to the first, or to `attach_to`;
                `alone`: none.
            labels: Labels of every task, besides `node.<id>`.
            node_ids: Number of each process, or of the first; None: from 0.
            auto_recover: Restart a process that fails, and let the others go on. Without it, the
                first failure ends all processes and is raised.
            max_retries: Restarts of each process.
            startup_interval: Seconds between the starts of two processes.

        Raises:
            UsageError: an argument is wrong.
        """
        if n_parallel_workers < 1:
            raise UsageError(f"n_parallel_workers must be >= 1, got {n_parallel_workers}")
        if topology not in _TOPOLOGIES:
            raise UsageError(f"unknown topology '{topology}'; expected {', '.join(_TOPOLOGIES)}")
        numbers = _numbers("node_ids", node_ids, n_parallel_workers, first=0)
        places = _Places(protocol, address, _numbers("ports", ports, n_parallel_workers))
        token = _token(attach_to, opened=ports is not None)
        known = tuple(attach_to or ())
        for each in known:
            parsed(each)

        def run(main: Callable[..., object], *args: object, **kwargs: object) -> None:
            with places.opened(n_parallel_workers) as sockets:
                own = [address_of(each) for each in sockets]
                jobs = []
                for index, sock in enumerate(sockets):
                    dials = _dials(topology, index, own, known)
                    node = _Node(
                        numbers[index], own[index], dials, token, tuple(labels or ()), mq_type
                    )
                    job = (node, sock, main, args, kwargs)
                    jobs.append(Job(f"node {numbers[index]}", _work, job))
                restarts = Restarts(max_retries) if auto_recover else None
                Supervisor(jobs, restarts=restarts, startup_interval=startup_interval).run()

        return run


@dataclass(frozen=True)
class _Places:
    """Where the processes of a runner listen."""

    protocol: str
    address: str | None
    ports: Sequence[int]

    def __post_init__(self) -> None:
        if self.protocol not in ("ipc", "tcp"):
            raise UsageError(f"unknown protocol '{self.protocol}'; expected ipc, tcp")
        if self.protocol == "ipc" and (self.address is not None or any(self.ports)):
            raise UsageError(
                "protocol 'ipc' has no address and no ports", hint="choose protocol='tcp'"
            )

    @contextlib.contextmanager
    def opened(self, count: int) -> Iterator[list[socket.socket]]:
        """Opens a listening socket for each process; they keep their address over a restart."""
        folder = tempfile.mkdtemp(prefix="dicore-") if self.protocol == "ipc" else None
        sockets: list[socket.socket] = []
        try:
            for index in range(count):
                place = f"tcp://{self.address or '127.0.0.1'}:{self.ports[index]}"
                if folder is not None:
                    place = f"ipc://{Path(folder) / str(index)}"
                sockets.append(listen(place))
            yield sockets
        finally:
            for each in sockets:
                each.close()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _numbers(
    name: str, given: Sequence[int] | int | None, count: int, first: int | None = None
) -> list[int]:
    """Returns one number per process; without `first`, 0 stands for any."""
    if given is None:
        return [0] * count if first is None else list(range(first, first + count))
    if isinstance(given, int):
        return list(range(given, given + count))
    if len(given) == 1 and count > 1:
        return list(range(given[0], given[0] + count))
    if len(given) != count or len(set(given)) != count:
        raise UsageError(f"{name}: expected {count} different numbers, got {[*given]}")
    return [*given]


def _dials(topology: str, index: int, own: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the addresses that a process connects to; of two processes, one dials."""
    if topology == "alone":
        return ()
    if topology == "mesh":
        return (*known, *own[:index])
    return known or ((own[0],) if index else ())


def _token(attach_to: Sequence[str] | None, *, opened: bool) -> str:
    """Returns the token of `DICORE_TOKEN`, or a random one for the processes of one runner."""
    if token := token_of():
        return token
    if attach_to:
        raise UsageError(
            "attach_to needs the token of the other processes",
            hint=f"set {TOKEN_VARIABLE} to the same text for all runners",
        )
    token = secrets.token_hex(16)
    if opened:
        say(f"other runners cannot join: set {TOKEN_VARIABLE} to the same text for all of them")
    return token


def _work(
    node: _Node,
    sock: socket.socket,
    main: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    """Joins the other processes and calls `main`."""
    from dicore_registry import default

    made: Any = default().resolve("message_queue", node.mq_type).target
    options: dict[str, Any] = {"attach_to": node.attach_to, "token": node.token}
    if made is TcpQueue:
        bus = made("", **options, node=node.node_id, sock=sock)
    else:
        sock.close()
        bus = made(listen_to=node.listen_to, **options)
    router = EventRouter(bus, node.node_id, node.labels)
    task.router = router
    router.listen()
    try:
        if hasattr(bus, "wait_for_peers"):
            _check_peers(bus, node)
        main(*args, **kwargs)
    finally:
        task.router = type(task).router
        router.stop()


def _check_peers(bus: Any, node: _Node) -> None:
    """Waits for the processes to connect to; tells which are missing, or have the same number.

    Raises:
        UsageError: another process has the number of this one.
    """
    found = bus.wait_for_peers(len(node.attach_to), _CONNECT_S)
    if found < len(node.attach_to):
        text = "node %d: %d of %d processes to connect to answer after %g s; going on (%s)"
        told = node.node_id, found, len(node.attach_to), _CONNECT_S, ", ".join(node.attach_to)
        _LOG.warning(text, *told)
    if node.node_id in getattr(bus, "peers", ()):
        raise UsageError(
            f"node_ids: another process is node {node.node_id}, too",
            hint="give each process of a job its own number: node_ids=, or --node-ids of ditask",
        )
