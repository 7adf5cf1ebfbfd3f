"""Options of the env managers that do not wait for all environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dicore.config.schema import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_managers.subprocess.config import SyncSubprocessConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.env_manager import IEnvManager


@frozen(kw_only=True)
class AsyncSubprocessConfig(SyncSubprocessConfig):
    """Steps environments in worker processes at their own pace; the slow ones answer later."""

    envs_per_worker: int | None = option(
        1,
        "environments per process, which wait for each other; None: as many as give one process"
        " per core",
        ge=1,
    )
    reset_inplace: bool = option(
        False,
        "reset an environment as soon as its episode ends, before its last timestep is returned;"
        " false: while the others are stepped",
    )
    wait_num: int = option(
        2, "a step returns once so many environments have answered; the others later", ge=1
    )
    step_wait_timeout: float = option(
        0.01, "time for which a step waits for the answers of more environments", ge=0, unit="s"
    )

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        self.need_processes()
        from dicore_plugins.env_managers.asynchronous.manager import AsyncEnvManager

        return AsyncEnvManager(env_fn, self, self.output_folder(ctx))


@frozen(kw_only=True)
class EnvSupervisorConfig(AsyncSubprocessConfig):
    """Steps environments at their own pace, in threads or processes."""

    children: str = option(
        "thread",
        "where environments run: `thread` (of this process; not pickled), or `process`",
        choices=("thread", "process"),
    )
    max_try: int | None = option(None, "max_retry under its name in DI-engine", ge=1)
