"""Config classes of components without one, from their signatures; and defaults as nested dicts.

A parameter is an option if a config can hold its type; the builder passes the others as parts.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, ClassVar, Optional

from dicore.config.convert import is_leaf_type
from dicore.config.paths import merge, plain
from dicore.config.schema import (
    REQUIRED,
    ComponentConfig,
    Field,
    Section,
    annotated,
    fields_of,
    frozen,
    option,
    resolve_hint,
)
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError, RegistryError
from dicore_registry import default

_RESERVED = frozenset(
    ("type", "build", "keys", "get", "one_of", "check", "bind", "from_spec", "knows")
)


class _MadeConfig:
    """Base of config classes that are made from a target; pickled by target and values."""

    __slots__ = ()

    _target: ClassVar[Any]

    def __reduce__(self) -> tuple[object, ...]:
        cls: Any = type(self)
        values = {name: getattr(self, name) for name in self.keys()}  # type: ignore[attr-defined]
        inherited = issubclass(cls, InheritedConfig)
        return _rebuild, (cls._target, inherited, issubclass(cls, EnvConfig), values)


class SignatureConfig(_MadeConfig):
    """Base of config classes that are made from a signature."""

    __slots__ = ()

    _own_options: ClassVar[tuple[str, ...]]

    @annotated
    def build(self, ctx: Any, **parts: Any) -> Any:
        """Calls the target with its own options and the parts."""
        options = {name: plain(getattr(self, name)) for name in self._own_options}
        target: Any = type(self)._target  # noqa: SLF001 - a plain name may be an option's
        return target(**{**options, **parts})


class InheritedConfig(_MadeConfig):
    """Base of the config class of a class that derives from a component; it builds that class."""

    __slots__ = ()

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Calls the class with this section and the parts, as its base is called."""
        target = type(self)._target  # noqa: SLF001 - our own
        if "cfg" in inspect.signature(target).parameters:  # it need not be the first
            return target(cfg=self, **parts)
        return target(self, **parts)


def _rebuild(target: object, inherited: bool, is_env: bool, values: dict[str, Any]) -> object:
    made = _inherited(target) if inherited else _from_signature(target, is_env)
    return made(**values)


def config_class(target: Any, kind: str) -> type[ComponentConfig]:
    """Returns the config class of a registered target.

    Args:
        target: A config class, a class that names its own in `config_class` or inherits it, or a
            plain class or function with typed keyword parameters.
        kind: The kind it is registered as; an env gets the options of every env beside its own.

    Raises:
        ConfigError: the target is none of these, or the name of a parameter is reserved.
    """
    if isinstance(target, type) and issubclass(target, ComponentConfig):
        return target
    declared = getattr(target, "config_class", None)
    if isinstance(declared, type) and issubclass(declared, ComponentConfig):
        if not isinstance(target, type) or "config_class" in vars(target):
            return declared
        first = next(iter(inspect.signature(target).parameters), "")
        if first not in fields_of(declared):  # else it takes the options, not a section of them
            return _inherited(target)
    if not callable(target):
        raise ConfigError(f"{kind} {target!r} is neither a class nor a function")
    return _from_signature(target, kind == "env")


@cache
def _inherited(target: Any) -> type[ComponentConfig]:
    return _made(target, target.__qualname__, (InheritedConfig, target.config_class), {})


@cache
def _from_signature(target: Callable[..., object], is_env: bool) -> type[ComponentConfig]:
    base: type[Section] = EnvConfig if is_env else ComponentConfig
    name = getattr(target, "__name__", type(target).__name__)
    options = _options_of(target)
    taken = sorted(options.keys() & _RESERVED)
    if taken:
        raise ConfigError(
            f"{name}: a parameter cannot be called '{taken[0]}'",
            hint="rename it, or register a config class",
        )
    return _made(target, name, (SignatureConfig, base), options)


def _made(
    target: Any, name: str, bases: tuple[type, ...], options: dict[str, tuple[object, object]]
) -> type[ComponentConfig]:
    """Returns the config class of a target with the types and declarations of its own options."""
    namespace: dict[str, object] = {
        "__annotations__": {key: hint for key, (hint, _) in options.items()},
        "__doc__": inspect.getdoc(target),
        "__module__": getattr(target, "__module__", __name__),
        "__qualname__": f"{name}Config",
        "_target": target if isinstance(target, type) else staticmethod(target),
        "_own_options": tuple(options),
        **{key: declared for key, (_, declared) in options.items()},
    }
    return frozen(kw_only=True)(type(f"{name.rpartition('.')[2]}Config", bases, namespace))


