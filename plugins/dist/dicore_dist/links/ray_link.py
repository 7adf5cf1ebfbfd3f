"""The link `ray`: tasks by calls of Ray actors, samples and parameters in Ray's object store.

A process of a role is a driver of the cluster, which nobody can call. So it has a mailbox, an actor
that keeps the requests until the process takes them; the mailbox ends with the process. A shelf, an
actor of the training, stores values by name and owns them, so that samples outlive their collector.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dicore import __version__
from dicore.data import Batch, tree_map
from dicore.errors import UsageError
from dicore_dist.links.channel import token_of
from dicore_dist.links.errors import AuthenticationError, PeerError, RemoteTaskError, failure_of
from dicore_dist.links.mailbox import Mailbox, Shelf
from dicore_dist.links.ray_runtime import RayRuntime, import_ray
from dicore_plugins.collectors.block import from_plain, plain_state
from dicore_plugins.messages import pack, unpack

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["RayStore", "RayTransport"]

_LOG = logging.getLogger("dicore.comm")
_NAMESPACE: Final = "dicore"
_CONNECTING: Final = threading.Lock()
_START_S: Final = 120.0
"""Limit for a process of Ray to start."""
_FIND_S: Final = 30.0
"""Limit for a call that only looks something up."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _prefix(token: str) -> str:
    """Returns the beginning of the names of a training's actors."""
    given = token_of(token)
    if not given:
        raise UsageError("processes on Ray need a token", hint="set DICORE_TOKEN in all of them")
    return f"dicore-{hashlib.sha256(given.encode()).hexdigest()[:16]}"


def _connected(address: str | None) -> Any:
    """Returns the module `ray`, connected to a cluster.

    Raises:
        UsageError: there is none.
    """
    ray = import_ray(address)
    if address is None and not ray.is_initialized():
        raise UsageError(
            "no Ray cluster is given",
            hint="pipeline.system.address=HOST:PORT of: RAY_AUTH_MODE=token ray start --head",
        )
    with _CONNECTING:
        return RayRuntime(address=address).ray


