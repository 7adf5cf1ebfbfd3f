"""Middleware that connects the tasks of several processes: contexts, models, barriers."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import middleware, task
from dicore.task.middleware import Role
from dicore_dist.links.errors import PeerError

if TYPE_CHECKING:
    from torch import nn

    from dicore.task import Context

__all__ = ["Barrier", "ContextExchanger", "ModelExchanger", "PeriodicalModelExchanger"]

_LOG = logging.getLogger("dicore.comm")
_POLL_S: Final = 0.2
_COLLECTED: Final = ("trajectories", "episodes", "trajectory_end_idx")
_COUNTED: Final = ("env_step", "env_episode")


class _Inbox:
    """What arrived from other processes, for the main loop to take; of limited size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: list[object] = []
        self._state = threading.Condition()

    def put(self, item: object) -> None:
        """Adds an item; blocks the events of other processes while the inbox is full."""
        with self._state:
            while len(self._items) >= self._size and not _ending():
                self._state.wait(_POLL_S)
            self._items.append(item)
            self._state.notify_all()

    def take(self, timeout: float | None) -> list[Any]:
        """Returns all items; waits for the first one, until the task ends or a time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._state:
            while not self._items and not _ending():
                left = _POLL_S if end is None else min(_POLL_S, end - time.monotonic())
                if left <= 0:
                    break
                self._state.wait(left)
            items, self._items = self._items, []
            self._state.notify_all()
            return items


def _ending() -> bool:
    """Returns whether nothing more will arrive; `task.finish` also says that a step is the last."""
    return not task.running or getattr(task.router, "ending", True)


@middleware(role=None)
class ContextExchanger:
    """Sends samples from collectors to learners, and the number of updates back.

    The first part of a step merges what arrived: a learner waits for samples of any collector; the
    others wait, from their step `skip_n_iter` on, for the end of a learner's step. Samples of
    several collectors are concatenated, their env steps and episodes added up. Add the roles of the
    process before it. In a task of one process it does nothing.

    Args:
        skip_n_iter: Steps at the start that do not wait for a learner.
        storage_loader: Stores samples (`FileStorageLoader`), so that messages hold only where.
        timeout: Seconds after which a collector goes on without a learner, and a learner waits on
            for samples, with a warning.
        queue_size: Messages that may wait to be merged; collectors wait for more.
    """

    def __init__(
        self,
        skip_n_iter: int = 1,
        storage_loader: Any | None = None,
        *,
        timeout: float = 10.0,
        queue_size: int = 16,
    ) -> None:
        self._skip, self._timeout = skip_n_iter, timeout
        self._loader = storage_loader
        self._learns = task.has_role(Role.LEARNER)
        self._collects = task.has_role(Role.COLLECTOR)
        self._active = task.router.is_active and not (self._learns and self._collects)
        self._inbox = _Inbox(queue_size)
        self._sent = dict.fromkeys(_COUNTED, 0)
        self._restarted = False
        if not self._active:
            return
        self.writes: tuple[str, ...] = ("train_iter", "env_step", "env_episode")
        if self._learns:
            self.writes = (*_COLLECTED, "env_step", "env_episode")
        elif self._collects:
            self.writes = ("train_iter",)
        topics = {Role.LEARNER: "context_of_learner", Role.COLLECTOR: "context_of_collector"}
        for role, topic in topics.items():
            if not task.has_role(role):
                task.on(topic, self._inbox.put)

    def __call__(self, ctx: Any) -> Generator[None, None, None]:
        if not self._active:
            yield
            return
        self._merge(ctx)
        yield
        if self._collects:
            self._send_samples(ctx)
        elif self._learns:
            task.emit("context_of_learner", {"train_iter": ctx.train_iter}, only_remote=True)

    def _merge(self, ctx: Context) -> None:
        if self._learns:
            payloads = self._samples()
        elif ctx.total_step < self._skip:
            payloads = self._inbox.take(0)
        else:
            payloads = self._inbox.take(self._timeout)
            if not payloads and not _ending():
                _LOG.warning("no learner answered within %s s; going on", self._timeout)
        collected: dict[str, list[Any]] = {}
        for payload in payloads:
            self._add(ctx, payload, collected)
        if self._learns and collected:
            _set_samples(ctx, collected)

    def _samples(self) -> list[Any]:
        """Waits for the samples of any collector, until the task ends; tells that it waits."""
        payloads = self._inbox.take(self._timeout)
        if not payloads and not _ending():
            peers = len(getattr(getattr(task.router, "bus", None), "peers", ()))
            text = "no samples within %s s, connected processes: %d; waiting"
            _LOG.warning(text, self._timeout, peers)
            payloads = self._inbox.take(None)
        return payloads

    def _add(self, ctx: Any, payload: Mapping[str, Any], collected: dict[str, list[Any]]) -> None:
        if "train_iter" in payload:
            ctx.train_iter = max(ctx.train_iter, payload["train_iter"])
        if self._collects:
            return
        for name in _COUNTED:
            setattr(ctx, name, getattr(ctx, name) + payload.get(name, 0))
        if self._learns and "samples" in payload:
            samples = payload["samples"]
            if "stored" in samples:
                samples = _loaded(self._loader, samples["stored"])
            if "trajectories" in samples:  # a block in which no trajectory ends has no ends
                samples = {"trajectory_end_idx": [], **samples}
            for name, value in samples.items():
                collected.setdefault(name, []).append(value)

    def _send_samples(self, ctx: Context) -> None:
        payload: dict[str, Any] = {}
        for name in _COUNTED:
            now = getattr(ctx, name)
            payload[name], self._sent[name] = now - self._sent[name], now
        samples = {name: value for name in _COLLECTED if (value := getattr(ctx, name))}
        if self._loader is not None and samples:
            samples = {"stored": self._loader.save(samples)}
        task.emit("context_of_collector", {**payload, "samples": samples}, only_remote=True)


def _loaded(loader: Any | None, handle: Mapping[str, Any]) -> Any:
    """Returns what another process stored."""
    if loader is None:
        raise UsageError(
            "another process stored what it sent, and this one has no loader",
            hint="give the exchanger the same kind of loader in all processes",
        )
    return loader.load(handle)


def _set_samples(ctx: Any, collected: Mapping[str, list[Any]]) -> None:
    """Concatenates the samples of several payloads into the context."""
    blocks = collected.get("trajectories", [])
    ends, at = [], 0
    for block, found in zip(blocks, collected.get("trajectory_end_idx", []), strict=True):
        ends += [at + int(each) for each in found]
        at += len(block)
    if blocks:
        ctx.trajectories, ctx.trajectory_end_idx = _joined(blocks), ends
    if episodes := collected.get("episodes"):
        ctx.episodes = [each for block in episodes for each in block]


def _joined(blocks: list[Any]) -> Any:
    if isinstance(blocks[0], Batch):
        return Batch.concat(blocks)
    return [row for block in blocks for row in block]


@middleware(optional=["train_iter"])
class ModelExchanger:
    """Sends the parameters of learners, after each step with an update, to all other processes.

    The others load the newest parameters before each step; parameters are loaded as a whole or not
    at all. A process that starts later asks for them. In a task of one process it does nothing.

    Args:
        model: Has `state_dict` and `load_state_dict`, such as `policy.collect_mode`.
        model_loader: Stores parameters (`FileModelLoader`), so that messages hold only where.

    Attributes:
        version: Updates that the parameters have had, or -1: none arrived or were sent yet.
    """

    event = "model_exchanger"
    _delay = float("inf")

    def __init__(self, model: nn.Module, model_loader: Any | None = None) -> None:
        self._model, self._loader = model, model_loader
        self.uses = (model,)
        self.version = -1
        self._newest: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=1)
        self._wanted = False
        self._sends = task.has_role(Role.LEARNER)
        self._active = task.router.is_active and self._has_one_side()
        if self._active and self._sends:
            task.on(f"{self.event}_wanted", self._want)
        elif self._active:
            task.on(self.event, self._receive)

    def _has_one_side(self) -> bool:
        """A process with all roles neither sends nor receives."""
        return not (self._sends and task.has_role(Role.COLLECTOR))

    def __call__(self, ctx: Context) -> Generator[None, None, None]:
        if self._active and not self._sends:
            if self.version < 0 and not self._newest:
                task.emit(f"{self.event}_wanted", only_remote=True)
            self._load()
        yield
        if self._active and self._sends and self._due(ctx):
            self._send(ctx)

    def _due(self, ctx: Any) -> bool:
        return self._wanted or ctx.train_iter != self.version

    def _send(self, ctx: Any) -> None:
        self._wanted = False
        self.version = ctx.train_iter
        state = self._model.state_dict()
        payload = {"version": self.version, "state": state}
        if self._loader is not None:
            payload["state"] = {"stored": self._loader.save(state)}
        task.emit(self.event, payload, only_remote=True)

    def _want(self) -> None:
        self._wanted = True

    def _receive(self, payload: Mapping[str, Any]) -> None:
        self._newest.append((time.monotonic(), payload))

    def _load(self) -> bool:
        """Loads the newest parameters, if any have arrived since; returns whether they have."""
        try:
            arrived_at, newest = self._newest.pop()
        except IndexError:
            return False
        if time.monotonic() - arrived_at > self._delay:
            return False
        state = newest["state"]
        if "stored" in state:
            state = _loaded(self._loader, state["stored"])
        self._model.load_state_dict(state)
        self.version = newest["version"]
        return True


@middleware(optional=["train_iter"])
class PeriodicalModelExchanger(ModelExchanger):
    """Sends parameters every `period` steps, or receives those of one sender.

    Args:
        model: As in `ModelExchanger`.
        mode: `send` or `receive`.
        period: Steps between two sends.
        id_: Number of the sender; a receiver takes parameters of this one only, -1: of all.
        delay_toleration: Seconds after their arrival at which parameters are too old to be loaded.
        stale_toleration: Steps without new parameters after which a receiver waits; -1: never.
        event_name: Event by which they are sent.
        model_loader: As in `ModelExchanger`.
    """

    def __init__(
        self,
        model: nn.Module,
        mode: str = "send",
        period: int = 1,
        id_: int = -1,
        delay_toleration: float = float("inf"),
        stale_toleration: int = -1,
        event_name: str = "model_exchanger",
        model_loader: Any | None = None,
    ) -> None:
        if mode not in ("send", "receive"):
            raise UsageError(f"unknown mode '{mode}'; expected send, receive")
        if period < 1:
            raise UsageError(f"period must be >= 1, got {period}")
        self.event, self._mode = event_name, mode
        self._period, self._id = period, id_
        self._delay, self._stale = delay_toleration, stale_toleration
        self._steps = self._without = 0
        super().__init__(model, model_loader)

    def _has_one_side(self) -> bool:
        self._sends = self._mode == "send"
        return True

    def _due(self, ctx: Context) -> bool:
        self._steps += 1
        return self._wanted or (self._steps - 1) % self._period == 0

    def _send(self, ctx: Context) -> None:
        self._wanted = False
        self.version += 1
        state = self._model.state_dict()
        stored = state if self._loader is None else {"stored": self._loader.save(state)}
        payload = {"version": self.version, "id": self._id, "state": stored}
        task.emit(self.event, payload, only_remote=True)

    def _receive(self, payload: Mapping[str, Any]) -> None:
        if self._id in (-1, payload.get("id", -1)):
            super()._receive(payload)

    def _load(self) -> bool:
        while not super()._load():
            if not 0 <= self._stale <= self._without or _ending():
                self._without += 1
                return False
            time.sleep(0.01)
        self._without = 0
        return True


class Barrier:
    """Waits in each step until all processes have reached it.

    Processes pass on what they know of others, so that all need not be connected with each other.

    Args:
        n_processes: Number of processes, with this one.
        timeout: Seconds to wait.
        name: Name of the barrier, if a task has several.

    Raises:
        PeerError: not all arrived in time; the text tells how many.
    """

    reads: tuple[str, ...] = ()

    def __init__(self, n_processes: int = 1, timeout: float = 60.0, name: str = "barrier") -> None:
        self._count, self._timeout, self._event = n_processes, timeout, name
        self._arrived: dict[int, int] = {}
        self._mine = -1
        self._state = threading.Condition()
        if task.router.is_active:
            task.on(name, self._note)

    def __call__(self, ctx: Context) -> None:
        if not task.router.is_active:
            return
        self._mine = ctx.total_step
        end = time.monotonic() + self._timeout
        while not _ending():
            self._tell(reply=True)
            with self._state:
                if self._state.wait_for(self._complete, 0.1):
                    return
            if time.monotonic() > end:
                raise PeerError(
                    f"{self._event}: {self._present()} of {self._count} processes arrived at step"
                    f" {self._mine} within {self._timeout:g} s",
                    hint="raise timeout, or lower n_processes",
                )

    def _present(self) -> int:
        return 1 + sum(step >= self._mine for step in self._arrived.values())

    def _complete(self) -> bool:
        return self._present() >= self._count

    def _note(self, arrived: Sequence[tuple[int, int]], reply: bool) -> None:
        """Receives who is at which step, the sender first; who is connected tells it itself."""
        router: Any = task.router
        connected = getattr(router.bus, "peers", ())
        told = [arrived[0], *(each for each in arrived[1:] if each[0] not in connected)]
        with self._state:
            for node, step in told:
                if node != task.router.node_id:
                    self._arrived[node] = max(step, self._arrived.get(node, -1))
            self._state.notify_all()
        if reply and arrived[0][1] <= self._mine:
            self._tell(reply=False)

    def _tell(self, *, reply: bool) -> None:
        with self._state:
            arrived = [(task.router.node_id, self._mine), *self._arrived.items()]
        task.emit(self._event, arrived, reply, only_remote=True)
