"""From a config's env section to an env manager that is seeded for its role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dicore.run.build_context import BuildContext

if TYPE_CHECKING:
    from dicore_tools.evaluation.video import Recorder

__all__ = ["env_factory", "env_sections", "make_env_manager", "spaces_of"]


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


def env_sections(env: Any, role: str) -> list[Any]:
    """Returns the section of each environment of a role: one for all, unless `env` makes them.

    Args:
        env: The compiled `env` section; it may have `create_collector_env_cfg` and
            `create_evaluator_env_cfg`, which return a list of sections.
        role: `collector` or `evaluator`.
    """
    evaluates = role == "evaluator"
    create = getattr(env, f"create_{'evaluator' if evaluates else 'collector'}_env_cfg", None)
    if create is not None:
        return list(create())
    return [env] * (env.evaluator_env_num if evaluates else env.collector_env_num)


def make_env_manager(
    env: Any,
    role: str,
    seed: int,
    *,
    at_most: int | None = None,
    ctx: BuildContext | None = None,
    recorder: Recorder | None = None,
) -> Any:
    """Makes the configured manager for one role; nothing is launched yet.

    Args:
        env: The compiled `env` section.
        role: `collector` or `evaluator`; roles of one run share no episode.
        seed: Seed of the run.
        at_most: Limit of the number of environments.
        ctx: Handed to the config classes.
        recorder: Records the episodes as videos.
    """
    context = BuildContext(seed=seed) if ctx is None else ctx
    sections = env_sections(env, role)[:at_most]
    if recorder is not None:
        sections = [recorder.section(each) for each in sections]
        recorder.check(sections[0])
    factories = [env_factory(each, context) for each in sections]
    if recorder is not None:
        factories = [recorder.around(env_id, make) for env_id, make in enumerate(factories)]
    manager = env.manager.build(context, env_fn=factories)
    manager.seed(seed, role=role)
    return manager


def spaces_of(env: Any, seed: int) -> tuple[Any, Any]:
    """Returns observation and action space; makes one environment for it and closes it again."""
    manager = make_env_manager(env, "collector", seed, at_most=1)
    try:
        return manager.observation_space, manager.action_space
    finally:
        manager.close()
