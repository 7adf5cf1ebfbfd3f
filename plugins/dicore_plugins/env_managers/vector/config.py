"""Options of the managers of vector envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.schema import frozen, option
from dicore.config.sections import EnvConfig, ManagerConfig
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.env_manager import IEnvManager

_COMPARED = frozenset(
    ("Acrobot-v1", "CartPole-v1", "HalfCheetah-v5", "Hopper-v5", "MountainCar-v0",
     "MountainCarContinuous-v0", "Pendulum-v1", "Swimmer-v5", "Walker2d-v5")
)  # fmt: skip
"""Whose steps were compared with EnvPool's; a test does so again."""
_NO_LIMIT = "no effect: a call of a vector env cannot be interrupted"


@frozen(kw_only=True)
class VectorOptions(ManagerConfig):
    """Options of all managers of vector envs."""

    debug: ClassVar[bool] = False
    record_actions: ClassVar[bool] = False

    clip_actions: bool = option(
        True, "clip actions outside of a Box space, and count them; false: raise an error"
    )
    reset_timeout: float | None = option(None, _NO_LIMIT, gt=0, unit="s")
    step_timeout: float | None = option(None, _NO_LIMIT, gt=0, unit="s")
    max_retry: int = option(3, "reset attempts before an error is raised", ge=1)
    retry_waiting_time: float = option(
        0.1,
        "waiting time before the second attempt, more or less by up to a quarter; doubled before"
        " each further one, at most 30 s",
        ge=0,
        unit="s",
    )
    restart_budget: int = option(
        0,
        "failed steps within restart_window before an error is raised; after each, the running"
        " episodes of all environments are discarded and new ones begin",
        ge=0,
    )
    restart_window: float | None = option(
        600.0,
        "period over which failed steps count for restart_budget; None: since the launch",
        gt=0,
        unit="s",
    )


@frozen(kw_only=True)
class VectorManagerConfig(VectorOptions):
    """Steps a vector env: the environment's own if it has one, else Gymnasium's SyncVectorEnv."""

    dynamic_seed: bool = option(
        True,
        "another seed for each episode; false: one seed for all that an environment collects"
        " (SyncVectorEnv only)",
    )
    vectorization_mode: str | None = option(
        None,
        "`vector_entry_point`: the vector env that the environment has; `sync`: Gymnasium's"
        " SyncVectorEnv over single environments; None: the first if there is one and environments"
        " have no wrappers",
        choices=("vector_entry_point", "sync"),
    )

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.vector.manager import VectorEnvManager

        return VectorEnvManager(env_fn, self)


@frozen(kw_only=True)
class EnvPoolConfig(VectorOptions):
    """Steps an environment of the package EnvPool, which runs in C++ threads."""

    dynamic_seed: ClassVar[bool] = True

    task_id: str | None = option(
        None, "EnvPool's id of the environment, e.g. Pong-v5; None: that of the env (env.env_id)"
    )
    num_threads: int = option(0, "threads that step the environments; 0: one per core", ge=0)
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of envpool.make")

    def unlike(self, env: EnvConfig) -> str:
        """Returns how EnvPool's environments differ from those of a section; "": they are equal."""
        return "" if env.get("env_id") in _COMPARED else "its steps were not compared with theirs"

    def build(
        self, ctx: BuildContext | None, *, env_fn: Sequence[Callable[[], Env]], **parts: object
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_plugins.env_managers.vector.envpool import EnvPoolManager

        return EnvPoolManager(env_fn, self)
