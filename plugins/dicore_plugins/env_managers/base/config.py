"""Options of the in-process env manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dicore.config.schema import frozen, option
from dicore.config.sections import ManagerConfig
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.env_manager import IEnvManager


@frozen(kw_only=True)
class BaseManagerConfig(ManagerConfig):
    """Steps all environments in the calling process, one after the other."""

    reset_timeout: float | None = option(
        None, "no effect: a call in this process cannot be interrupted", gt=0, unit="s"
    )
    step_timeout: float | None = option(
        None, "no effect: a call in this process cannot be interrupted", gt=0, unit="s"
    )
    max_retry: int = option(3, "reset attempts before an error is raised", ge=1)
    retry_type: str = option(
        "reset",
        "how to retry: `reset` the same environment, or `renew` it (close it and create another)",
        choices=("reset", "renew"),
    )
    retry_waiting_time: float = option(
        0.1,
        "waiting time before the second attempt, more or less by up to a quarter; doubled before"
        " each further one, at most 30 s",
        ge=0,
        unit="s",
    )
    restart_budget: int = option(
        0,
        "failed episodes (exception or invalid data) to discard and restart per environment, within"
        " restart_window, before raising an error",
        ge=0,
    )
    restart_window: float | None = option(
        600.0,
        "period over which failed episodes count for restart_budget; None: since the launch",
        gt=0,
        unit="s",
    )
    dynamic_seed: bool = option(
        True, "another seed for each episode; false: one seed for all that an environment collects"
    )
    clip_actions: bool = option(
        True, "clip actions outside of a Box space, and count them; false: raise an error"
    )
    record_actions: bool = option(
        True,
        "record the actions of running episodes, in the last 20,000 steps of the manager, so that"
        " resume can replay them",
    )
    debug: bool = option(
        False,
        "debugging: overwrite recycled observations so that code still holding them fails visibly",
    )

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.base.manager import BaseEnvManager

        return BaseEnvManager(env_fn, self)
