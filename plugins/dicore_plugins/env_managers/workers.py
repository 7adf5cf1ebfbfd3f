"""Workers, threads or processes: what they are asked for, and when they are late."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dicore.errors import DicoreError, EnvCreateError, EnvError
from dicore_plugins.env_managers.env_pool import EnvPool
from dicore_plugins.env_managers.faults import STEP_HINT, RemoteError, described

__all__ = [
    "BaseCrew", "BaseWorker", "Limits", "PartPool", "Request", "WorkerLostError", "create_error",
]  # fmt: skip

_LOG = logging.getLogger("dicore.env")
WATCH_S = 0.1
"""Time between two looks at the limits."""
_TERM_S = 0.5
"""Time between SIGTERM and SIGKILL of a process."""
_WARN_AT = 0.25
"""Part of a limit after which a slow call is logged."""

NextReset = tuple[int, Mapping[str, object]]
"""Seed and arguments of a reset."""
Answer = Any
"""What a method of a worker's pool returned or raised: an object of any type, pickled or not."""


class Limits(NamedTuple):
    """Time limits of a worker, in seconds.

    Args:
        connect: To start, and for each environment to be made.
        reset: For each reset, and for each call of a method.
        step: For each step.
        option: The option that sets `connect`.
    """

    connect: float
    reset: float
    step: float
    option: str = "connect_timeout"


class Request(NamedTuple):
    """What a worker was asked for.

    Args:
        number: Of the message.
        name: The method that is called.
        begun: When it was sent.
        ids: The environments.
    """

    number: int
    name: str
    begun: float
    ids: Sequence[int] = ()


class PartPool(EnvPool):
    """The environments of one worker, which calls the methods by name."""

    def call_with(self, env_id: int, name: str, args: Any, kwargs: Any) -> object:
        """Calls a method of an environment."""
        return self.call(env_id, name, *args, **kwargs)

    def states(self, env_id: int, begun: bool) -> Sequence[Any]:
        """Returns the states of the layers of an environment."""
        return self.layer_states(env_id, begun=begun)


class BaseWorker:
    """Answers requests, one after the other, for some of the environments.

    It is started when it is first needed, and again after it was lost.

    Args:
        ids: Ids of its environments.
        limits: Time limits.

    Attributes:
        requests: Those that are not answered, by number.
        early: Answers that came while another one was awaited, of requests that name environments.
        states: Of the stateful layers of environments, before their last reset, by env id.
        due: Resets that it is to begin by itself and was not told yet, by env id.
        launched: Its environments are made.
        whole: All of its environments were reset since it was started.
        lost_at: Number of the last request before it was lost; 0: it never was.
        time_limits: Of its environments, in steps.
        error: Why its environments were not made.
    """

    alive: bool

    def __init__(self, ids: list[int], limits: Limits) -> None:
        self.ids = ids
        self.requests: dict[int, Request] = {}
        self.early: list[tuple[Request, Answer]] = []
        self.states: dict[int, Sequence[Any]] = {}
        self.due: dict[int, NextReset] = {}
        self.launched = self.whole = False
        self.lost_at = 0
        self.time_limits: list[float] = []
        self.error: BaseException | None = None
        self._limits = limits
        self._number = 0
        self._warned = -1

    # ---- what differs between threads and processes

    def start(self) -> None:
        """Starts it; the environments are not made yet.

        Raises:
            RemoteError: the system does not.
        """
        raise NotImplementedError

    def post(self, name: str, *args: object, ids: Sequence[int] = (), body: bytes = b"") -> Request:
        """Sends a request; that the worker ended is found when its answer is awaited.

        Args:
            name: Method of its pool.
            *args: Its arguments.
            ids: The environments, if the answer may come while another one is awaited.
            body: The message to a process, if it is not to be made of name and arguments.
        """
        raise NotImplementedError

    def answer(self, request: Request) -> Answer:
        """Waits for the answer to a request; others that come are kept in `early`.

        Raises:
            RemoteError: the worker ended or took too long; it is ended.
        """
        raise NotImplementedError

    def collect(self) -> None:
        """Moves the answers that have come to `early`."""
        raise NotImplementedError

    def _readable(self) -> bool:
        """Returns whether an answer has come that nobody has read."""
        raise NotImplementedError

    def _busy_with(self) -> tuple[float, int, bool]:
        """Returns since when it calls which environment (-1: none), and whether it resets it.

        Raises:
            RemoteError: the worker ended.
        """
        raise NotImplementedError

    def opened(self, answer: Answer) -> object:
        """Returns the value of an answer, or the exception that it holds."""
        return answer

    def end(self, grace_s: float = 0.0, why: RemoteError | None = None) -> None:
        """Ends it, whatever it does.

        Args:
            grace_s: Time for it to end by itself.
            why: The answer to the requests that are pending.
        """
        raise NotImplementedError

    # ---- requests and answers

    def _asked(self, name: str, ids: Sequence[int]) -> Request:
        """Numbers a request, and notes that it waits for an answer."""
        self._number = number = self._number + 1
        request = self.requests[number] = Request(number, name, time.monotonic(), ids)
        return request

    def value(self, request: Request) -> Any:
        """Waits for the value that an answer holds.

        Raises:
            RemoteError: as `answer`, or the exception of a process.
            BaseException: the exception of a thread.
        """
        value = self.opened(self.answer(request))
        try:
            if isinstance(value, BaseException):
                raise value
            return value
        finally:
            del value  # an exception and the frame that raised it would keep each other alive

    def _forget(self, why: RemoteError | None) -> None:
        """Notes that it ended: its environments are lost, and its requests have that answer."""
        self.launched = self.whole = False
        self.lost_at = self._number
        self.due.clear()
        if why is not None:
            self.early += [(each, why) for each in self.requests.values() if each.ids]
        self.requests.clear()

    # ---- limits

    def watch(self) -> None:
        """Ends the worker if it takes too long or died; the answers in `early` say so."""
        with contextlib.suppress(RemoteError):
            self.check()

    def check(self) -> None:
        """Finds a worker that ended without saying so, or that takes too long.

        Raises:
            RemoteError: it did; it is ended.
        """
        if not self.requests or self._readable():  # an answer that nobody has read is not late
            return
        since, env_id, resets = self._busy_with()
        request = next(iter(self.requests.values()))
        took = time.monotonic() - max(since, request.begun)
        who, hint = f"env {env_id if env_id >= 0 else self.ids[0]}", ""
        if request.name in ("make", "launch"):
            limit, what, option = self._limits.connect, "made", self._limits.option
            if env_id < 0:
                who, what = f"the process of {who}", "started"
                hint = "; the machine is very busy, or an import hangs"
        elif resets or request.name != "step":
            what = "reset" if resets else f"asked: {request.name}"
            limit, option = self._limits.reset, "reset_timeout"
        else:
            limit, what, option = self._limits.step, "stepped", "step_timeout"
        if took > limit:
            error = RemoteError(
                "TimeoutError", f"no answer within {limit:g} s while {who} was {what}",
                hint=f"raise env.manager.{option}{hint}",
            )  # fmt: skip
            self.end(_TERM_S, error)
            raise error
        if took > limit * _WARN_AT and self._warned != request.number:
            self._warned = request.number
            _LOG.warning("%s is being %s for %.1f s; the limit is %g s", who, what, took, limit)


