"""Workers that are threads of this process, with one environment each."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from dicore.values import Tree
from dicore_plugins.env_managers.env_pool import close_one
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.workers import (
    WATCH_S,
    Answer,
    BaseCrew,
    BaseWorker,
    Limits,
    PartPool,
    Request,
)

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["ThreadCrew", "ThreadWorker"]

_LOG = logging.getLogger("dicore.env")
Job = tuple[int, Callable[..., Any], tuple[object, ...]]
"""Number of a request, what is called, and its arguments."""


class Inbox:
    """Answers of many threads for one reader, who sleeps until enough have arrived."""

    def __init__(self) -> None:
        self._answers: deque[tuple[Life, int, Answer]] = deque()
        self._enough = inf
        self._wake = Lock()
        self._wake.acquire()

    def put(self, life: Life, number: int, answer: Answer) -> None:
        """Adds an answer; wakes the reader if it is the last one that he waits for."""
        self._answers.append((life, number, answer))
        if len(self._answers) >= self._enough:
            try:
                self._wake.release()
            except RuntimeError:  # another thread woke him
                return

    def wait(self, count: float, seconds: float) -> bool:
        """Sleeps until `count` answers are there, or for a time; returns whether they are."""
        until = time.monotonic() + seconds
        self._enough = count  # before the answers are counted: `put` does it the other way round
        while len(self._answers) < count:
            left = until - time.monotonic()
            if left <= 0 or not self._wake.acquire(timeout=left):
                break
        self._enough = inf
        return len(self._answers) >= count

    def sort(self) -> None:
        """Gives the answers that have arrived to the workers that wait for them."""
        answers = self._answers
        while answers:
            life, number, answer = answers.popleft()
            worker = life.worker
            if worker.life is life:
                worker.early.append((worker.requests.pop(number), answer))


class ThreadEnv(PartPool):
    """The environment of one thread, which creates, calls and closes it.

    Attributes:
        steps: Its step, which returns observation, reward, terminated, truncated, info.
    """

    steps: list[Callable[[Tree], Tree]]

    def launch(self) -> list[float]:
        """Makes it; returns its time limit."""
        limits = super().launch()
        self.steps = self._steps
        return limits

    def reset_some(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, object]]
    ) -> list[Tree]:
        """Resets it, under the name that all workers have for it."""
        return self.reset(ids, seeds, params)

    def _close(self, ids: Sequence[int]) -> None:
        for env_id in ids:
            made, self.envs[env_id] = self.envs[env_id], None
            close = None if made is None else getattr(made.env, "close", None)
            if close is not None:
                close_one(env_id, close)


class Life:
    """A thread and its environment, until the thread ends or nobody waits for it any longer.

    Args:
        pool: The environment; only the thread calls its methods.
        worker: To which it belongs until it is given up.
        inbox: For the answers.

    Attributes:
        jobs: Calls to be made; None: the environment is closed, and the thread ends.
        given_up: Nobody waits for the thread; it closes the environment when its call returns.
    """

    def __init__(self, pool: ThreadEnv, worker: ThreadWorker, inbox: Inbox) -> None:
        self.pool, self.worker = pool, worker
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.given_up = False
        self._inbox = inbox
        name = f"dicore-env-{pool.ids[0]}"
        self.thread = Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            number, call, args = job
            try:
                answer = call(*args)
            except BaseException as error:
                answer = error
            if self.given_up:
                break
            self._inbox.put(self, number, answer)
            del job, args, answer  # while it waits, it keeps nothing alive
        self.pool.close()


class ThreadWorker(BaseWorker):
    """A thread with one environment.

    It cannot be interrupted: if its call does not return in time, it is given up, and the
    environment is made again in another one.

    Args:
        make: Makes the pool of the environment.
        env_id: The environment.
        limits: Time limits.
        inbox: Of all threads.
    """

    def __init__(
        self, make: Callable[[], ThreadEnv], env_id: int, limits: Limits, inbox: Inbox
    ) -> None:
        super().__init__([env_id], limits)
        self._make, self._inbox = make, inbox
        self.life: Life | None = None

    @property
    def alive(self) -> bool:  # type: ignore[override] # it cannot be set
        """Whether it has a thread."""
        return self.life is not None

    def start(self) -> None:
        """Starts the thread; the environment is not made yet."""
        self.life = Life(self._make(), self, self._inbox)

    def post(self, name: str, *args: object, ids: Sequence[int] = (), body: bytes = b"") -> Request:
        """Calls a method in the thread; see `BaseWorker`."""
        life, request = self.life, self._asked(name, ids)
        if life is None:
            raise RemoteError("WorkerLost", "its thread was given up")
        call = life.pool.steps[0] if name == "step" else getattr(life.pool, name)
        life.jobs.put((request.number, call, args))
        return request

    def answer(self, request: Request) -> Answer:
        """Waits for the answer to a request.

        Raises:
            RemoteError: it took too long; the thread is given up.
        """
        early = self.early
        while not early or early[-1][0] is not request:
            if request.number not in self.requests:  # another one came after it
                early.append(
                    early.pop(next(at for at, each in enumerate(early) if each[0] is request))
                )
                break
            if not self._inbox.wait(1, WATCH_S):
                self.check()
            self.collect()
        return early.pop()[1]

    def collect(self) -> None:
        """Moves the answers of all threads that have come to `early`."""
        self._inbox.sort()

    def _readable(self) -> bool:
        self.collect()
        return not self.requests

    def _busy_with(self) -> tuple[float, int, bool]:
        request = next(iter(self.requests.values()))
        return 0.0, self.ids[0], request.name == "reset_some"

    def end(self, grace_s: float = 0.0, why: RemoteError | None = None) -> None:
        """Leaves the thread alone."""
        life, self.life = self.life, None
        if life is None:
            return
        if why is not None:
            _LOG.warning(
                "env %d: %s; its thread is left alone, and the environment will be made again in"
                " another one", self.ids[0], why.message,
            )  # fmt: skip
        begun = life.pool.layer_states(self.ids[0], begun=True) if self.launched else ()
        if begun:
            self.states[self.ids[0]] = begun
        life.given_up = True
        life.jobs.put(None)
        self._forget(why)


class ThreadCrew(BaseCrew):
    """Threads, one for each environment.

    Args:
        env_fn: A factory per env id.
        cfg: The manager's options.
    """

    def __init__(self, env_fn: Mapping[int, Callable[[], Env]], cfg: Any) -> None:
        self._inbox = Inbox()
        reset, step = (
            inf if each is None else each for each in (cfg.reset_timeout, cfg.step_timeout)
        )
        limits = Limits(reset, reset, step, "reset_timeout")

        def maker(env_id: int) -> Callable[[], ThreadEnv]:
            return lambda: ThreadEnv([env_fn[env_id]], cfg, [env_id])

        self.of: Mapping[int, ThreadWorker] = {
            env_id: ThreadWorker(maker(env_id), env_id, limits, self._inbox) for env_id in env_fn
        }
        self.workers: Sequence[ThreadWorker] = list(self.of.values())

    def arrived(self) -> Iterable[BaseWorker]:
        """Returns the workers whose answers have come."""
        self._inbox.sort()
        return [worker for worker in self.workers if worker.early]

    def answers(self, asked: Sequence[tuple[BaseWorker, Request]]) -> list[tuple[Request, Answer]]:
        """Waits for the answers to requests, if it can until all have come."""
        self._inbox.wait(len(asked), WATCH_S)
        self._inbox.sort()
        return super().answers(asked)

    def wait(self, seconds: float, count: int = 1) -> None:
        """Waits until so many answers came, a limit is reached, or that time is over."""
        if not self._inbox.wait(count, min(seconds, WATCH_S)):
            for worker in self.workers:
                worker.watch()

    def close(self, seconds: float, *, quiet: bool = False) -> None:
        """Closes all environments; those that hang are left alone, and logged unless `quiet`."""
        until = time.monotonic() + seconds
        lives = [(worker, worker.life) for worker in self.workers if worker.life is not None]
        for _, life in lives:
            if sys.is_finalizing():  # threads no longer run
                life.pool.close()
            else:
                life.jobs.put(None)
        for worker, life in lives:
            if sys.is_finalizing():
                continue
            life.thread.join(max(0.0, until - time.monotonic()))
            if life.thread.is_alive():
                life.given_up = True
                if not quiet:
                    _LOG.warning("env %d: it did not close within %g s", worker.ids[0], seconds)
