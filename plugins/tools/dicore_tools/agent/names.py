"""Names of what an agent is made from."""

from __future__ import annotations

from itertools import count
from typing import Any

from dicore.config.resolver import type_of
from dicore.errors import UsageError
from dicore_registry import LOCAL, default, register

__all__ = ["component_name"]

_NETWORKS = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy", "CnnLstmPolicy")


def component_name(kind: str, component: Any) -> str | None:
    """Returns the registered name of a component given by name or class.

    A class of a script or notebook that is not registered is registered in this process.

    Args:
        kind: Component kind.
        component: A name, a class, or None, which is returned as it is.

    Raises:
        UsageError: `component` is neither a name nor a class, or names a network of
            Stable-Baselines3.
        PluginConflictError: the name of the class is already registered.
    """
    if component in _NETWORKS:
        raise UsageError(
            f"{kind}={component!r}: networks follow from the spaces of the environment here",
            hint="name the environment and the algorithm: Agent('CartPole-v1', 'ppo'); options of"
            " the network begin with policy__model__",
        )
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
    if name is None or _is_another(kind, name, component):
        name = component.__name__.lower()
        if any(each.name == name and each.dist != LOCAL for each in default().entries(kind)):
            name = f"own_{name}"
        if "<locals>" in component.__qualname__:  # a function may make several of one name
            numbered = (f"{name}_{number}" for number in count(2))
            while _is_another(kind, name, component):
                name = next(numbered)
        register(kind, name)(component)
    return name


def _is_another(kind: str, name: str, component: type) -> bool:
    """Returns whether a namesake is registered in this process, such as before a cell ran again."""
    found = [each for each in default().entries(kind) if (each.dist, each.name) == (LOCAL, name)]
    target = f"{component.__module__}:{component.__qualname__}"
    if not found or found[0].target != target:  # the class may be configured by the registered one
        return False
    return default().resolve(kind, name).target is not component
