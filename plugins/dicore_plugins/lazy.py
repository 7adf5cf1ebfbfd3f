"""Imports on first use: public names of packages, and the classes that options build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Returns a module `__getattr__` (PEP 562).

    Args:
        package: `__name__` of the package.
        homes: Public names by module, relative to the package (`.base`) or absolute.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = home_of[name]
        return getattr(import_module(f"{package}{home}" if home[0] == "." else home), name)

    return load


def builds(path: str, takes: str = "device") -> Callable[..., Any]:
    """Returns the method `build` of a policy's options, which imports the policy when it is called.

        class DQNConfig(PolicyConfig):
            build = builds("dicore_plugins.policies.dqn.policy:DQNPolicy")

    Args:
        path: Class of the policy, as `module:Class`; `get_policy_cls` returns it.
        takes: What the class takes from the `BuildContext`, as the keyword argument of that name;
            `context`: all of it.
    """

    def build(self: Any, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy; `model` replaces the configured network."""
        given = ctx if takes == "context" else getattr(ctx, takes, None)
        parts = (
            {takes: given, **parts} if model is None else {takes: given, "model": model, **parts}
        )
        return policy_class()(self, **parts)

    def policy_class() -> Any:
        module, name = path.split(":")
        return getattr(import_module(module), name)

    vars(build)["policy_class"] = policy_class
    return build
