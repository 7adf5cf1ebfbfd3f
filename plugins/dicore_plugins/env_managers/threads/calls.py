"""Calls of methods in threads, their deadlines, and their answers in order of arrival."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from dicore.data import tree_row
from dicore_plugins.env_managers.env_pool import EnvPool

__all__ = ["Calls", "Channel", "Part"]


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

    def wait(self, count: int, until: float) -> None:
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

    Attributes:
        env_id: The environment.
        ticket: Number of resets so far; answers to calls before the last one are dropped.
        step: Steps the environment; returns observation, reward, terminated, truncated, info.
        given_up: Nobody waits for the thread; it closes the environment when its call returns.
    """

    def __init__(self, pool: EnvPool) -> None:
        self.pool = pool
        (self.env_id,) = pool.ids
        self.ticket = 0
        self.given_up = False
        self._launched = False
        self.step: Callable[[Any], Any] = self._step_pool
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

    def reset(self, seed: int, params: Any, delay: float) -> Any:
        """Resets the environment after `delay` seconds, and makes it before if needed."""
        if delay:
            time.sleep(delay)
        if not self._launched:
            self.launch()
        (result,) = self.pool.reset([self.env_id], [seed], [params])
        self._find_step()
        return result

    def _find_step(self) -> None:
        env = self.pool.envs[self.env_id]
        self.step = self._step_pool if env is None else env.step

    def _step_pool(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Steps an environment that lives elsewhere; returns what its `step` returned."""
        _, obs, rewards, infos, ended, raised = self.pool.step([self.env_id], [action])
        if raised:
            raise raised[0]
        seen = obs[0] if obs.__class__ is list else tree_row(obs, 0)
        return seen, rewards[0], *ended.get(0, (False, False)), infos[0]

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


class Calls:
    """Calls of one kind that are under way, at most one of each environment.

    Args:
        limit: Seconds after which a call has failed; None: no limit.
        lose: Replaces the part of an environment whose call did not return in time; returns the
            error.

    Attributes:
        waiting: Deadlines of the calls that were not taken yet, by env id.
        answers: Answers that were not taken yet, by env id.
    """

    def __init__(self, limit: float | None, lose: Callable[[int, float], Exception]) -> None:
        self._limit = inf if limit is None else limit
        self._lose = lose
        self._channel = Channel()
        self._parts: dict[int, tuple[Part, int]] = {}
        self.waiting: dict[int, float] = {}
        self.answers: dict[int, Any] = {}

    def send(self, part: Part, call: Callable[..., Any], *args: Any, begun: float) -> None:
        """Sends a call; the answer to an earlier one of this environment is dropped.

        Args:
            part: The environment.
            call: What its thread calls.
            args: The arguments.
            begun: Time of `time.monotonic` from which on the limit counts.
        """
        env_id = part.env_id
        if env_id in self.answers:
            del self.answers[env_id]
        self.waiting[env_id] = begun + self._limit
        self._parts[env_id] = part, part.ticket
        part.send(self._channel, call, args)

    def drop(self, env_id: int) -> None:
        """Forgets the call of an environment."""
        self.waiting.pop(env_id, None)
        self.answers.pop(env_id, None)

    def gather(
        self, count: float = inf, until: float = inf, ids: Collection[int] | None = None
    ) -> None:
        """Waits for answers.

        Args:
            count: Their number; fewer if fewer are under way.
            until: Time of `time.monotonic` at which it returns in any case.
            ids: Wait for the answers of these environments instead of for a number.
        """
        answers, waiting, missing = self.answers, self.waiting, 0
        while True:
            for part, ticket, answer in self._channel.take():
                env_id = part.env_id
                if env_id in waiting and self._parts[env_id] == (part, ticket):
                    answers[env_id] = answer
            if ids is None:
                missing = min(count, len(waiting)) - len(answers)
            else:
                missing = len([i for i in ids if i not in answers])
            if missing <= 0:
                return
            now = time.monotonic()
            deadlines = {i: each for i, each in waiting.items() if i not in answers}
            if now >= until:
                return
            if now >= (first := min(deadlines.values())):
                self._expire(deadlines, now)
            else:
                self._channel.wait(missing, min(until, first))

    def _expire(self, deadlines: Mapping[int, float], now: float) -> None:
        for env_id, deadline in deadlines.items():
            if now >= deadline:
                self.answers[env_id] = self._lose(env_id, self._limit)

    def pop(self, env_id: int) -> Any:
        """Takes an answer."""
        del self.waiting[env_id]
        return self.answers.pop(env_id)
