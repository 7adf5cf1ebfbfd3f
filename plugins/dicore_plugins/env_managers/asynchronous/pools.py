"""Pools whose environments answer at their own pace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.threads.pool import ThreadPool

__all__ = ["AsyncSteps", "AsyncThreadPool", "step_async"]


class AsyncSteps(Protocol):
    """What `AsyncEnvManager` needs of a pool, beside the methods of `EnvPool`.

    Attributes:
        cfg: The manager's options.
        settled: Resets that were done between the last two calls of `step`; set by the manager.
    """

    cfg: Any
    settled: int

    def send(self, ids: list[int], actions: Iterable[Any]) -> None:
        """Sends actions and returns at once."""

    def wait(self, at_least: int, more_s: float) -> Results:
        """Returns timesteps.

        Args:
            at_least: Waits for so many timesteps and resets; fewer if fewer timesteps are pending.
            more_s: Waits so many seconds for the other timesteps.
        """

    def begin_reset(self, env_id: int, seed: int, params: Mapping[str, Any]) -> None:
        """Begins to reset an environment, and makes it before if needed; returns at once."""

    def resets_done(self, until: float) -> dict[int, Any]:
        """Returns what resets returned or raised, by env id.

        Args:
            until: Waits for one until this time of `time.monotonic`.
        """


def step_async(pool: AsyncSteps, ids: list[int], actions: Iterable[Any]) -> Results:
    """Sends actions; waits for `wait_num` answers, and `step_wait_timeout` for more.

    Resets that were done since the actions were chosen (`pool.settled`) count: their environments
    were sent nothing, so that none of them can answer.
    """
    if ids:
        pool.send(ids, actions)
    return pool.wait(max(0, pool.cfg.wait_num - pool.settled), pool.cfg.step_wait_timeout)


class AsyncThreadPool(ThreadPool):
    """Environments in threads, each at its own pace."""

    settled = 0

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        """See `step_async`."""
        return step_async(self, ids, actions)
