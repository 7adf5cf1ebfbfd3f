"""How options are declared: attrs classes whose fields carry their help, range and unit.

A config class is light: it imports attrs and nothing heavy; its `build` imports the rest.

    @frozen(kw_only=True)
    class NaiveConfig(ComponentConfig):
        '''First-in first-out ring, sampled uniformly.'''

        replay_buffer_size: int = option(10_000, "rows kept before the oldest goes", ge=1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, Final

import attrs
from attrs import frozen

from dicore.config.blame import blaming

__all__ = [
    "REQUIRED",
    "ComponentConfig",
    "Section",
    "component",
    "components",
    "frozen",
    "option",
    "section",
]


class _Required:
    """The default of an option that somebody has to give: class, preset, env spec or user."""

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
    choices: Sequence[Any] | None = None,
    unit: str = "",
    check: Callable[[Any], str | None] | None = None,
    follows: str | None = None,
    secret: bool | None = None,
) -> Any:
    """Declares an option: its default, meaning, range and unit.

    Args:
        default: The value when nobody gives one; `REQUIRED` if somebody must. Mutable defaults
            (list, dict) are copied per instance.
        help: What it means, in one line.
        ge: Smallest value allowed; also for each item of a list.
        gt: Bound that the value must exceed.
        le: Largest value allowed.
        lt: Bound that the value must stay below.
        choices: All values allowed.
        unit: Unit of the value (`s`, `env steps`).
        check: Returns what is wrong with a value, or None.
        follows: Path of the option of the whole config (`env.stop_value`) whose value this one
            takes where nobody gives it.
        secret: Keep its texts out of files and messages; None decides by the option's name (see
            `dicore.config.secrets`).

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
    if isinstance(default, list | dict):
        fresh = partial(deepcopy, default)
        return attrs.field(factory=fresh, metadata=metadata, validator=_in_range)
    return attrs.field(default=default, metadata=metadata, validator=_in_range)


def section(cls: type[Section], help: str = "") -> Any:  # noqa: A002 - as in `option`
    """Declares a nested section whose options are those of `cls`."""
    return attrs.field(factory=cls, metadata={"help": help, "section": cls})


def component(
    kind: str,
    default: str | Mapping[str, Any] | None = None,
    help: str = "",  # noqa: A002 - as in `option`
    *,
    optional: bool = False,
    named: bool = False,
) -> Any:
    """Declares a slot for one component of `kind`.

    Args:
        kind: The kind's registered name.
        default: The name used when a config is silent, or a node `{"type": name, **options}`;
            None asks the installed packages (entry-point group `dicore.default`).
        help: What the component does here, in one line.
        optional: Leave the slot empty (None) when a config is silent and there is no `default`.
        named: Several components by name may stand in the slot instead of one, each a node of its
            own: `{"agent": {…}, "demo": {…}}`; the section is a `NamedConfig` then.
    """
    metadata = {
        "help": help,
        "component": kind,
        "component_default": default,
        "optional": optional,
        "named": named,
    }
    return attrs.field(default=None, metadata=metadata)


def components(kind: str, default: Sequence[Any] = (), help: str = "") -> Any:  # noqa: A002
    """Declares a slot for a list of components of `kind`; see `component`."""
    return attrs.field(
        factory=tuple,
        metadata={"help": help, "components": kind, "component_default": tuple(default)},
    )


def range_problem(value: Any, metadata: Any) -> str | None:
    """Says what is wrong with a value's range, or None; shared by compile and construction."""
    if value is None or value is REQUIRED:
        return None
    choices = metadata.get("choices")
    if choices is not None and value not in choices:
        wanted = ", ".join(repr(choice) for choice in choices)
        return f"expected one of {wanted}, got {value!r}"
    several = isinstance(value, list | tuple)
    for index, item in enumerate(value if several else [value]):
        if isinstance(item, bool) or not isinstance(item, int | float):
            continue
        where = f" at index {index}" if several else ""
        if item != item:  # noqa: PLR0124 - only NaN differs from itself
            return f"must be a number, got nan{where}"
        for name, bound in metadata.get("bounds", {}).items():
            if not _HOLDS[name](item, bound):
                return f"must be {_SIGN[name]} {bound}, got {item!r}{where}"
    check = metadata.get("check")
    return check(value) if check is not None else None


_SIGN = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "ge": lambda value, bound: value >= bound,
    "gt": lambda value, bound: value > bound,
    "le": lambda value, bound: value <= bound,
    "lt": lambda value, bound: value < bound,
}


def _in_range(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    problem = range_problem(value, attribute.metadata)
    if problem:
        raise ValueError(f"'{attribute.name}' {problem}")


@frozen(kw_only=True)
class Section:
    """A part of the compiled config: read-only, by attribute or by item.

    A config class may say in `one_of` which options exclude each other (exactly one of each group
    has to be given). It may offer `check(self)`, which yields `(path below it, what is wrong)` for
    values that do not go together, and `mentions(self)`, which yields `(path below it, kind, name)`
    of components that its free-form options name: who supplied them is recorded, too.
    """

    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __getitem__(self, key: str) -> Any:
        if key.startswith("_") or not hasattr(self, key):
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the option, or `default` where this section has none of that name."""
        return getattr(self, key) if key in self.keys() else default

    def keys(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in attrs.fields(type(self)))


@frozen(kw_only=True)
class ComponentConfig(Section):
    """The options of one component; `type` is its registered name, filled in by compile."""

    type: str = attrs.field(default="", metadata={"help": "registered name of the component"})

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "build" in vars(cls):
            cls.build = blaming(vars(cls)["build"], cls)  # type: ignore[method-assign] # wrapped in place

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Imports the heavy code and makes the component.

        Args:
            ctx: What config cannot hold: a `dicore.run.BuildContext`.
            **parts: The components it is made from, by role.
        """
        raise TypeError(f"{type(self).__name__} does not say how to build its component")
