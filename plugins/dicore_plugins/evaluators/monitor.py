"""Which episodes of an evaluation count."""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.errors import UsageError

__all__ = ["VectorEvalMonitor"]


class VectorEvalMonitor:
    """Counts the episodes of an evaluation: of n episodes, n // k per environment.

    The first n % k environments have one more. The first episodes of each environment count, so
    that environments with short episodes are not over-represented.

    Args:
        env_num: k.
        n_episode: n.

    Raises:
        UsageError: there are fewer episodes than environments, or no environments.
    """

    def __init__(self, env_num: int, n_episode: int) -> None:
        if env_num < 1:
            raise UsageError("env_num must be >= 1")
        if n_episode < env_num:
            raise UsageError(
                f"{n_episode} episodes cannot be shared among {env_num} environments",
                hint="set env.evaluator_env_num to at most env.n_evaluator_episode",
            )
        share, rest = divmod(n_episode, env_num)
        self._quota = {env_id: share + (env_id < rest) for env_id in range(env_num)}
        self._returns: dict[int, list[Any]] = {env_id: [] for env_id in range(env_num)}
        self._infos: dict[int, list[dict[str, Any]]] = {env_id: [] for env_id in range(env_num)}

    @property
    def quota(self) -> dict[int, int]:
        """Number of episodes required of each environment."""
        return dict(self._quota)

    def is_finished(self) -> bool:
        """Returns whether the episodes of every environment are complete."""
        return all(self.is_env_finished(env_id) for env_id in self._quota)

    def is_env_finished(self, env_id: int) -> bool:
        """Returns whether the episodes of one environment are complete."""
        return len(self._returns[env_id]) >= self._quota[env_id]

    def update_info(self, env_id: int, info: dict[str, Any]) -> None:
        """Records the last info of an episode; beyond the quota it is ignored."""
        if len(self._infos[env_id]) < self._quota[env_id]:
            self._infos[env_id].append(info)

    def update_reward(self, env_id: int, reward: Any) -> None:
        """Records the return of an episode, a number or an array; beyond the quota: ignored."""
        if not self.is_env_finished(env_id):
            value = np.asarray(reward, np.float64)
            self._returns[env_id].append(value.item() if value.size == 1 else value.copy())

    def get_episode_reward(self) -> list[Any]:
        """Returns all returns so far, ordered by environment."""
        return [value for returns in self._returns.values() for value in returns]

    def get_latest_reward(self, env_id: int) -> Any:
        """Returns the latest recorded return of an environment.

        Raises:
            UsageError: it has finished no episode.
        """
        if not self._returns[env_id]:
            raise UsageError(f"environment {env_id} has finished no episode yet")
        return self._returns[env_id][-1]

    def get_current_episode(self) -> list[int]:
        """Returns the number of recorded episodes per environment."""
        return [len(returns) for returns in self._returns.values()]

    def get_episode_info(self) -> list[dict[str, Any]]:
        """Returns the last infos of all episodes so far, ordered by environment."""
        return [info for infos in self._infos.values() for info in infos]
