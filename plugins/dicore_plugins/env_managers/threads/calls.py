"""Calls of methods in threads, their deadlines, and their answers in order of arrival."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from dicore.errors import EnvStateError
from dicore_plugins.env_managers.env_pool import EnvPool

if TYPE_CHECKING:
    from dicore.data import Tree


__all__ = ["Calls", "Channel", "Part"]

_LOG = logging.getLogger("dicore.env")
_WARN_AT = 0.25
"""Part of a limit after which a slow call is logged."""


class Channel:
    """Answers of many threads for one reader, who sleeps until enough have arrived."""

    def __init__(self) -> None:
        self._answers: deque[tuple[Part, int, Any]] = deque()
        self._enough = inf
        self._wake = Lock()
        self._wake.acquire()

    def put(self, part: Part, ticket: int, answer: Any) -> None:
        """Adds an answer; wakes the reader if it is the last one that he waits for."""
        self._answers.append((part, ticket, answer))
        if len(self._answers) >= self._enough:
            try:
                self._wake.release()
            except RuntimeError:  # another thread woke him
                return

    def wait(self, count: float, until: float) -> None:
        """Sleeps until `count` answers are there, or until a time of `time.monotonic`."""
        self._enough = count  # before the answers are counted: `put` does it the other way round
        while len(self._answers) < count:
            left = until - time.monotonic()
            if left <= 0 or not self._wake.acquire(timeout=-1 if left == inf else left):
                break
        self._enough = inf

    def take(self) -> list[tuple[Part, int, Any]]:
        """Returns what has arrived: part, ticket, answer."""
        answers = self._answers
        return [answers.popleft() for _ in range(len(answers))]


class Part:
    """A thread that calls the methods of a pool of one environment, one after the other.

    Args:
        pool: The environment; only this thread calls its methods.
        states: Of the stateful layers of an environment that this one replaces.

    Attributes:
        env_id: The environment.
        ticket: Number of calls so far; answers to calls before the last one are dropped.
        step: Steps the environment; returns observation, reward, terminated, truncated, info.
        given_up: Nobody waits for the thread; it closes the environment when its call returns.
    """

    def __init__(self, pool: EnvPool, states: Sequence[Any] = ()) -> None:
        self.pool = pool
        self.states = states
        (self.env_id,) = pool.ids
        self.ticket = 0
        self.given_up = False
        self._launched = False
        self.step: Callable[[Any], Any] = _no_step
        self._inbox: SimpleQueue[tuple[Channel, int, Callable[..., Any], tuple[Any, ...]] | None]
        self._inbox = SimpleQueue()
        self._thread: Thread | None = None

    @property
    def started(self) -> bool:
        """Whether it has a thread."""
        return self._thread is not None

    def send(self, out: Channel, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Calls a function in the thread, which is started when first needed."""
        if self._thread is None:
            name = f"dicore-env-{self.env_id}"
            self._thread = Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        self._inbox.put((out, self.ticket, call, args))

    def _work(self) -> None:
        while (job := self._inbox.get()) is not None:
            out, ticket, call, args = job
            try:
                answer = call(*args)
            except BaseException as error:
                answer = error
            if self.given_up:
                break
            out.put(self, ticket, answer)
            del job, out, args, answer  # while it waits, it keeps nothing alive
        self.pool.close()

    def launch(self) -> list[float]:
        """Makes the environment; returns its time limit."""
        limits = self.pool.launch()
        self._launched = True
        self._find_step()
        return limits

    def reset(self, seed: int, params: Any) -> Any:
        """Resets the environment, and makes it before if needed."""
        if not self._launched:
            self.launch()
            if self.states:
                self.pool.load_layer_states(self.env_id, self.states)
        (result,) = self.pool.reset([self.env_id], [seed], [params])
        self._find_step()
        return result

    def begun_states(self) -> Sequence[Any]:
        """Returns the states of the environment's stateful layers before its episode."""
        begun = self.pool.layer_states(self.env_id, begun=True) if self._launched else ()
        return begun or self.states

    def _find_step(self) -> None:
        env = self.pool.envs[self.env_id]
        if env is not None:
            self.step = env.step

    def stop(self) -> None:
        """Closes the environment after the calls that are under way."""
        if self._thread is None:
            self.pool.close()
        else:
            self._inbox.put(None)

    def join(self, until: float) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
        if self._thread is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        return self._thread is None or not self._thread.is_alive()

    def give_up(self) -> None:
        """Waits for the thread no longer."""
        self.given_up = True
        self._inbox.put(None)


