"""Ray: started for one run on the loopback interface, or the instance that is already there."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil

from dicore.errors import DicoreError, MissingDependencyError, UsageError
from dicore.run.signals import StopNow
from dicore_dist.links.watcher import Watcher
from dicore_registry import code_paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["RayRuntime"]

_LOG = logging.getLogger("dicore.parallel")
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_ENVIRONMENT_HERE = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # binds to the loopback interface, on Linux too
    "RAY_preallocate_plasma_memory": "1",  # a sixth of the time of the first writes
    "RAY_agent_register_timeout_ms": "120000",  # on busy machines 30 s are too few
    "RAY_worker_niceness": "0",  # that of the learner, instead of 15
}
"""For a Ray that is started here; a running cluster has an address and a way to sign in."""

_PREFIX = "dicore-ray-"
"""What the names of Ray's temporary folders begin with; then comes the id of the process."""
_MOST_LETTERS = 9
"""Of the temporary folder: Ray adds up to 94, and a socket may have 103."""
_ATTEMPTS = 2
"""How often Ray is started: on a busy machine it gives up after 30 s."""


class RayRuntime:
    """Access to Ray; closes what it started.

    Args:
        cores: CPU cores that the processes of the run reserve.
        object_store: Shared memory of a Ray that is started here, in MiB.
        address: host:port of a running cluster; None: the Ray of this process if it is running,
            else one is started on this machine.
        record: `run.json` of the run, which says so if this process is killed; None: no file.

    Attributes:
        ray: The module.
        started: Ray was started here.

    Raises:
        MissingDependencyError: the package `ray` is not installed.
        UsageError: nobody answers at `address`.
    """

    def __init__(
        self,
        *,
        cores: float = 1.0,
        object_store: int = 256,
        address: str | None = None,
        record: Path | None = None,
    ) -> None:
        self.ray = import_ray(address)
        self.started = self._connected = False
        self._folder: Path | None = None
        self._record = record
        self._watcher: Watcher | None = None
        self._check_at, self._silent_since = 0.0, math.inf
        if self.ray.is_initialized():
            self._use(address)
        elif address is not None:
            self._connect(address)
        else:
            self._start(cores, object_store)

    def _start(self, cores: float, object_store: int) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._start_once(cores, object_store)
            except Exception as error:
                self.close()
                if attempt == _ATTEMPTS - 1:
                    raise DicoreError(f"Ray does not start: {error}") from error
                _LOG.warning("Ray does not start, trying once more: %s", error)
            except BaseException:
                self.close()
                raise
            else:
                return

    def _start_once(self, cores: float, object_store: int) -> None:
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_base()))
        self._watcher = Watcher(self._folder, self._record)
        with _handlers_kept(), _stopped_at_once():
            self.ray.init(
                num_cpus=max(os.cpu_count() or 1, int(cores) + 1),
                include_dashboard=False,
                configure_logging=False,
                log_to_driver=False,
                object_store_memory=object_store << 20,
                _temp_dir=str(self._folder / "r"),  # Ray opens its folder to all users
            )
        self.started = self._connected = True

    def _use(self, address: str | None) -> None:
        """Uses the Ray that this process is connected to, if it is the one that is meant."""
        present = self.ray.get_runtime_context().gcs_address
        if address not in (None, "auto") and _place(str(address)) != _place(present):
            raise UsageError(
                f"pipeline.system.address: expected {present}, the Ray cluster that this process"
                f" is connected to, got {address}",
                hint="call ray.shutdown() first, or leave the address out",
            )

    def _connect(self, address: str) -> None:
        check_address(address)
        try:
            with _handlers_kept(), _stopped_at_once():
                self.ray.init(address, configure_logging=False, log_to_driver=False)
        except Exception as error:
            self.close()
            raise _nobody_at(address, error) from error
        self._connected = True

    idle: ClassVar[dict[tuple[type, float], list[object]] | None] = None
    """Processes whose roles have ended, for later runs of this process; None: none are kept."""

    def process(self, cls: type, *, cores: float = 0.0) -> Any:
        """Starts an object of a class in a process of its own; returns its handle.

        Methods run one after the other, in the order of their calls. Those that are called with
        the concurrency group `health` run beside them.

        Args:
            cls: The class; it takes no arguments.
            cores: CPU cores to reserve.
        """
        if self.idle and self.idle.get((cls, cores)):
            return self.idle[cls, cores].pop()
        groups = {"health": 1}
        options = {"num_cpus": cores, "max_restarts": 0, "max_task_retries": 0}
        return self.ray.remote(**options, concurrency_groups=groups)(cls).remote()

    def keep(self, actor: object, cls: type, cores: float) -> bool:
        """Keeps a process for later runs, if processes are kept; returns whether they are."""
        if self.idle is None:
            return False
        self.idle.setdefault((cls, cores), []).append(actor)
        return True

    @property
    def host(self) -> str:
        """Address of this machine for the other processes."""
        return str(self.ray.util.get_node_ip_address())

    def check(self) -> None:
        """Notices that Ray is gone, looking once a second; Ray ends this process a minute later.

        Raises:
            DicoreError: it does not answer for 5 s, or 30 s if it was not started here.
        """
        now = time.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + 1.0
        address = str(self.ray.get_runtime_context().gcs_address)
        try:
            _connect_to(address, 1.0)
        except OSError as error:
            self._silent_since = min(self._silent_since, now)
            if now - self._silent_since < (5.0 if self.started else 30.0):
                return
            raise DicoreError(
                f"Ray does not answer at {address} any more: {error}",
                hint="resume the run from its last checkpoint: dicore train --resume RUN",
            ) from error
        self._silent_since = math.inf

    def put(self, value: object) -> object:
        """Stores a value in the object store; returns its address."""
        return self.ray.put(value)

    def get(self, address: object, timeout: float | None = None) -> Any:
        """Returns a value; raises `TimeoutError` if it is not there within `timeout` seconds."""
        return self.ray.get(address, timeout=timeout)

    def ready(self, addresses: Sequence[object], timeout: float = 0.0) -> list[Any]:
        """Waits until one of the values is there, at most `timeout` seconds; returns those."""
        if not addresses:
            return []
        found: list[Any] = self.ray.wait(addresses, num_returns=1, timeout=timeout)[0]
        return found

    def is_death(self, error: BaseException) -> bool:
        """Returns whether an error says that a process, or what it had stored, is gone."""
        gone = self.ray.exceptions
        kinds = gone.RayActorError, gone.ObjectLostError, gone.WorkerCrashedError
        return isinstance(error, (*kinds, gone.NodeDiedError, gone.OutOfMemoryError))

    def kill(self, actor: object) -> None:
        """Kills the process of an actor."""
        with contextlib.suppress(Exception):
            self.ray.kill(actor)

    def close(self) -> None:
        """Stops the Ray that was started here, with all its processes; later calls do nothing."""
        ours = [] if self._folder is None else _processes(str(self._folder))
        if (self._connected or self._folder is not None) and self.ray.is_initialized():
            with _handlers_kept():
                self.ray.shutdown()
        self._connected = False
        if self._folder is not None:
            for process in psutil.wait_procs(ours, 1.0)[1]:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


