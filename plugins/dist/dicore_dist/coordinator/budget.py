"""The budget of env steps of a training, of which several collectors take at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from dicore.config import RunConfig
from dicore.interfaces.policy import facts_of
from dicore_plugins.collectors.budget import env_steps_of

if TYPE_CHECKING:
    from dicore.interfaces.policy import CollectMode

__all__ = ["EnvStepBudget"]

_POLL_S: Final = 0.2


class EnvStepBudget:
    """Env steps that are left; what a collector was told to make is not left for others.

    Args:
        cfg: The bound config.
        used: Env steps so far.

    Attributes:
        used: Env steps so far.
    """

    def __init__(self, cfg: RunConfig, used: int = 0) -> None:
        self._most: int | None = cfg.pipeline.max_env_step
        self._together = int(cfg.env.collector_env_num)
        self.used = used
        self._told: dict[str, int] = {}
        self._begun: set[str] = set()
        self._changed = threading.Condition()
        self._stride, self._first = 1, 0

    def of(self, mode: CollectMode) -> None:
        """Counts the env steps of a sample by a collect mode; before, a sample is one step."""
        facts = facts_of(mode)
        if facts.sample_len == "episode":
            self._stride = 0
            return
        self._stride = facts.sample_stride
        self._first = facts.sample_len - facts.sample_stride

    @property
    def is_spent(self) -> bool:
        """Whether no step is left, once those that were told are made."""
        return self._most is not None and self.used >= self._most

    def claim(
        self, name: str, amount: Mapping[str, int], stopped: Callable[[], bool]
    ) -> Mapping[str, int] | None:
        """Waits until a collector may collect.

        Args:
            name: Name of the collector.
            amount: `n_sample` or `n_episode`; whole episodes are counted when they are made.
            stopped: Ends the wait.

        Returns:
            `within`: the env steps that are left for it, if there is a budget; None if stopped.
        """
        if self._most is None:
            return {}
        with self._changed:
            while not stopped():
                left = self._most - self.used - sum(self._told.values())
                if left > 0:
                    self._told[name] = min(left, self._expected(name, amount))
                    return {"within": left}
                self._changed.wait(_POLL_S)
        return None

    def made(self, name: str, env_steps: int) -> None:
        """Counts the env steps that a collector made; 0: it failed."""
        with self._changed:
            self._told.pop(name, None)
            if env_steps:
                self._begun.add(name)
            else:
                self._begun.discard(name)
            self.used += env_steps
            self._changed.notify_all()

    def _expected(self, name: str, amount: Mapping[str, int]) -> int:
        """Returns the most env steps of a collect.

        Environments step together, and their first steps complete no sample of several rows.
        """
        first = 0 if name in self._begun else self._first
        return env_steps_of(int(amount.get("n_sample", 0)), self._stride, first, self._together)
