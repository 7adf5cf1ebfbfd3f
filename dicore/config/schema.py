"""How options are declared: attrs classes whose fields carry their help, range and unit.

A config class is light: it imports attrs and nothing heavy; its `build` imports the rest.

    @frozen(kw_only=True)
    class NaiveConfig(ComponentConfig):
        '''First-in first-out ring, sampled uniformly.'''

        replay_buffer_size: int = option(10_000, "capacity in samples", ge=1)
"""

from __future__ import annotations

import inspect
import operator
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial, reduce, wraps
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import attrs
from attrs import frozen as frozen  # noqa: PLC0414 - exported

from dicore.config.convert import Mismatch, convert
from dicore.errors import UsageError

T = TypeVar("T")

_PLAIN = {"bool": bool, "float": float, "int": int, "str": str}
_STRUCTURE = frozenset({"section", "component", "components"})
BOUNDS: Final = {
    "ge": (">=", operator.ge),
    "gt": (">", operator.gt),
    "le": ("<=", operator.le),
    "lt": ("<", operator.lt),
}
_NOTE = "while building "


class _Required:
    """The default of an option whose value the class, preset, env spec or user must give."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"

    def __bool__(self) -> bool:
        return False


REQUIRED: Final = _Required()


def option(  # noqa: PLR0913 - each names one fact of an option
    default: Any = attrs.NOTHING,
    help: str = "",  # noqa: A002 - the word everybody knows from argparse and click
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: Sequence[object] | None = None,
    unit: str = "",
    check: Callable[[object], str | None] | None = None,
    follows: str | None = None,
    secret: bool | None = None,
) -> Any:
    """Declares an option: its default, meaning, range and unit.

    Args:
        default: The value when no source gives one; `REQUIRED` if a source must. Mutable defaults
            (list, dict) are copied per instance.
        help: What it means, in one line.
        ge: Smallest value allowed; also for each item of a list.
        gt: Bound that the value must exceed.
        le: Largest value allowed.
        lt: Bound that the value must stay below.
        choices: All values allowed.
        unit: Unit of the value (`s`, `env steps`).
        check: Returns what is wrong with a value, or None.
        follows: Path of the option of the whole config (`env.stop_value`) whose value this option
            takes when no source sets it.
        secret: Keep its texts out of files and messages; None decides by the option's name (see
            `dicore.config.redact`).

    Returns:
        An attrs field whose metadata holds the facts; they are checked by compile and on
        construction.
    """
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    metadata = {
        "help": help,
        "unit": unit,
        "bounds": {name: bound for name, bound in bounds.items() if bound is not None},
        "choices": tuple(choices) if choices is not None else None,
        "check": check,
        "follows": follows,
        "secret": secret,
    }
    return attrs.field(default=_own(default), metadata=metadata, validator=_in_range)


def _own(default: object) -> Any:
    """Returns a default of which each instance has a copy if it is mutable."""
    return (
        attrs.Factory(partial(deepcopy, default)) if isinstance(default, list | dict) else default
    )


def section(
    cls: type[Section],
    help: str = "",  # noqa: A002 - as in `option`
    **defaults: object,
) -> Any:
    """Declares a nested section whose options are those of `cls`, perhaps with other defaults.

        other: OtherConfig = section(DQNOtherConfig, eps={"start": 0.0}, replay_buffer="advanced")

    Args:
        cls: The config class.
        help: What the section is for, in one line.
        **defaults: Defaults in place of those of `cls`: values of options, dicts for sections,
            names or `{"type": name, **options}` for components. An `option(…)` or `component(…)`
            replaces the help and the range as well.

    Raises:
        TypeError: `cls` has no option of such a name, or of another type.
    """
    cls = with_defaults(cls, defaults) if defaults else cls
    return attrs.field(factory=cls, metadata={"help": help, "section": cls})


def component(
    kind: str,
    default: str | Mapping[str, object] | None = None,
    help: str = "",  # noqa: A002 - as in `option`
    *,
    optional: bool = False,
    named: bool = False,
) -> Any:
    """Declares a slot for one component of `kind`.

    Args:
        kind: The kind's registered name.
        default: The name used when a config names none, or a section
            `{"type": name, **options}`; None uses the default that the installed packages declare
            (entry-point group `dicore.default`).
        help: What the component does here, in one line.
        optional: Leave the slot empty (None) when a config names no component and there is no
            `default`.
        named: The slot also accepts several components by name, each a section of its own:
            `{"agent": {…}, "demo": {…}}`; the slot then holds a `NamedConfig`.
    """
    metadata = {
        "help": help,
        "component": kind,
        "component_default": default,
        "optional": optional,
        "named": named,
    }
    return attrs.field(default=None, metadata=metadata)


def components(kind: str, default: Sequence[object] = (), help: str = "") -> Any:  # noqa: A002
    """Declares a slot for a list of components of `kind`; see `component`."""
    metadata = {"help": help, "components": kind, "component_default": tuple(default)}
    return attrs.field(factory=tuple, metadata=metadata)


def with_defaults(cls: type[Section], defaults: Mapping[str, object]) -> type[Section]:
    """Returns a config class like `cls` with other defaults; see `section`."""
    given = {name: _facts(defaults[name]) for name in sorted(defaults)}
    key = cls, repr(given)
    if key not in _OVERRIDDEN:
        body = {name: _redeclared(cls, name, value) for name, value in defaults.items()}
        body["__annotations__"] = {name: fields_of(cls)[name].hint for name in defaults}
        body["_made_from"] = *vars(cls).get("_made_from", [cls]), dict(defaults)
        body["__reduce_ex__"] = _reduced
        named = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        made = type(cls.__name__, (cls,), {**named, **body})
        _OVERRIDDEN[key] = frozen(kw_only=True)(made)
    return _OVERRIDDEN[key]


_OVERRIDDEN: dict[tuple[object, str], type[Section]] = {}
_Declared: Any = type(attrs.field())


def _facts(value: object) -> object:
    """Returns what tells a default from others."""
    if isinstance(value, dict):
        return {name: _facts(below) for name, below in value.items()}
    return (value._default, value.metadata) if isinstance(value, _Declared) else value  # noqa: SLF001 - attrs has no name for it


def _redeclared(cls: type[Section], name: str, value: Any) -> object:
    """Returns the declaration of an option of `cls` with another default."""
    if name not in fields_of(cls):
        raise TypeError(f"{cls.__name__} has no option '{name}'")
    if isinstance(value, _Declared):
        return value
    old = getattr(attrs.fields(cls), name)
    facts = dict(old.metadata)
    if "section" in facts:
        return section(facts["section"], facts["help"], **value)
    if facts.keys() & _STRUCTURE:
        return attrs.field(default=old.default, metadata={**facts, "component_default": value})
    if value is not REQUIRED:
        value = _default_like(cls, name, value, fields_of(cls)[name].hint)
    facts["follows"] = None
    return attrs.field(default=_own(value), metadata=facts, validator=old.validator)


def _default_like(cls: type[Section], name: str, value: object, hint: object) -> Any:
    """Converts a default to the type of its option."""
    try:
        return convert(value, hint, name)
    except Mismatch as wrong:
        told = ": ".join(wrong.findings[0])
        raise TypeError(f"{cls.__name__} has no such default: {told}") from None


def _reduced(self: Section, protocol: Any) -> object:
    """Pickles by what its class was made from, which no module has; a subclass as others."""
    made_from = vars(type(self)).get("_made_from")
    return (
        (_remade, (dict(self), *made_from)) if made_from else object.__reduce_ex__(self, protocol)
    )


def _remade(values: dict[str, Any], cls: type[Section], *defaults: dict[str, object]) -> Section:
    return reduce(with_defaults, defaults, cls)(**values)


def range_problem(value: Any, metadata: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with a value's range, or None; for compile and construction."""
    if value is None or value is REQUIRED:
        return None
    choices = metadata.get("choices")
    if choices is not None and value not in choices:
        return f"expected one of {', '.join(map(repr, choices))}, got {value!r}"
    is_list = isinstance(value, list | tuple)
    for index, item in enumerate(value if is_list else [value]):
        if isinstance(item, bool) or not isinstance(item, int | float):
            continue
        where = f" at index {index}" if is_list else ""
        if item != item:  # noqa: PLR0124 - only NaN differs from itself
            return f"must be a number, got nan{where}"
        for name, bound in metadata.get("bounds", {}).items():
            sign, holds = BOUNDS[name]
            if not holds(item, bound):
                return f"must be {sign} {bound}, got {item!r}{where}"
    check = metadata.get("check")
    return check(value) if check is not None else None


