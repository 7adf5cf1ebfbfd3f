"""Which preset is for a gymnasium id and an algorithm."""

from __future__ import annotations

from dicore.config import config_class
from dicore.config.fields import fields_of
from dicore_registry import default
from dicore_registry.errors import DicoreError

__all__ = ["tuned_env"]


def tuned_env(env: str | None, policy: str | None) -> str | None:
    """Returns the name of an environment that has a preset for a policy and the given id.

    `CartPole-v1` and `dqn` give `cartpole` if there is a preset `cartpole_dqn` whose environment
    is that id; what has none is returned as it is.

    Args:
        env: Name of an environment, or a gymnasium id.
        policy: Name of a policy.
    """
    if env is None or policy is None:
        return env
    registry = default()
    for preset in registry.entries("preset"):
        name = preset.name.removesuffix(f"_{policy}")
        if name in (preset.name, env):
            continue
        try:
            options = fields_of(config_class(registry.resolve("env", name).target, "env"))
        except DicoreError:
            continue  # the preset is of no use here, and nobody asked for it
        if "env_id" in options and options["env_id"].default() == env:
            return name
    return env
