"""Options of the manager of ale_py's vector env."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dicore.config.schema import frozen, option
from dicore.config.sections import EnvConfig
from dicore.interfaces.env_manager import IEnvManager
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_managers import VectorOptions


@frozen(kw_only=True)
class AleVectorConfig(VectorOptions):
    """Steps Atari games by the vector env of the package ale_py, which runs in C++ threads."""

    dynamic_seed: ClassVar[bool] = True

    task_id: str | None = option(
        None,
        "id of a game, e.g. ALE/Pong-v5, for factories without a section of a config; played with"
        " the wrappers of env.type=atari",
    )
    num_threads: int = option(0, "threads that step the games; 0: one per core", ge=0)

    def unlike(self, env: EnvConfig) -> str:
        """Returns how its games differ from those of a section with its wrappers."""
        return "frames, and the first stack of a game, differ from those of the wrappers"

    def build(
        self,
        ctx: BuildContext | None,
        *,
        env_fn: Sequence[Callable[[], Any]],
        **parts: object,
    ) -> IEnvManager:
        """Returns the manager; `env_fn` holds one factory per environment."""
        from dicore_contrib_envs.atari_vector import AleVectorManager

        return AleVectorManager(env_fn, self)