def _in_range(_: object, attribute: attrs.Attribute[object], value: object) -> None:
    problem = range_problem(value, attribute.metadata)
    if problem:
        raise ValueError(f"'{attribute.name}' {problem}")


@frozen(kw_only=True)
class Section:
    """A part of the compiled config: read-only, by attribute or by item.

    A config class may list in `one_of` which options exclude each other (exactly one of each group
    has to be given), in `implies` the defaults below it that follow from a true option, in
    `requires` by path the only value that an option may have and why (`{"nstep": (1, "learns from
    single steps; set it to 1")}`; None, or another default, lifts what a base requires), and in
    `formerly` the values of
    options that runs lack which are older than these options. It may offer
    `check(self)`, which yields `(path below it, what is wrong)` for values that do not fit
    together, and `mentions(self)`, which yields `(path below it, kind, name)` of components that
    its free-form options name, so that their packages are recorded.
    """

    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {}
    formerly: ClassVar[Mapping[str, object]] = {}

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        for each in attrs.fields(cls):
            hint = _PLAIN.get(str(each.type).removesuffix(" | None"))
            if hint and type(each.default) in _PLAIN.values() and type(each.default) is not hint:
                _default_like(cls, each.name, each.default, hint)

    def __getitem__(self, key: str) -> Any:
        if key.startswith("_") or not hasattr(self, key):
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the option, or `default` if this section has no option of that name."""
        return getattr(self, key) if key in self.keys() else default

    def keys(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in attrs.fields(type(self)))


@frozen(kw_only=True)
class ComponentConfig(Section):
    """The options of one component; `type` is its registered name, filled in by compile."""

    type: str = attrs.field(default="", metadata={"help": "registered name of the component"})

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        if "build" in vars(cls) and "_build" not in vars(cls):
            cls._build = vars(cls)["build"]  # type: ignore[attr-defined] # attrs repairs its super()
            cls.build = annotated(vars(cls)["build"])  # type: ignore[method-assign]

    def build(self, ctx: Any, *_: Any, **parts: Any) -> Any:
        """Imports the heavy code and makes the component.

        Args:
            ctx: What config cannot hold: a `dicore.run.BuildContext`.
            **parts: The components it is made from, by role.
        """
        raise TypeError(f"{type(self).__name__} has no build method")


def annotated(build: Callable[..., object]) -> Callable[..., object]:
    """Wraps a `build` so that its exceptions get a note: component, distribution, version."""

    @wraps(build)
    def build_annotated(self: Any, *args: object, **parts: object) -> object:
        try:
            return build(self, *args, **parts)
        except Exception as error:
            if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
                error.add_note(f"{_NOTE}{_registered_label(self)}")
            raise

    return build_annotated


def _registered_label(config: object) -> str:
    """Returns `policy 'dqn' (dicore-plugins 0.1.0)`; for an unregistered class, its name."""
    from dicore_registry import default

    target = getattr(type(config), "_target", type(config))
    name = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
    try:
        entries = [entry for entry in default().entries() if entry.target == name]
    except Exception:
        entries = []  # the exception of the build matters more
    own_name = getattr(config, "type", "").rpartition("/")[2]
    entries.sort(key=lambda entry: entry.name != own_name)
    return entries[0].label if entries else name.replace(":", ".")


@dataclass(frozen=True, slots=True)
class Field:
    """One option, section or slot of a config class."""

    name: str
    hint: Any
    metadata: Mapping[str, Any]
    declared_by: str
    default: Callable[[], Any]

    @property
    def follows(self) -> str | None:
        """The path whose value this option takes when no source sets it."""
        return self.metadata.get("follows")


def _per_class(read: Callable[[type[Section]], T]) -> Callable[[type[Section]], T]:
    """Caches a function of a config class, which type checkers do not take for hashable."""
    return typing.cast("Callable[[type[Section]], T]", cache(read))


@_per_class
def fields_of(cls: type[Section]) -> Mapping[str, Field]:
    """Returns the options of a config class by name, in order of declaration; cached per class."""
    fields: dict[str, Field] = {}
    for attribute in attrs.fields(cls):
        owner: Any = _declaring_class(cls, attribute.name)
        fields[attribute.name] = Field(
            name=attribute.name,
            hint=_hint_of(owner, attribute.name, bool(attribute.metadata.keys() & _STRUCTURE)),
            metadata=attribute.metadata,
            declared_by=label_of(owner),
            default=_default_of(attribute),
        )
    return MappingProxyType(fields)


@_per_class
def required_by(cls: type[Section]) -> Mapping[str, tuple[object, str]]:
    """Returns by path the only values that options may have, and why; see `Section`."""
    found: dict[str, Any] = {}
    for at, base in reversed([*enumerate(cls.__mro__)]):
        rules = vars(base).get("requires")
        for path, rule in rules.items() if isinstance(rules, Mapping) else ():  # no option's value
            if rule is not None and not (isinstance(rule, tuple) and len(rule) == 2):
                told = f"expected a value and why, or None, got {rule!r}"
                raise UsageError(f"{base.__name__}.requires['{path}']: {told}")
            if not at and _field_at(cls, path) is None:
                raise UsageError(f"{base.__name__}.requires: it has no option '{path}'")
            found[path] = at, rule
    return {
        path: rule
        for path, (at, rule) in found.items()
        if rule is not None and not _is_lifted(cls, path, rule[0], at)
    }


def _is_lifted(cls: type[Section], path: str, wanted: Any, at: int) -> bool:
    """Returns whether a class derived from the `at`-th, which requires, has another default."""
    field, owner = _field_at(cls, path), _declaring_class(cls, path.partition(".")[0])
    if field is None or path.rpartition(".")[2] != field.name:
        return False
    if field.metadata.keys() & _STRUCTURE or cls.__mro__.index(owner) >= at:
        return False
    return bool(field.default() != wanted)


def _field_at(cls: type[Section], path: str) -> Field | None:
    """Returns the option at a path, or the slot on the way to it; None: there is none."""
    field = None
    for key in path.split("."):
        field = fields_of(cls).get(key)
        if field is None or "section" not in field.metadata:
            break
        cls = field.metadata["section"]
    return field


def label_of(cls: type) -> str:
    """Returns the name by which messages call a config class: its own, or its target's."""
    target = getattr(cls, "_target", None)
    return str(getattr(target, "__name__", cls.__name__))


@cache
def _hint_of(owner: type, name: str, is_structure: bool) -> object:
    """Resolves an annotation in the module of its class; cached for classes that inherit it."""
    written = inspect.get_annotations(owner).get(name, Any)
    module = sys.modules.get(owner.__module__)
    try:
        return resolve_hint(written, vars(module) if module else {})
    except NameError as error:
        if is_structure:
            return Any
        where = f"{owner.__module__}.{owner.__qualname__}.{name}"
        raise TypeError(f"{where}: its type {written!r} cannot be resolved: {error}") from None


def resolve_hint(written: object, names: dict[str, object]) -> object:
    """Returns the type that an annotation stands for."""
    holder = type("_", (), {"__annotations__": {"it": written}})
    return typing.get_type_hints(holder, names)["it"]


def _declaring_class(cls: type, name: str) -> type:
    return next((owner for owner in cls.__mro__ if name in inspect.get_annotations(owner)), cls)


def _default_of(attribute: attrs.Attribute[Any]) -> Callable[[], Any]:
    default = attribute.default
    if default is attrs.NOTHING:
        return lambda: REQUIRED
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type] # a class at run time
        return typing.cast("Callable[[], Any]", default.factory)  # type: ignore[union-attr]
    return lambda: default
