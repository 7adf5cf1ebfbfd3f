"""Options of the in-process env manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dicore.config.declare import frozen, option
from dicore.config.sections import ManagerConfig


@frozen(kw_only=True)
class BaseManagerConfig(ManagerConfig):
    """Steps all environments in the calling process, one after the other."""

    reset_timeout: float | None = option(
        None, "no effect here: one process cannot cut its own call short", gt=0, unit="s"
    )
    step_timeout: float | None = option(
        None, "no effect here: one process cannot cut its own call short", gt=0, unit="s"
    )
    max_retry: int = option(3, "tries of a reset before it counts as failed", ge=1)
    retry_type: str = option(
        "reset",
        "before another try: reset the same environment, or renew it (close it and make another)",
        choices=("reset", "renew"),
    )
    retry_waiting_time: float = option(0.1, "wait between tries", ge=0, unit="s")
    restart_budget: int = option(
        0,
        "episodes that an environment may spoil by a failing step or bad data (they are dropped"
        " and it begins anew) before its failure is an error",
        ge=0,
    )
    record_actions: bool = option(
        True, "keep the actions of running episodes, by which a resumed run brings them back"
    )
    debug: bool = option(False, "spoil recycled observations on retirement, to find stale readers")

    def build(self, ctx: Any, *, env_fn: Sequence[Callable[[], Any]], **parts: Any) -> Any:
        """Makes the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.base.manager import BaseEnvManager

        return BaseEnvManager(env_fn, self)
