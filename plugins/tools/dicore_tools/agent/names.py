"""Names of what an agent is made from: of classes, and of environments that have a preset."""

from __future__ import annotations

from typing import Any

from dicore.config import config_class
from dicore.config.resolver import type_of
from dicore.config.schema import fields_of
from dicore.errors import DicoreError, UsageError
from dicore_registry import default, register

__all__ = ["component_name", "preset_env"]


def component_name(kind: str, component: Any) -> str | None:
    """Returns the registered name of a component given by name or class.

    A class of a script or notebook that is not registered is registered in this process.

    Args:
        kind: Component kind.
        component: A name, a class, or None, which is returned as it is.

    Raises:
        UsageError: `component` is neither a name nor a class.
        PluginConflictError: the name of the class is already registered.
    """
    if component is None or isinstance(component, str):
        return component
    if not isinstance(component, type):
        hint = f"pass the class or its name (dicore list {kind})"
        if kind == "env":
            hint = "each worker creates its own env: pass the class or a Gymnasium id"
            if callable(component):
                hint += "; register a factory function: register('env', 'mine')(make)"
        got = type(component).__name__
        got = "a function" if got in ("function", "method") else f"an object of class {got}"
        raise UsageError(f"{kind}={component!r}: expected a name or a class, got {got}", hint=hint)
    name = type_of(kind, component, default())
    if name is None:
        name = component.__name__.lower()
        register(kind, name)(component)
    return name


def preset_env(env: str | None, policy: str | None) -> str | None:
    """Returns the name of the environment whose preset matches a Gymnasium id and a policy.

    `CartPole-v1` and `dqn` give `cartpole`, since the preset `cartpole_dqn` uses this id. Without
    such a preset, `env` is returned unchanged.

    Args:
        env: Name of an environment, or a Gymnasium id.
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
            continue  # skip envs that cannot be used
        if "env_id" in options and options["env_id"].default() == env:
            return name
    return env
