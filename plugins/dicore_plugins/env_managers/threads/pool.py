"""Environments in threads of this process, one each; answers that come too late are dropped.

Shapes: K environments.
"""

from __future__ import annotations

from collections.abc import Iterable

from dicore.data import Info, Tree
from dicore_plugins.env_managers.env_pool import Results, check_different
from dicore_plugins.env_managers.slots import Came, SlotPool
from dicore_plugins.env_managers.threads.worker import ThreadCrew
from dicore_plugins.env_managers.workers import BaseWorker, Request

__all__ = ["ThreadPool"]


class ThreadPool(SlotPool):
    """Environments that are stepped and reset in threads of this process; see `SlotPool`."""

    _crew: ThreadCrew

    def _new_crew(self) -> ThreadCrew:
        return ThreadCrew(self.env_fn, self.cfg)

    def launch(self) -> list[float]:
        """Makes all environments at the same time; returns their time limits.

        Raises:
            EnvCreateError: an environment could not be made, or two are the same object.
        """
        limits = super().launch()
        lives = ((worker.ids[0], worker.life) for worker in self._crew.workers)
        envs = ((env_id, life.pool.envs[env_id]) for env_id, life in lives if life is not None)
        check_different({env_id: env for env_id, env in envs if env is not None})
        return limits

    def _post(
        self, ids: list[int], actions: Iterable[Tree], *, whole: bool
    ) -> list[tuple[BaseWorker, Request]]:
        """Sends each action to the thread of its environment."""
        asked: list[tuple[BaseWorker, Request]] = []
        worker_of = self._crew.of
        for env_id, action in zip(ids, actions, strict=True):
            worker = worker_of[env_id]
            if worker.whole:
                asked.append((worker, worker.post("step", action, ids=worker.ids)))
        return asked

    def _joined(self, ids: list[int], came: Iterable[Came], *, whole: bool) -> Results:
        """Returns what the steps returned or raised, as columns; answers are of one env each."""
        obs: list[Tree] = []
        rewards: list[Tree] = []
        infos: list[Info] = []
        ended: dict[int, tuple[Tree, Tree]] = {}
        raised: dict[int, BaseException] = {}
        for row, (_, answer) in enumerate(came):
            try:
                if isinstance(answer, BaseException):
                    raised[row] = answer
                    answer = None, 0.0, False, False, {}  # noqa: PLW2901 - as of a failed row
                seen, reward, terminated, truncated, info = answer
                if terminated or truncated:
                    ended[row] = terminated, truncated
            except (TypeError, ValueError, RuntimeError) as error:  # not five values, or no bools
                raised[row] = error
                seen, reward, info = None, 0.0, {}
            obs.append(seen)
            rewards.append(reward)
            infos.append(info)
        return ids, obs, rewards, infos, ended, raised

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it, after the calls under way, without waiting."""
        worker, self._slots[env_id].made = self._crew.of[env_id], False
        if worker.alive:
            worker.post("discard", env_id)
