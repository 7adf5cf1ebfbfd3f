"""Slots that take one component or several by name: `replay_buffer: {agent: {…}, demo: {…}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from dicore.config.declare import ComponentConfig, Section, component, frozen
from dicore.config.nearest import nearest
from dicore.config.plain import join
from dicore.config.problems import Problems
from dicore.config.slots import Node

__all__ = ["NamedConfig", "by_name", "named_class"]


@frozen(kw_only=True)
class NamedConfig(Section):
    """Components of one kind by name; reads like any section (`replay_buffer.demo`)."""

    def build(self, ctx: Any, **parts: Any) -> dict[str, Any]:
        """Builds each of them.

        Args:
            ctx: As for a single component.
            **parts: As for a single component.

        Returns:
            The components by name.
        """
        return {name: getattr(self, name).build(ctx, **parts) for name in self.keys()}

    def __reduce__(self) -> tuple[Any, ...]:
        kind = _KINDS[type(self)]
        return _rebuild, (kind, tuple((name, getattr(self, name)) for name in self.keys()))


_KINDS: dict[type, str] = {}
_RESERVED = frozenset(dir(NamedConfig)) | {"type", "check", "bind", "import_names", "cfg_type"}


@cache
def named_class(kind: str, names: tuple[str, ...]) -> type[NamedConfig]:
    """Returns the section class of components by these names.

    Args:
        kind: What they are.
        names: Their names, in order.
    """
    namespace: dict[str, Any] = {
        "__annotations__": dict.fromkeys(names, ComponentConfig),
        "__doc__": f"The {kind}s {', '.join(names)}.",
        "__module__": __name__,
        **{name: component(kind) for name in names},
    }
    made: type[NamedConfig] = frozen(kw_only=True)(type("NamedConfig", (NamedConfig,), namespace))
    _KINDS[made] = kind
    return made


def _rebuild(kind: str, values: tuple[tuple[str, Any], ...]) -> NamedConfig:
    return named_class(kind, tuple(name for name, _ in values))(**dict(values))


def by_name(
    nodes: Sequence[Node],
    path: str,
    problems: Problems,
    options: Callable[[Sequence[Node]], Sequence[str]],
    is_component: Callable[[str], bool],
) -> tuple[list[Node], dict[str, list[Node]]]:
    """Finds out whether the layers speak of one component or of several by name.

    Args:
        nodes: What they say, lowest first, a bare name written as `{"type": name}`.
        path: Of the slot.
        problems: Takes what cannot be meant.
        options: Names the options of the one component that some layers choose.
        is_component: Says whether a text names a component.

    Returns:
        What the layers say of the one component, and what they say of each name; where there are
        names, they are meant.
    """
    single: list[Node] = []
    named: dict[str, list[Node]] = {}
    for node in nodes:
        value = node.value
        if not value:
            continue
        if "type" in value:
            single, named = ([] if named else single) + [node], {}
        elif _holds_names(value, is_component) and not _are_options(value, single, options):
            _add(named, node, path, problems)
        elif named:
            key = next(iter(value))
            said = f"of which of {', '.join(named)}? Write {join(path, next(iter(named)))}.{key}"
            problems.add(join(path, key), said, node.layer)
        else:
            single.append(node)
    return single, named


def _add(named: dict[str, list[Node]], node: Node, path: str, problems: Problems) -> None:
    known = list(named)
    for name, value in node.value.items():
        at = join(path, name)
        is_new = known and name not in named and not _says_type(value)
        close = nearest(name, known, ()) if is_new else None
        if name in _RESERVED or name.startswith("_"):
            problems.add(at, f"'{name}' cannot be the name of a component", node.layer)
        elif close:
            problems.add(at, f"there is {', '.join(known)}; did you mean '{close}'?", node.layer)
        elif value is None:
            named.pop(name, None)
        else:
            named.setdefault(name, []).append(replace(node, value=value))


def _says_type(value: Any) -> bool:
    return isinstance(value, str | type) or (isinstance(value, Mapping) and "type" in value)


def _holds_names(value: Mapping[Any, Any], is_component: Callable[[str], bool]) -> bool:
    return all(
        isinstance(name, str)
        and name.isidentifier()
        and (
            item is None
            or isinstance(item, Mapping | Section | type)
            or (isinstance(item, str) and is_component(item))
        )
        for name, item in value.items()
    )


def _are_options(
    value: Mapping[str, Any],
    single: Sequence[Node],
    options: Callable[[Sequence[Node]], Sequence[str]],
) -> bool:
    """Says whether a mapping of mappings is rather a section of one component, maybe misspelt."""
    known = options(single)
    return any(nearest(name, known, ()) for name in value)
