"""From a config's env section to an env manager that is seeded for its role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.run.build_context import BuildContext

__all__ = ["env_factory", "make_env_manager", "spaces_of"]


def env_factory(env: Any, ctx: BuildContext) -> Callable[[], Any]:
    """Returns what makes one environment, its wrappers around it, innermost first.

    Args:
        env: The compiled `env` section.
        ctx: Handed to the config classes.
    """

    def make() -> Any:
        made = env.build(ctx)
        for wrapper in env.env_wrapper:
            made = wrapper.build(ctx, env=made)
        return made

    return make


def make_env_manager(
    env: Any, role: str, seed: int, *, env_num: int | None = None, ctx: BuildContext | None = None
) -> Any:
    """Makes the configured manager for one role; nothing is launched yet.

    Args:
        env: The compiled `env` section.
        role: `collector` or `evaluator`; roles of one run share no episode.
        seed: Seed of the run.
        env_num: Number of environments; None takes the role's own.
        ctx: Handed to the config classes.
    """
    context = BuildContext(seed=seed) if ctx is None else ctx
    configured = env.evaluator_env_num if role == "evaluator" else env.collector_env_num
    factory = env_factory(env, context)
    number = configured if env_num is None else env_num
    manager = env.manager.build(context, env_fn=[factory] * number)
    manager.seed(seed, role=role)
    return manager


def spaces_of(env: Any, seed: int) -> tuple[Any, Any]:
    """Returns observation and action space; makes one environment for it and closes it again."""
    manager = make_env_manager(env, "collector", seed, env_num=1)
    try:
        return manager.observation_space, manager.action_space
    finally:
        manager.close()
