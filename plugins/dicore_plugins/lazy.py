"""Imports on first use: public names of packages, former paths, and classes that options build."""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from inspect import unwrap
from types import ModuleType
from typing import Any

from dicore.config.schema import fields_of
from dicore.run.env_factory import BuildContext
from dicore_registry.errors import MissingPackageError
from dicore_registry.installing import install_line
from dicore_registry.public_names import refusal


class FormerPaths:
    """Finds modules by the paths that they had; it is asked when there is none of the name."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to import the module in its present place; None: it is none of ours."""
        if not name.startswith("dicore_plugins."):
            return None
        found: ModuleSpec | None = import_module("dicore_plugins.former").spec_of(name)
        return found


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` (PEP 562) of a package, by the imports of its stub.

    The public names of a package stand in `__init__.pyi` alone, which is read when the first one
    is asked for. A name that the stub imports from another distribution has moved there: it works
    with a warning, and is not listed.

    Args:
        package: `__name__` of the package.
    """
    root = f"{package.partition('.')[0]}."

    def own() -> list[str]:
        return sorted(name for name, home in homes(package).items() if home.startswith(root))

    def load(name: str) -> Any:
        if name == "__all__":
            return own()
        if name.startswith("__") or name not in homes(package):
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = homes(package)[name]
        if home.startswith(root):
            return getattr(import_module(home), name)
        return _moved(f"{package}.{name}", home)

    return load, own


@cache
def homes(package: str) -> dict[str, str]:
    """Returns the module of each public name of a package, as its stub says; empty without one."""
    try:
        text = pkgutil.get_data(package, "__init__.pyi") or b""
    except OSError:
        return {}
    found = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    return {name.name: node.module or "" for node in found for name in node.names}


def _moved(path: str, home: str) -> Any:
    """Imports a name, with a warning, from the distribution that it has moved to."""
    from dicore.deprecation import deprecated

    name, root = path.rpartition(".")[2], home.partition(".")[0]
    try:
        found = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != root:
            raise
        raise refusal(comes_with(name, root), name, sys._getframe(2)) from None  # noqa: SLF001 - as in `dicore`
    deprecated(path, instead=f"{home}.{name}", since="0.1", stacklevel=3)
    return found


def comes_with(name: str, root: str) -> MissingPackageError:
    """Returns the error for what another distribution has, by that one's package."""
    dist = root.replace("_", "-")
    return MissingPackageError(f"'{name}' comes with {dist}: {install_line(dist)}")


def builds(path: str, takes: str = "device") -> Callable[..., Any]:
    """Returns the method `build` of a policy's options, which imports the policy when it is called.

        class DQNConfig(PolicyConfig):
            build = builds("dicore_plugins.policies.value.dqn:DQNPolicy")

    Args:
        path: Class of the policy, as `module:Class`; `get_policy_cls` returns it.
        takes: What the class takes from the `BuildContext`, as the keyword argument of that name;
            `context`: all of it.
    """

    def build(
        self: Any, ctx: BuildContext | None, *, model: Any | None = None, **parts: object
    ) -> Any:
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


def builds_network(
    path: str, renamed: Mapping[str, str] | None = None, **fixed: object
) -> Callable[..., Any]:
    """Returns the method `build` of a network's options, which imports the network.

        class IQLModelConfig(QACConfig):
            build = builds_network("dicore_plugins.models.qac.offline:IQLNet")

    Args:
        path: Class of the network, as `module:Class`. The options of the class that has the method
            are its keyword arguments; those of subclasses are not.
        renamed: Arguments that have another name than the option.
        **fixed: Arguments in place of options, or beside them.
    """

    def build(self: Any, ctx: BuildContext | None, **parts: object) -> Any:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        kinds = [each for each in type(self).__mro__ if "build" in vars(each)]
        owner = next(each for each in kinds if unwrap(vars(each)["build"]) is build)
        names = {name: name for name in fields_of(owner) if name != "type"} | {**(renamed or {})}
        options = {argument: self[name] for name, argument in names.items()}
        module, cls = path.split(":")
        return getattr(import_module(module), cls)(**{**options, **fixed})

    return build