def _options_of(target: Callable[..., object]) -> dict[str, tuple[object, object]]:
    """Returns type and declaration of each parameter that a config can hold."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:
        return {}  # a builtin without a signature takes no options
    helps = _helps(target)
    options: dict[str, tuple[object, Any]] = {}
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        hint = _hint(target, parameter)
        if parameter.name.startswith("_") or hint is None or not is_leaf_type(hint):
            continue
        if parameter.name == "type" and parameter.default is None:
            continue  # takes the key of a whole section, as networks do
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        hint = Optional[hint] if default is None else hint  # noqa: UP045 - `hint` is a value
        options[parameter.name] = (hint, option(default, helps.get(parameter.name, "")))
    return options


def untyped_parameters(cls: type[Section]) -> Collection[str]:
    """Returns the parameters of a made config class's target that are no options; `**` for all."""
    target = vars(cls).get("_target") if issubclass(cls, SignatureConfig) else None
    found = inspect.signature(target).parameters.values() if target else ()
    return {"**" if p.kind is p.VAR_KEYWORD else p.name for p in found} - {*fields_of(cls)}


def _hint(target: object, parameter: inspect.Parameter) -> object:
    """Returns a parameter's type (`np.floating`: float), also by its default; None without one."""
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
        return resolve_hint(re.sub(r"\bnp\.(float|int)(ing|eger)\b", r"\1", written), names)
    except (NameError, AttributeError):
        return None  # an import for type checkers only, hence nothing that a config can hold


def _helps(target: object) -> dict[str, str]:
    """Reads the help of each parameter from the `Args:` of the docstring."""
    doc = inspect.getdoc(target) or ""
    if isinstance(target, type) and "Args:" not in doc:
        doc = inspect.getdoc(inspect.getattr_static(target, "__init__")) or ""
    block = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    if block is None:
        return {}
    helps: dict[str, str] = {}
    indent = len(block[1]) - len(block[1].lstrip(" "))
    name = ""
    for line in block[1].splitlines():
        match = re.match(rf" {{{indent}}}(\w+)(?: \([^)]*\))?: (.*)", line)
        if match:
            name = match[1]
            helps[name] = match[2].strip()
        elif name and line.strip():
            helps[name] = f"{helps[name]} {line.strip()}"
    return helps


def default_config(cls: type[Section]) -> dict[str, Any]:
    """Returns the defaults of a config class, those of its bases first, as nested dicts.

    Args:
        cls: A config class, or a component class that names its own in `config_class`.

    Returns:
        The options in order of declaration, and `cfg_type`, the class's name. A slot holds the
        defaults of its default component. Required options are left out, and in slots those that
        follow another option. Compiling the dict gives the defaults again.
    """
    cls = cls if issubclass(cls, Section) else config_class(cls, "")
    values: dict[str, object] = {}
    for name, field in fields_of(cls).items():
        value = _default(field)
        if value is not REQUIRED and not (name == "type" and value == ""):
            values[name] = value
    return {"cfg_type": cls.__name__, **values}


def _default(field: Field) -> Any:
    metadata = field.metadata
    if "section" in metadata:
        return default_config(metadata["section"])
    if "component" in metadata:
        return _default_component(metadata)
    if "components" in metadata:
        return plain(list(metadata["component_default"]))
    return field.default()


def _default_component(metadata: Mapping[str, Any]) -> Any:
    kind, given, registry = metadata["component"], metadata["component_default"], default()
    if given is None and metadata["optional"]:
        return None
    try:
        name: Any = given or registry.default(kind) or ""
        name = name["type"] if isinstance(name, Mapping) else name
        cls = config_class(registry.resolve(kind, name).target, kind)
    except RegistryError:  # not installed, or several packages have one
        return REQUIRED if given is None else plain(given)
    follows = {key for key, field in fields_of(cls).items() if field.follows}
    values = {key: item for key, item in default_config(cls).items() if key not in follows}
    return {"type": name, **merge(values, given if isinstance(given, Mapping) else {})}
