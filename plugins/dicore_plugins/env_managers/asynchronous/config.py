"""Options of the env managers that do not wait for all environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dicore.config.schema import frozen, option
from dicore_plugins.env_managers.threads.config import ThreadManagerConfig


@frozen(kw_only=True)
class EnvSupervisorConfig(ThreadManagerConfig):
    """Steps environments at their own pace, in threads."""

    wait_num: int = option(
        2, "a step returns as soon as so many environments answered; the others later", ge=1
    )
    step_wait_timeout: float = option(
        0.01, "time that a step waits for the answers of more environments", ge=0, unit="s"
    )
    reset_inplace: bool = option(
        False, "wait for the reset of an environment whose episode ended, while it is cheap"
    )

    def build(self, ctx: Any, *, env_fn: Sequence[Callable[[], Any]], **parts: Any) -> Any:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.asynchronous.supervisor import EnvSupervisor

        return EnvSupervisor(env_fn, self)