class BaseCrew:
    """The workers of a pool.

    Attributes:
        workers: All workers; none is started.
        of: The worker of each environment.
    """

    workers: Sequence[BaseWorker]
    of: Mapping[int, BaseWorker]
    _watch_at = 0.0

    def started(self, env_id: int) -> BaseWorker:
        """Returns the worker of an environment, started if need be.

        Raises:
            EnvCreateError: the system starts no more processes.
        """
        worker = self.of[env_id]
        if not worker.alive:
            try:
                worker.start()
            except RemoteError as error:
                raise create_error(worker, error) from error
        return worker

    def join(self, worker: BaseWorker) -> None:
        """Gives a worker that made its environments the states of lost ones.

        Raises:
            RemoteError: the worker ended, or a state could not be restored.
        """
        for state in worker.states.items():
            worker.value(worker.post("load_layer_states", *state))

    def arrived(self) -> Iterable[BaseWorker]:
        """Returns the workers whose answers have come."""
        for worker in self.workers:
            worker.collect()
            if worker.early:
                yield worker

    def answers(self, asked: Sequence[tuple[BaseWorker, Request]]) -> list[tuple[Request, Answer]]:
        """Waits for the answers to requests; those of workers that are lost are exceptions."""
        came: list[tuple[Request, Answer]] = []
        for worker, request in asked:
            try:
                came.append((request, worker.answer(request)))
            except RemoteError as error:
                came.append((request, error))
        return came

    def wait(self, seconds: float, count: int = 1) -> None:
        """Waits until something comes, a limit is reached, or that time is over.

        Args:
            seconds: The time; inf: no limit.
            count: Answers that are of use only together.
        """
        raise NotImplementedError

    def watch(self) -> float:
        """Ends workers that take too long: nobody waits for them while others are quick.

        Returns:
            The time, by `time.monotonic`.
        """
        now = time.monotonic()
        if now >= self._watch_at:
            self._watch_at = now + WATCH_S
            for worker in self.workers:
                worker.watch()
        return now

    def close(self, seconds: float, *, quiet: bool = False) -> None:
        """Closes all environments and ends all workers, within a time; `quiet`: logs nothing."""
        raise NotImplementedError


class WorkerLostError(EnvError):
    """A worker was lost when it was asked for something other than a step or a reset."""

    @classmethod
    def of(cls, env_id: int, name: str, error: BaseException) -> WorkerLostError:
        """Returns the error for a question `name` that was not answered."""
        return cls(
            f"env {env_id} gave no answer to {name}: {described(error)}",
            hint=STEP_HINT,
            context={"env_id": env_id},
        )


def create_error(worker: BaseWorker, error: BaseException) -> DicoreError:
    """Returns the error for a worker that did not make its environments."""
    known = error.restored() if isinstance(error, RemoteError) else error
    if isinstance(known, DicoreError):
        return known
    first = worker.ids[0]
    return EnvCreateError(
        f"env {first} could not be made: {described(error)}",
        hint=getattr(error, "hint", "") or "make one env by hand to reproduce it",
        context={"env_id": first},
    )
