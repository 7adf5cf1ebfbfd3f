"""From a config's env section to an env manager that is seeded for its role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore.run.run import Run
    from dicore_tools.evaluation.video import Recorder

__all__ = ["BuildContext", "env_factory", "env_sections", "make_env_manager", "spaces_of"]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Handed to every config class's `build`.

    Args:
        observation_space: Of one environment; None before it is known.
        action_space: Of one environment; None before it is known.
        device: Where tensors live: `cpu`, `cuda`, `cuda:1`.
        seed: Seed of the run.
        run: The run that the component becomes part of; None for one built by hand.
        logger: Where the component logs scalars and text; None: nowhere.
    """

    observation_space: Any = None
    action_space: Any = None
    device: str = "cpu"
    seed: int = 0
    run: Run | None = None
    logger: Any = None

    def with_spaces(self, observation_space: Any, action_space: Any) -> BuildContext:
        """Returns a copy that knows the spaces."""
        return replace(self, observation_space=observation_space, action_space=action_space)


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
