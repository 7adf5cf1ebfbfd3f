"""`dicore show`: one component with its options, package and source file."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

import dicore_registry
from dicore.errors import ConfigError, PluginConflictError, RegistryError, UnknownComponentError
from dicore_registry import Entry, Kind, Registry, Removed, Renamed, nearest

if TYPE_CHECKING:
    from dicore.cli.options import Option

_EPILOG = """\b
Examples:
  dicore show policy/dqn
  dicore show policy/dicore-plugins/dqn     the component of this package
  dicore show preset/cartpole_dqn           the config of a preset
  dicore show buffer/naive --json
"""


@dataclass
class _Facts:
    """What `dicore show` prints of a component."""

    entry: Entry
    status: str
    reason: str
    doc: str = ""
    file: str = ""
    line: int = 0
    section: str = ""
    prefix: str = ""
    options: list[Option] = field(default_factory=list)
    tree: Any = None


@click.command(name="show", epilog=_EPILOG)
@click.argument("component", metavar="KIND/NAME")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(component: str, as_json: bool) -> None:
    """Shows one component: options with types and defaults, package and source file."""
    registry = dicore_registry.default()
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        facts = _gather(registry, _entry(registry, component))
    if as_json:
        _write_json(registry, facts)
    else:
        _write_text(facts)


def _entry(registry: Registry, component: str) -> Entry:
    """Finds a component by `kind/name`, `kind/dist/name`, or a name that only one kind has."""
    kind, slash, name = component.partition("/")
    if not slash:
        kind, name = _only_kind(registry, kind), kind
    try:
        return registry.find(kind, name)
    except (UnknownComponentError, PluginConflictError):
        raise
    except RegistryError:
        provider, _, bare = name.rpartition("/")
        key = dicore_registry.canonical(bare)
        matches = [entry for entry in registry.entries(kind) if entry.name == key]
        if provider:
            dist = dicore_registry.dist_name(provider)
            matches = [entry for entry in matches if entry.dist == dist]
        if not matches:
            raise
        return matches[0]  # it cannot be used; the output has the reason


def _only_kind(registry: Registry, name: str) -> str:
    key = dicore_registry.canonical(name)
    entries = registry.entries()
    kinds = sorted({entry.kind for entry in entries if entry.name == key})
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        choices = ", ".join(f"'{kind}/{key}'" for kind in kinds)
        raise UnknownComponentError(f"'{name}' exists in {len(kinds)} kinds; use one of: {choices}")
    close = nearest(key, {entry.name for entry in entries})
    hint = f"; did you mean '{close}'?" if close else " (dicore list)"
    raise UnknownComponentError(f"no component named '{name}'{hint}")


def _gather(registry: Registry, entry: Entry) -> _Facts:
    facts = _Facts(entry, entry.status, entry.reason)
    place = registry.place(entry)
    if place is not None:
        facts.file, facts.line, facts.doc = place.file, place.line, place.doc
    try:
        target = registry.load(entry)
    except RegistryError as error:
        if entry.status in ("ok", "conflict", "shadowed"):
            facts.status, facts.reason = "broken", error.message
        return facts
    _describe(registry, facts, target)
    return facts


def _describe(registry: Registry, facts: _Facts, target: Any) -> None:
    kind = facts.entry.kind
    if isinstance(target, Renamed | Removed):
        facts.status, facts.reason = "deprecated", target.reason
    elif isinstance(target, click.Command):
        facts.doc = inspect.cleandoc(target.help or "")
    elif isinstance(target, Kind):
        facts.tree = target._asdict()
    elif isinstance(target, Mapping):
        facts.tree = dict(target)
    else:
        facts.doc = inspect.getdoc(target) or facts.doc
        facts.section = registry.kinds()[kind].section if kind in registry.kinds() else ""
        _list_options(registry, facts, target)


def _list_options(registry: Registry, facts: _Facts, target: Any) -> None:
    from dicore.cli.options import options_of, section_prefix
    from dicore.config.signature import config_class

    try:
        facts.options = options_of(config_class(target, facts.entry.kind), registry)
    except (ConfigError, TypeError) as error:
        message = error.message if isinstance(error, ConfigError) else str(error)
        facts.status, facts.reason = "broken", message
    facts.prefix = section_prefix(facts.section)


def _write_json(registry: Registry, facts: _Facts) -> None:
    import json

    from dicore.cli.options import jsonable

    entry = facts.entry
    item = {
        "kind": entry.kind,
        "name": entry.name,
        "qualified": entry.qualified,
        "status": facts.status,
        "reason": facts.reason,
        "dist": entry.dist,
        "version": entry.version,
        "summary": registry.summary(entry),
        "target": entry.target,
        "file": facts.file,
        "line": facts.line,
        "doc": facts.doc,
        "section": facts.section,
        "options": [option.as_json(facts.prefix) for option in facts.options],
        "tree": jsonable(facts.tree),
    }
    sys.stdout.write(json.dumps(item, indent=1) + "\n")


def _write_text(facts: _Facts) -> None:
    entry = facts.entry
    reason = f": {facts.reason}" if facts.reason else ""
    place = f"{facts.file}:{facts.line}" if facts.file else "not found"
    rows = [
        ("status", f"{facts.status}{reason}"),
        ("provider", entry.provider),
        ("qualified", entry.qualified),
        ("target", entry.target),
        ("file", place),
        ("section", facts.section),
    ]
    lines = [f"{entry.kind}/{entry.name}", "", *([facts.doc, ""] if facts.doc else [])]
    lines += [f"{name:<10} {value}" for name, value in rows if value]
    sys.stdout.write("\n".join(lines) + "\n")
    if facts.options:
        _write_options(facts.options, facts.prefix)
    if facts.tree is not None:
        sys.stdout.write("\n")
        from dicore.cli.options import leaves

        for path, value in leaves(facts.tree):
            sys.stdout.write(f"{path} = {value!r}\n")


def _write_options(options: Sequence[Option], prefix: str) -> None:
    from dicore.console import write_table

    sys.stdout.write("\n")
    write_table(
        ("OPTION", "TYPE", "DEFAULT", "RANGE", "HELP"),
        [
            (
                prefix + option.name,
                option.type,
                "required" if option.required else _brief(option.default),
                " | ".join(map(repr, option.choices)) or option.range,
                option.help + (f" [{option.unit}]" if option.unit else ""),
            )
            for option in options
        ],
    )


def _brief(value: Any) -> str:
    """Formats a default; a component without options as its name."""
    if isinstance(value, Mapping) and set(value) == {"type"}:
        return str(value["type"])
    return value if isinstance(value, str) and value else repr(value)
