"""Options of the env managers with worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dicore.config.schema import ComponentConfig, component, frozen, option
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_managers.base.config import BaseManagerConfig
from dicore_registry import renamed

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.env_manager import IEnvManager


@frozen(kw_only=True)
class SyncSubprocessConfig(BaseManagerConfig):
    """Steps environments in worker processes and waits for all of them."""

    envs_per_worker: int | None = option(
        None, "environments per process; None: as many as give one process per core", ge=1
    )
    context: str = option(
        "forkserver",
        "how processes are started: `forkserver`, `spawn`, or `fork` (unsafe with threads, CUDA)",
        choices=("forkserver", "spawn", "fork"),
    )
    connect_timeout: float | None = option(
        60.0, "limit to start a process, and to create each environment; None: none", gt=0, unit="s"
    )
    reset_timeout: float | None = option(120.0, "limit per reset; None: no limit", gt=0, unit="s")
    step_timeout: float | None = option(60.0, "limit per step; None: no limit", gt=0, unit="s")
    restart_budget: int = option(
        3,
        "failed episodes (crash, time limit, exception, invalid data) to discard and restart per"
        " environment, within restart_window, before raising an error",
        ge=0,
    )
    reset_inplace: bool = option(
        True,
        "a worker resets an environment as soon as its episode ends; false: when asked to,"
        " which costs a message",
    )
    shared_memory: bool = option(
        True, "exchange arrays through shared memory; false: pickle them through the pipe"
    )
    transport: ComponentConfig | None = component(
        "env_transport", help="carries data to and from workers; see `shared_memory`", optional=True
    )
    capture_output: bool = option(
        True,
        "write what environments print to the files log/env-*.log of the run, of at most 10 MB"
        " each; false, or without a run: to the terminal",
    )
    copy_on_get: bool = option(
        False,
        "return copies of observations, which are never overwritten; false: valid until the next"
        " but one step",
    )

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        self.need_processes()
        from dicore_plugins.env_managers.subprocess.manager import SyncSubprocessManager

        return SyncSubprocessManager(env_fn, self, self.output_folder(ctx))

    def need_processes(self) -> None:
        """Checks that the system has groups of processes and signals for them.

        Raises:
            UsageError: it has not, as Windows.
        """
        if find_spec("fcntl") is None:
            raise UsageError(
                "env.manager: worker processes need Linux or macOS",
                hint="env.manager=thread or base; or run dicore in WSL",
            )

    def output_folder(self, ctx: BuildContext | None) -> Path | None:
        """Returns the folder for what environments print in workers; None: the terminal."""
        run = getattr(ctx, "run", None)
        if not self.capture_output or run is None:
            return None
        folder = Path(run.folder.log)
        folder.mkdir(parents=True, exist_ok=True)  # workers may start before the first log
        return folder


SUBPROCESS = renamed("sync_subprocess", since="0.1.0")
"""The name of DI-engine's configs."""
