"""From an env's section of a config to the factories of its environments, and to a manager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.run.build_context import BuildContext

EnvFn = Callable[[Any], Any]


def get_vec_env_setting(cfg: Any) -> tuple[EnvFn, list[Any], list[Any]]:
    """Returns what a hand-written main needs to make its managers.

    Args:
        cfg: The env's section (`cfg.env`).

    Returns:
        A function from one environment's config to the environment, the configs of the
        environments that collect, and those of the ones that evaluate.
    """
    collect = getattr(cfg, "create_collector_env_cfg", None)
    evaluate = getattr(cfg, "create_evaluator_env_cfg", None)
    collectors = collect() if collect else [cfg] * cfg.collector_env_num
    evaluators = evaluate() if evaluate else [cfg] * cfg.evaluator_env_num
    return build_env, list(collectors), list(evaluators)


def build_env(cfg: Any) -> Any:
    """Makes one environment with its wrappers, the innermost first."""
    env = cfg.build(BuildContext())
    for wrapper in cfg.env_wrapper:
        env = wrapper.build(BuildContext(), env=env)
    return env


def create_env_manager(cfg: Any, role: str, seed: int) -> Any:
    """Makes the manager of one role, seeded and not yet launched.

    Args:
        cfg: The env's section (`cfg.env`).
        role: `collector` or `evaluator`.
        seed: Seed of the run.
    """
    make, collectors, evaluators = get_vec_env_setting(cfg)
    chosen = evaluators if role == "evaluator" else collectors
    manager = cfg.manager.build(
        BuildContext(seed=seed), env_fn=[lambda each=each: make(each) for each in chosen]
    )
    manager.seed(seed, role=role)
    return manager
