"""Pools whose environments answer at their own pace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.threads.pool import ThreadPool

__all__ = ["AsyncSteps", "AsyncThreadPool", "step_async"]


class AsyncSteps(Protocol):
    """What `AsyncEnvManager` needs of a pool, beside the methods of `EnvPool`."""

    cfg: Any

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
    """Sends actions; waits for `wait_num` timesteps, and `step_wait_timeout` for more."""
    if ids:
        pool.send(ids, actions)
    return pool.wait(pool.cfg.wait_num, pool.cfg.step_wait_timeout)


class AsyncThreadPool(ThreadPool):
    """Environments in threads, each at its own pace."""

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        """See `step_async`."""
        return step_async(self, ids, actions)