class RayTransport:
    """Serves and asks through mailboxes; implements `ITransport`.

    Args:
        peer: `ray:NAME` of the process that `request` asks; "": this process only answers.
        token: The shared token, which names the mailbox; "": that of `DICORE_TOKEN`.
        address: host:port of the Ray cluster; None: the one of this process.

    Attributes:
        lost: Nobody reaches this process any more: its mailbox was killed, or Ray is gone.
    """

    def __init__(self, peer: str = "", token: str = "", address: str | None = None) -> None:
        self._peer, self._token, self._cluster = peer.removeprefix("ray:"), token, address
        self._number = uuid.uuid4().hex[:12]
        self._answers: dict[str, Answer] = {}
        self._mailbox: Any = None
        self._actor: Any = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = False

    @property
    def address(self) -> str:
        """`ray:NAME`, by which others reach this process."""
        return f"ray:{_prefix(self._token)}-{self._number}"

    @cached_property
    def _ray(self) -> Any:
        return _connected(self._cluster)

    def serve(self, name: str, answer: Answer) -> None:
        """Calls `answer` for each request of this name; its errors are returned as text."""
        self._answers[name] = answer
        if self._thread is None:
            name = self.address.removeprefix("ray:")
            options = {"name": name, "namespace": _NAMESPACE, "num_cpus": 0}
            made = self._ray.remote(Mailbox).options(**options, max_concurrency=1000)
            self._mailbox = made.remote()
            self._ray.get(self._mailbox.__ray_ready__.remote(), timeout=_START_S)
            self._thread = threading.Thread(target=self._work, name="dicore-ray", daemon=True)
            self._thread.start()

    def request(
        self, name: str, data: Mapping[str, Any], timeout: float | None = None
    ) -> Mapping[str, object]:
        """Sends a request and returns the response.

        Raises:
            PeerError: the process is gone, or did not answer in time.
            RemoteTaskError: it answered with an error; the text is that of the error.
            AuthenticationError: it runs another version of dicore.
        """
        errors = self._ray.exceptions
        try:
            if self._actor is None:
                self._actor = self._ray.get_actor(self._peer, namespace=_NAMESPACE)
            asked = self._actor.ask.remote(__version__, name, dict(data))
            content = self._ray.get(asked, timeout=timeout)
        except errors.GetTimeoutError as error:
            raise PeerError(
                f"ray:{self._peer} did not answer '{name}' within {timeout} s",
                context={"silent": True},
            ) from error
        except (ValueError, errors.RayActorError) as error:
            raise PeerError(
                f"no process answers at ray:{self._peer}", hint="is the process running?"
            ) from error
        if "refused" in content:
            raise AuthenticationError(str(content["refused"]))
        if "error" in content:
            raise RemoteTaskError.of(content)
        result: Mapping[str, Any] = content["result"]
        return result

    def close(self) -> None:
        """Stops to serve, after the answers that are being given; later calls do nothing."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        if self._mailbox is not None:
            with suppress(Exception):
                self._ray.kill(self._mailbox)
            self._mailbox = None

    def _work(self) -> None:
        """Takes requests; each is answered in a thread of its own."""
        threads: list[threading.Thread] = []
        while not self._closed.is_set():
            try:
                found = self._ray.get(self._mailbox.take.remote())
            except BaseException as error:
                if not self._closed.is_set():
                    _LOG.warning("the mailbox of this process is gone: %s", error)
                    self.lost = True
                return
            threads = [each for each in threads if each.is_alive()]
            if found is not None:
                thread = threading.Thread(target=self._respond, args=found, daemon=True)
                thread.start()
                threads.append(thread)
        end = time.monotonic() + 2.0
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _respond(self, number: int, version: str, name: str, data: object) -> None:
        content = self._answer(version, name, data)
        with suppress(Exception):  # Ray, or who asked, is gone
            self._ray.get(self._mailbox.answer.remote(number, content), timeout=_FIND_S)

    def _answer(self, version: str, name: str, data: Any) -> dict[str, object]:
        if version != __version__:
            text = f"versions differ: one process runs dicore {__version__}, the other {version}"
            return {"refused": text}
        if name not in self._answers:
            return {"error": f"'{name}' is not served; expected {', '.join(self._answers)}"}
        try:
            return {"result": dict(self._answers[name](data))}
        except BaseException as error:  # also what would end a process: who asked waits for it
            return failure_of(error)


class RayStore:
    """A store in Ray's object store; what it holds belongs to the training, not to who stored it.

    Args:
        token: The shared token of the training; "": that of `DICORE_TOKEN`.
        address: host:port of the Ray cluster; None: the one of this process.
    """

    def __init__(self, token: str = "", address: str | None = None) -> None:
        self._token, self._address = token, address

    @cached_property
    def _ray(self) -> Any:
        return _connected(self._address)

    @cached_property
    def _shelf(self) -> Any:
        options = {"name": f"{_prefix(self._token)}-shelf", "namespace": _NAMESPACE, "num_cpus": 0}
        made = self._ray.remote(Shelf).options(
            **options, get_if_exists=True, lifetime="detached", max_restarts=0
        )
        return made.remote()

    def save(self, name: str, content: object) -> None:
        """Stores plain data, or a `Batch` as columns."""
        if isinstance(content, Batch):
            value: object = len(content), plain_state(dict(content.columns))
        else:
            value = pack(content)
        self._call("put", name, value)

    def load(self, name: str) -> Any:
        """Returns what has a name, in memory of its own."""
        found = self._call("get", name)
        if not found:
            raise FileNotFoundError(f"{name}: not in the object store")
        value = self._get(found[0])
        if isinstance(value, bytes):
            return unpack(value)
        count, columns = value
        return Batch(from_plain(tree_map(_copied, columns)), count)

    def stamp(self, name: str) -> Hashable | None:
        """Returns a number of the content."""
        found: int | None = self._call("stamp", name)
        return found

    def remove(self, name: str) -> None:
        """Frees the memory of a name."""
        self._call("remove", [name])

    def clear(self, job_id: str) -> None:
        """Ends the shelf, which frees all memory of the training."""
        with suppress(Exception):
            self._ray.kill(self._shelf)

    def _call(self, method: str, *args: object) -> Any:
        return self._get(getattr(self._shelf, method).remote(*args))

    def _get(self, address: object) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(address, timeout=_FIND_S)
        except errors.RayError as error:
            raise PeerError(
                f"Ray's object store does not give what is stored: {type(error).__name__}",
                hint="was the machine that held it lost? The training cannot go on from it",
            ) from error


def _copied(leaf: Tree) -> Any:
    """Returns a copy of an array: shared memory is read-only."""
    return leaf.copy() if hasattr(leaf, "copy") else leaf
