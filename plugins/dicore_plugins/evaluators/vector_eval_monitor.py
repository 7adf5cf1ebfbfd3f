"""Counts which episodes of which environment belong to an evaluation.

The first episodes of each environment count, so that quick environments (short episodes) are not
over-represented.
"""

from __future__ import annotations

from typing import Any

from dicore.errors import UsageError


class VectorEvalMonitor:
    """Shares n episodes among k environments: n // k each, one more for the first n % k.

    Args:
        env_num: k.
        n_episode: n.

    Raises:
        UsageError: there are fewer episodes than environments, or none of these.
    """

    def __init__(self, env_num: int, n_episode: int) -> None:
        if env_num < 1:
            raise UsageError("episodes cannot be counted without an environment")
        if n_episode < env_num:
            raise UsageError(
                f"{n_episode} episodes cannot be shared among {env_num} environments",
                hint="set env.evaluator_env_num to at most env.n_evaluator_episode",
            )
        share, rest = divmod(n_episode, env_num)
        self._quota = {env_id: share + (env_id < rest) for env_id in range(env_num)}
        self._returns: dict[int, list[float]] = {env_id: [] for env_id in range(env_num)}
        self._infos: dict[int, list[dict[str, Any]]] = {env_id: [] for env_id in range(env_num)}

    @property
    def quota(self) -> dict[int, int]:
        """Episodes wanted of each environment."""
        return dict(self._quota)

    def is_finished(self) -> bool:
        """Says whether every environment has given its episodes."""
        return all(self.is_env_finished(env_id) for env_id in self._quota)

    def is_env_finished(self, env_id: int) -> bool:
        """Says whether one environment has given its episodes."""
        return len(self._returns[env_id]) >= self._quota[env_id]

    def update_info(self, env_id: int, info: dict[str, Any]) -> None:
        """Takes the last info of an episode; beyond the quota it is ignored."""
        if len(self._infos[env_id]) < self._quota[env_id]:
            self._infos[env_id].append(info)

    def update_reward(self, env_id: int, reward: Any) -> None:
        """Takes the return of an episode; beyond the quota it is ignored."""
        if not self.is_env_finished(env_id):
            self._returns[env_id].append(float(reward))

    def get_episode_reward(self) -> list[float]:
        """Returns all returns so far, environment after environment."""
        return [value for returns in self._returns.values() for value in returns]

    def get_latest_reward(self, env_id: int) -> float:
        """Returns the return of an environment's latest episode that counts.

        Raises:
            UsageError: it has finished none.
        """
        if not self._returns[env_id]:
            raise UsageError(f"environment {env_id} has finished no episode yet")
        return self._returns[env_id][-1]

    def get_current_episode(self) -> list[int]:
        """Returns how many episodes each environment has given."""
        return [len(returns) for returns in self._returns.values()]

    def get_episode_info(self) -> list[dict[str, Any]]:
        """Returns the last infos of all episodes so far, environment after environment."""
        return [info for infos in self._infos.values() for info in infos]
