"""Commanders: they assign tasks to collectors and learners, and decide when training ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.errors import UsageError

if TYPE_CHECKING:
    from dicore.data import State, StateDict

__all__ = ["NaiveCommander", "OneVsOneCommander", "SoloCommander"]


class NaiveCommander:
    """Assigns collect tasks and one learner task; training ends with the learner task.

    Args:
        collector_task_space: Collector tasks that run at the same time.
        learner_task_space: Learner tasks that run at the same time.
    """

    def __init__(self, collector_task_space: int = 64, learner_task_space: int = 1) -> None:
        for name, space in (("collector", collector_task_space), ("learner", learner_task_space)):
            if space < 1:
                raise UsageError(f"{name}_task_space must be >= 1, got {space}")
        self._spaces = {"collector": collector_task_space, "learner": learner_task_space}
        self._running: dict[str, dict[str, Mapping[str, Any]]] = {"collector": {}, "learner": {}}
        self._numbers = {"collector": 0, "learner": 0}
        self.finished = False
        self.learner_info: dict[str, object] = {}

    def get_collector_task(self) -> Mapping[str, object] | None:
        """Returns the next task for a collector; None if the task space is full."""
        return self._next("collector", eval_flag=False)

    def get_learner_task(self) -> Mapping[str, object] | None:
        """Returns the next task for a learner; None if the task space is full."""
        return self._next("learner")

    def finish_collector_task(self, task_id: str, finished_task: Mapping[str, object]) -> bool:
        """Frees the task space; returns whether training is over."""
        self._running["collector"].pop(task_id, None)
        return self.finished

    def finish_learner_task(self, task_id: str, finished_task: Mapping[str, Any]) -> bool:
        """Ends the training."""
        self._running["learner"].pop(task_id, None)
        self.finished = True
        return True

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        """Frees the task space; a failed task is not given again, a new one replaces it."""
        self._running["collector"].pop(str(task.get("task_id")), None)

    def notify_fail_learner_task(self, task: Mapping[str, Any]) -> None:
        """Frees the task space; the next task goes on from the saved state of the learner."""
        self._running["learner"].pop(str(task.get("task_id")), None)

    def update_learner_info(self, task_id: str, info: Mapping[str, Any]) -> None:
        """Stores the progress of a learner."""
        self.learner_info[task_id] = dict(info)

    def state_dict(self) -> StateDict:
        """Returns the numbers of the tasks assigned so far."""
        return dict(self._numbers)

    def load_state_dict(self, state: State) -> None:
        """Continues to number tasks after those of an earlier coordinator."""
        self._numbers = {name: int(state.get(name, 0)) for name in self._numbers}

    def _next(self, kind: str, **details: Any) -> Mapping[str, Any] | None:
        if self.finished or len(self._running[kind]) >= self._spaces[kind]:
            return None
        self._numbers[kind] += 1
        task = {"task_id": f"{kind}_task_{self._numbers[kind]}", **details}
        self._running[kind][task["task_id"]] = task
        return task


class SoloCommander(NaiveCommander):
    """Trains one policy: collectors also evaluate it, until it reaches the stop value.

    Args:
        collector_task_space: Collector tasks that run at the same time.
        learner_task_space: Learner tasks that run at the same time.
        eval_interval: Seconds between the starts of two evaluations; after the learner has ended,
            one more follows.
    """

    def __init__(
        self,
        collector_task_space: int = 64,
        learner_task_space: int = 1,
        eval_interval: float = 60.0,
    ) -> None:
        super().__init__(collector_task_space, learner_task_space)
        if eval_interval < 0:
            raise UsageError(f"eval_interval must be >= 0 s, got {eval_interval:g}")
        self._interval = eval_interval
        self._evaluated_at = time.monotonic()
        self._evaluating = self._last = ""
        self._learner_done = False

    def get_collector_task(self) -> Mapping[str, Any] | None:
        """Returns an evaluation if one is due, else a collect task."""
        now = time.monotonic()
        due = self._learner_done or now - self._evaluated_at >= self._interval
        if due and not self._evaluating and (self.learner_info or self._learner_done):
            task = self._next("collector", eval_flag=True)
            if task is not None:
                self._evaluating, self._evaluated_at = task["task_id"], now
                self._last = task["task_id"] if self._learner_done else ""
            return task
        return None if self._learner_done else self._next("collector", eval_flag=False)

    def finish_collector_task(self, task_id: str, finished_task: Mapping[str, object]) -> bool:
        """Ends the training after an evaluation that reaches the stop value, or the last one."""
        if task_id == self._evaluating:
            self._evaluating = ""
            stop = bool(finished_task.get("stop")) or task_id == self._last
            self.finished = self.finished or stop
        return super().finish_collector_task(task_id, finished_task)

    def finish_learner_task(self, task_id: str, finished_task: Mapping[str, Any]) -> bool:
        """Asks for the last evaluation."""
        self._running["learner"].pop(task_id, None)
        self._learner_done = True
        return False

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        """Frees the task space; a failed evaluation is due again."""
        if task.get("task_id") == self._evaluating:
            self._evaluating, self._evaluated_at = "", time.monotonic() - self._interval
        super().notify_fail_collector_task(task)

    def get_learner_task(self) -> Mapping[str, object] | None:
        """Returns the next task for a learner; none after the first one has ended."""
        return None if self._learner_done else super().get_learner_task()


class OneVsOneCommander(SoloCommander):
    """Trains one policy by self-play, and evaluates it against a fixed opponent.

    The environment has two agents and the wrapper `versus`. Each evaluation also freezes the policy
    that it evaluates. Collectors play against a frozen policy, or against the newest one as it is
    when their task begins; evaluations against the opponent of the wrapper.

    Args:
        collector_task_space: Collector tasks that run at the same time.
        learner_task_space: Learner tasks that run at the same time.
        eval_interval: Seconds between the starts of two evaluations; after the learner has ended,
            one more follows.
        pool: Frozen policies that are kept, the newest ones.
        newest: Share of the tasks that are played against the newest policy.
    """

    opponent = True

    def __init__(
        self,
        collector_task_space: int = 64,
        learner_task_space: int = 1,
        eval_interval: float = 60.0,
        pool: int = 5,
        newest: float = 0.5,
    ) -> None:
        super().__init__(collector_task_space, learner_task_space, eval_interval)
        if pool < 1:
            raise UsageError(f"pool must be >= 1, got {pool}")
        if not 0 <= newest <= 1:
            raise UsageError(f"newest must be between 0 and 1, got {newest}")
        self._pool, self._newest = pool, newest
        self._frozen: list[str] = []
        self._evaluations = 0

    def finish_collector_task(self, task_id: str, finished_task: Mapping[str, object]) -> bool:
        """Adds the policy of an evaluation to the opponents; see `SoloCommander`."""
        frozen = self._running["collector"].get(task_id, {}).get("freeze")
        if frozen and finished_task.get("eval_flag") and frozen not in self._frozen:
            self._frozen.append(frozen)
        return super().finish_collector_task(task_id, finished_task)

    def _next(self, kind: str, **details: object) -> Mapping[str, object] | None:
        if kind != "collector":
            return super()._next(kind, **details)
        if details["eval_flag"]:
            self._evaluations += 1
            details["freeze"] = f"opponent{self._evaluations % self._pool}"
        else:
            details["opponent"] = self._opponent()
        return super()._next(kind, **details)

    def _opponent(self) -> str:
        """Returns the name of a frozen policy; "": the newest one."""
        draw = np.random.default_rng(self._numbers["collector"])
        if not self._frozen or draw.random() < self._newest:
            return ""
        return self._frozen[int(draw.integers(len(self._frozen)))]
