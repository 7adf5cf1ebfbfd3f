"""The documents' way from an env's config to the factories of a hand-written main."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.run.env_factory import BuildContext, env_factory, env_sections

EnvFn = Callable[[Any], Any]


def get_vec_env_setting(cfg: Any) -> tuple[EnvFn, list[Any], list[Any]]:
    """Returns what a hand-written main needs to make its managers.

    Args:
        cfg: The env's section (`cfg.env`).

    Returns:
        A function from one environment's config to the environment, the configs of the
        environments that collect, and those of the ones that evaluate.
    """
    return build_env, env_sections(cfg, "collector"), env_sections(cfg, "evaluator")


def build_env(cfg: Any) -> Any:
    """Makes one environment with its wrappers, the innermost first."""
    return env_factory(cfg, BuildContext())()
