"""A config class for a component that has none of its own: its signature says what it takes.

A parameter is an option when a config can hold its type; everything else (an env to wrap, a random
generator) is a part that the builder hands over.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Optional

from dicore.config.blame import blaming
from dicore.config.declare import REQUIRED, ComponentConfig, Section, frozen, option
from dicore.config.fields import resolve_hint
from dicore.config.leaf import is_leaf_type
from dicore.config.plain import plain
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError

__all__ = ["SignatureConfig", "config_class"]

_RESERVED = frozenset(
    ("type", "build", "keys", "get", "one_of", "check", "bind", "from_spec", "knows")
)
_POSITIONAL_OR_KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class SignatureConfig:
    """What config classes made from a signature have in common."""

    __slots__ = ()

    _target: ClassVar[Callable[..., Any]]
    _own_options: ClassVar[tuple[str, ...]]

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Calls the target with its own options and the parts."""
        options = {name: plain(getattr(self, name)) for name in self._own_options}
        target: Any = type(self)._target  # noqa: SLF001 - our own; a plain name may be an option's
        return blaming(lambda _: target(**options, **parts))(self)

    def __reduce__(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        values = {name: getattr(self, name) for name in self.keys()}  # type: ignore[attr-defined]
        return _rebuild, (cls._target, issubclass(cls, EnvConfig), values)


def _rebuild(target: Any, is_env: bool, values: dict[str, Any]) -> Any:
    return _from_signature(target, is_env)(**values)


def config_class(target: Any, kind: str) -> type[ComponentConfig]:
    """Returns the config class of a registered target.

    Args:
        target: A config class, a class that names its own in `config_class` or inherits it, or a
            plain class or function with typed keyword parameters.
        kind: The kind it is registered as; an env gets the options of every env beside its own.

    Raises:
        ConfigError: the target is none of these, or a parameter's name is taken.
    """
    if isinstance(target, type) and issubclass(target, ComponentConfig):
        return target
    declared = getattr(target, "config_class", None)
    if isinstance(declared, type) and issubclass(declared, ComponentConfig):
        if isinstance(target, type) and "config_class" not in vars(target):
            return _inherited(target)
        return declared
    if not callable(target):
        raise ConfigError(f"{kind} {target!r} is neither a class nor a function")
    return _from_signature(target, kind == "env")


class InheritedConfig:
    """The options of a class that derives from a component; what is built is that class."""

    __slots__ = ()

    _target: ClassVar[type[Any]]

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the class from its section and the parts, as the class above it is made."""
        target = type(self)._target  # noqa: SLF001 - our own; see `SignatureConfig`
        if "cfg" in inspect.signature(target).parameters:  # it need not be the first
            return target(cfg=self, **parts)
        return target(self, **parts)

    def __reduce__(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        values = {name: getattr(self, name) for name in self.keys()}  # type: ignore[attr-defined]
        return _rebuild_inherited, (cls._target, values)


@cache
def _inherited(target: Any) -> type[ComponentConfig]:
    namespace: dict[str, Any] = {
        "__annotations__": {},
        "__doc__": inspect.getdoc(target),
        "__module__": target.__module__,
        "__qualname__": f"{target.__qualname__}Config",
        "_target": target,
    }
    made = type(f"{target.__name__}Config", (InheritedConfig, target.config_class), namespace)
    return frozen(kw_only=True)(made)


def _rebuild_inherited(target: Any, values: dict[str, Any]) -> Any:
    return _inherited(target)(**values)


@cache
def _from_signature(target: Callable[..., Any], is_env: bool) -> type[ComponentConfig]:
    base: type[Section] = EnvConfig if is_env else ComponentConfig
    name = getattr(target, "__name__", type(target).__name__)
    options = _options_of(target)
    taken = sorted(options.keys() & _RESERVED)
    if taken:
        raise ConfigError(
            f"{name}: a parameter cannot be called '{taken[0]}'",
            hint="rename it, or register a config class",
        )
    namespace: dict[str, Any] = {
        "__annotations__": {key: hint for key, (hint, _) in options.items()},
        "__doc__": inspect.getdoc(target),
        "__module__": getattr(target, "__module__", __name__),
        "__qualname__": f"{name}Config",
        "_target": staticmethod(target),
        "_own_options": tuple(options),
        **{key: declared for key, (_, declared) in options.items()},
    }
    made = type(f"{name}Config", (SignatureConfig, base), namespace)
    return frozen(kw_only=True)(made)


def _options_of(target: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Returns type and declaration of each parameter that a config can hold."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:
        return {}  # a builtin without a signature takes no options
    meanings = _meanings(target)
    options: dict[str, tuple[Any, Any]] = {}
    for parameter in parameters:
        if parameter.kind not in (_POSITIONAL_OR_KEYWORD, _KEYWORD_ONLY):
            continue
        hint = _hint(target, parameter)
        if parameter.name.startswith("_") or hint is None or not is_leaf_type(hint):
            continue
        silent = parameter.default is inspect.Parameter.empty
        default = REQUIRED if silent else parameter.default
        hint = Optional[hint] if default is None else hint  # noqa: UP045 - `hint` is a value
        options[parameter.name] = (hint, option(default, meanings.get(parameter.name, "")))
    return options


def _hint(target: Any, parameter: inspect.Parameter) -> Any:
    """Returns a parameter's type; None for one that has neither type nor telling default."""
    written = parameter.annotation
    if written is inspect.Parameter.empty:
        known = type(parameter.default) in (bool, int, float, str)
        return type(parameter.default) if known else None
    if not isinstance(written, str):
        return written
    defined = inspect.getattr_static(target, "__init__") if isinstance(target, type) else target
    module = sys.modules.get(getattr(target, "__module__", ""))
    names = {**(vars(module) if module else {}), **getattr(defined, "__globals__", {})}
    try:
        return resolve_hint(written, names)
    except (NameError, AttributeError):
        return None  # an import for type checkers only, hence nothing that a config can hold


def _meanings(target: Any) -> dict[str, str]:
    """Reads what each parameter means off the `Args:` of the docstring."""
    doc = inspect.getdoc(target) or ""
    if isinstance(target, type) and "Args:" not in doc:
        doc = inspect.getdoc(inspect.getattr_static(target, "__init__")) or ""
    block = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    if block is None:
        return {}
    found: dict[str, str] = {}
    indent = len(block[1]) - len(block[1].lstrip(" "))
    name = ""
    for line in block[1].splitlines():
        match = re.match(rf" {{{indent}}}(\w+)(?: \([^)]*\))?: (.*)", line)
        if match:
            name = match[1]
            found[name] = match[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}"
    return found
