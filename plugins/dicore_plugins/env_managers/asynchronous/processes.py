"""Environments in worker processes that answer and are reset at their own pace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dicore_plugins.env_managers.asynchronous.pools import step_async
from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.channel import loads
from dicore_plugins.env_managers.subprocess.pool import WATCH_S, ProcessPool
from dicore_plugins.env_managers.subprocess.process import Request, Worker

if TYPE_CHECKING:
    from dicore.data import Tree


__all__ = ["AsyncProcessPool"]

_Arrived = tuple[list[int], list[int], bytes | RemoteError]


class AsyncProcessPool(ProcessPool):
    """Environments in worker processes, each at its own pace; see `AsyncSteps`.

    The environments of a worker that are sent an action together answer together, and wait while
    one of them is reset.

    Args:
        env_fn: One factory per environment.
        cfg: The manager's options.
    """

    settled = 0

    def __init__(self, env_fn: Sequence[Any], cfg: Any) -> None:
        super().__init__(env_fn, cfg)
        self._found: list[_Arrived] = []
        self._resetting: dict[int, tuple[Worker, int]] = {}
        self._queued: dict[Worker, list[tuple[int, int, Mapping[str, Any]]]] = {}
        self._done: dict[int, Any] = {}
        self._check_at = 0.0

    # ---- steps

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        """See `step_async`."""
        return step_async(self, ids, actions)

    def wait(self, at_least: int = 1, more_s: float | None = None) -> Results:
        """Returns timesteps; see `AsyncSteps.wait`."""
        until = time.monotonic() + (more_s or 0.0)
        self._check_limits()
        while True:
            self._found += self._arrived()
            count = sum(len(kept) for _, kept, _ in self._found)
            left = until - time.monotonic()
            enough = count + len(self._done) >= min(at_least, count + len(self._sent))
            if enough and (left <= 0 or not self._sent):
                found, self._found = self._found, []
                return self._joined(found, count)
            self._watch(left if enough else float("inf"))

    # ---- resets

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """Resets environments and waits for them; what is under way in them is dropped."""
        for env_id in ids:
            self._drop(env_id)
        return super().reset(ids, seeds, params)

    def _drop(self, env_id: int) -> None:
        self._resetting.pop(env_id, None)
        self._done.pop(env_id, None)
        for _, kept, _ in self._found:
            if env_id in kept:
                kept.remove(env_id)
        for queued in self._queued.values():
            queued[:] = [each for each in queued if each[0] != env_id]

    def begin_reset(self, env_id: int, seed: int, params: Mapping[str, Any]) -> None:
        """Begins to reset an environment; starts its worker before if it was lost."""
        self._drop(env_id)
        worker = self._crew.of[env_id]
        if worker.launched:
            self._post_reset(worker, env_id, seed, params)
            return
        if not worker.alive:
            try:
                worker.start()
            except RemoteError as error:
                self._done[env_id] = error
                return
            worker.post("launch", ids=worker.ids)
        self._queued.setdefault(worker, []).append((env_id, seed, params))
        self._resetting[env_id] = worker, -1

    def _post_reset(
        self, worker: Worker, env_id: int, seed: int, params: Mapping[str, Any]
    ) -> None:
        request = worker.post("reset_some", [env_id], [seed], [params], ids=[env_id])
        self._resetting[env_id] = worker, request.number

    def resets_done(self, until: float) -> dict[int, Any]:
        """Returns what resets returned or raised; see `AsyncSteps.resets_done`."""
        self._check_limits()
        while True:
            self._found += self._arrived()
            left = until - time.monotonic()
            if self._done or not self._resetting or left <= 0:
                break
            self._watch(left)
        done, self._done = self._done, {}
        return done

    def _check_limits(self) -> None:
        """Ends workers that take too long: nobody waits for them while others are quick."""
        now = time.monotonic()
        if now >= self._check_at:
            self._check_at = now + WATCH_S
            for worker in self._awaited():
                worker.watch()

    def _came(self, worker: Worker, request: Request, answer: bytes | RemoteError) -> None:
        value = answer if isinstance(answer, RemoteError) else loads(answer)[1]
        if request.name == "launch":
            self._launched(worker, value)
            return
        (env_id,) = request.ids
        if self._resetting.get(env_id) != (worker, request.number):
            return
        del self._resetting[env_id]
        if isinstance(value, list):
            (value,) = value
        if not isinstance(value, RemoteError):
            self._lost.discard(env_id)
        self._done[env_id] = self._reset_result(env_id, value)

    def _launched(self, worker: Worker, value: Tree) -> None:
        """Posts the resets that waited for a worker to start; they fail if it did not."""
        queued = self._queued.pop(worker, [])
        try:
            if isinstance(value, RemoteError):
                raise value
            worker.time_limits, worker.launched = value, True
            self._crew.join(worker)
        except RemoteError as error:
            worker.end()
            self._forget(worker)
            for env_id, _, _ in queued:
                self._resetting.pop(env_id, None)
                self._done[env_id] = error
            return
        for row in queued:
            self._post_reset(worker, *row)

    def _awaited(self) -> set[Worker]:
        return super()._awaited() | {worker for worker, _ in self._resetting.values()}

    def close(self) -> None:
        """Closes all environments within 5 s; workers that hang are killed."""
        super().close()
        for each in (self._found, self._resetting, self._queued, self._done):
            each.clear()