def _no_step(action: Tree) -> Any:
    raise EnvStateError("the environment was not made")


class Calls:
    """Calls that are under way, at most one of each environment.

    Args:
        lose: Replaces the part of an environment whose call did not return within so many seconds;
            returns the error.

    Attributes:
        waiting: Deadlines of the calls whose answer was not taken yet, by env id.
        answers: Answers that were not taken yet, by env id.
    """

    def __init__(self, lose: Callable[[int, float], Exception]) -> None:
        self._lose = lose
        self._channel = Channel()
        self._sent: dict[int, tuple[Part, int, float]] = {}
        self._warned: dict[int, tuple[Part, int, float]] = {}
        self.waiting: dict[int, float] = {}
        self.answers: dict[int, Any] = {}

    def send(
        self, part: Part, call: Callable[..., Any], *args: object, begun: float, limit: float | None
    ) -> None:
        """Sends a call; the answer to an earlier one of this environment is dropped.

        Args:
            part: The environment.
            call: What its thread calls.
            args: The arguments.
            begun: Time of `time.monotonic` from which on the limit counts.
            limit: Seconds after which the call has failed; None: no limit.
        """
        env_id, seconds = part.env_id, inf if limit is None else limit
        if env_id in self.answers:
            del self.answers[env_id]
        part.ticket += 1
        self.waiting[env_id] = begun + seconds
        self._sent[env_id] = part, part.ticket, seconds
        part.send(self._channel, call, args)

    def gather(
        self, count: float = inf, until: float = inf, ids: Collection[int] | None = None
    ) -> None:
        """Waits for answers.

        Args:
            count: Their number; fewer if fewer are under way.
            until: Time of `time.monotonic` at which it returns in any case.
            ids: Wait for answers of these environments, which have calls under way; None: of all.
        """
        answers, waiting = self.answers, self.waiting
        while True:
            for part, ticket, answer in self._channel.take():
                latest, number, _ = self._sent[part.env_id]
                if latest is part and number == ticket and part.env_id in waiting:
                    answers[part.env_id] = answer
            if ids is None:
                missing = min(count, len(waiting)) - len(answers)
            else:
                missing = min(count, len(ids)) - len([i for i in ids if i in answers])
            if missing <= 0:
                return
            now = time.monotonic()
            if now >= until:
                return
            deadlines = {i: each for i, each in waiting.items() if i not in answers}
            if now >= (first := min(deadlines.values())):
                for env_id, deadline in deadlines.items():
                    if now >= deadline:
                        answers[env_id] = self._lose(env_id, self._sent[env_id][2])
            else:
                self._channel.wait(missing, min(until, first, self._warn(deadlines, now)))

    def _warn(self, deadlines: Mapping[int, float], now: float) -> float:
        """Logs calls that take long, each once; returns when the next one will."""
        following = inf
        for env_id, deadline in deadlines.items():
            sent = self._sent[env_id]
            limit = sent[2]
            if limit == inf or self._warned.get(env_id) is sent:
                continue
            at = deadline - (1 - _WARN_AT) * limit
            if now < at:
                following = min(following, at)
                continue
            self._warned[env_id] = sent
            took = now - deadline + limit
            _LOG.warning("env %d: no answer for %.1f s; the limit is %g s", env_id, took, limit)
        return following

    def pop(self, env_id: int) -> Any:
        """Takes an answer."""
        del self.waiting[env_id]
        return self.answers.pop(env_id)
