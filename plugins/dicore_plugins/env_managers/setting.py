"""Factories of environments for a hand-written main."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.values import Tree


def get_vec_env_setting(cfg: Any) -> tuple[Callable[[Tree], Tree], list[Any], list[Any]]:
    """Returns what a hand-written main needs to make its managers.

    Args:
        cfg: The env's section (`cfg.env`).

    Returns:
        A function from one environment's config to the environment, the configs of the collector
        environments, and those of the evaluator environments.
    """
    from dicore.run.env_factory import env_sections

    return build_env, env_sections(cfg, "collector"), env_sections(cfg, "evaluator")


def build_env(cfg: Any) -> object:
    """Makes one environment with its wrappers, the innermost first."""
    from dicore.run.env_factory import BuildContext, EnvFactory

    return EnvFactory(cfg, BuildContext())()