def check_address(address: str) -> None:
    """Checks that somebody listens at `host:port`; Ray itself waits for more than a minute.

    Who answers there sends pickles: a saved config does not choose the address.

    Raises:
        CodePathError: a saved config names the address.
        UsageError: nobody does.
    """
    code_paths.check(address, "pipeline.system.address")
    try:
        _connect_to(address, 5.0)
    except (OSError, OverflowError) as error:
        raise _nobody_at(address, error) from error


def _place(address: str) -> tuple[str, str]:
    """Returns host and port of `host:port`; all names of this machine are one host."""
    name, _, port = address.rpartition(":")
    try:
        host = socket.gethostbyname(name)
        with socket.socket() as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError):
        return name, port
    return "127.0.0.1", port


def _connect_to(address: str, timeout: float) -> None:
    """Connects to host:port, and closes the connection; does nothing for other addresses."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout).close()


def _nobody_at(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"pipeline.system.address: no Ray cluster answers at {address}: {error}",
        hint="start one: RAY_AUTH_MODE=token ray start --head; or leave the address out",
    )


def import_ray(address: str | None = None) -> Any:
    """Returns the module `ray`, imported with the settings for a Ray that is started here.

    Args:
        address: A running cluster, whose settings are its own; None: there is none.

    Raises:
        MissingDependencyError: it is not installed.
    """
    if "ray" not in sys.modules:  # it reads them when it is imported
        here = _ENVIRONMENT_HERE if address is None else {}
        for name, value in {**_ENVIRONMENT, **here}.items():
            os.environ.setdefault(name, value)
        if here and os.environ["RAY_AUTH_MODE"] == "token":
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingDependencyError(
            "parallel training needs the package ray, which is not installed",
            hint="pip install 'dicore-dist[ray]'",
        ) from error
    return ray


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restores the signal handlers that Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Within the block, SIGINT and SIGTERM raise `StopNow`: there is nothing to save yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise StopNow(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    yield


def _base() -> Path:
    """Returns where Ray's folder is: near the root, since paths of sockets have few letters."""
    given = Path(tempfile.gettempdir())
    short = Path("/tmp")  # noqa: S108 - the folder in it is for this user only
    is_long = os.name == "posix" and len(os.fsencode(given)) > _MOST_LETTERS
    return short if is_long and os.access(short, os.W_OK | os.X_OK) else given


def _remove_abandoned() -> None:
    """Removes the temporary folders of processes that were killed."""
    places = {Path(tempfile.gettempdir()), _base()}
    for folder in chain.from_iterable(each.glob(f"{_PREFIX}*-*") for each in places):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _processes(folder: str) -> list[psutil.Process]:
    """Returns the processes of the Ray that keeps its files in a folder."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any(folder in word for word in process.cmdline()):
                found += [process, *process.children(recursive=True)]
    return found
