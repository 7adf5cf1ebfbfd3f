"""`dicore catalogue`: a Markdown page of the installed components with their options."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

import dicore_registry
from dicore.cli.list import known_dist
from dicore.cli.options import leaves, options_of
from dicore.config import config_class
from dicore.errors import ConfigError, RegistryError
from dicore_registry import Entry, Registry, Removed, Renamed, explain
from dicore_tools.commands.output import write_output

__all__ = ["command", "page"]

_EPILOG = """\b
Examples:
  dicore catalogue --out components.md
  dicore catalogue policy env --out components.md
  dicore catalogue --dist acme-rl
"""


@click.command(name="catalogue", epilog=_EPILOG)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--dist", metavar="NAME", help="Only components of this package.")
@click.option("--out", metavar="FILE", help="Output file.  [default: standard output]")
def command(kinds: Sequence[str], dist: str | None, out: str | None) -> None:
    """Writes a Markdown reference of the installed components and their options."""
    registry = dicore_registry.default()
    chosen = [dicore_registry.canonical(kind) for kind in kinds] or sorted(registry.kinds())
    for kind in chosen:
        if kind not in registry.kinds():
            raise explain.unknown_kind(kind, registry.kinds(), "")
    if dist is not None:
        dist = known_dist(registry, dist)
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        text = page(registry, chosen, dist)
    write_output(text, out, f": {text.count(chr(10) + '### ')} components")


def page(registry: Registry, kinds: Sequence[str], dist: str | None = None) -> str:
    """Returns the page: a chapter per kind, a section with a table of options per component.

    Args:
        registry: The components; they are imported.
        kinds: Names of kinds, in the order of the chapters.
        dist: Only components of this package; None: all.
    """
    wanted = None if dist is None else dicore_registry.dist_name(dist)
    lines = ["# Components", ""]
    for kind in kinds:
        entries = [e for e in registry.entries(kind) if wanted in (None, e.dist)]
        if not entries:
            continue
        facts = registry.kinds()[kind]
        lines += [f"## {kind}", "", f"{facts.summary[:1].upper()}{facts.summary[1:]}."]
        items = [("Section", facts.section), ("Contract", facts.contract), ("Suite", facts.suite)]
        lines += ["", *(f"- {title}: `{value}`" for title, value in items if value), ""]
        for entry in entries:
            lines += _section(registry, entry)
    return "\n".join(lines).rstrip() + "\n"


def _section(registry: Registry, entry: Entry) -> Iterator[str]:
    yield from (f"### {entry.kind}/{entry.name}", "")
    yield from (f"{entry.provider}, `{entry.target}`", "")
    entry = registry.judged(entry)
    if entry.status != "ok":
        yield from (f"**{entry.status}**: {entry.reason}", "")
    try:
        target = registry.load(entry)
    except RegistryError as error:
        if entry.status == "ok":
            yield from (f"**broken**: {error.message}", "")
        yield from filter(None, (registry.summary(entry),))
        yield ""
        return
    yield from _described(registry, entry, target)


def _described(registry: Registry, entry: Entry, target: Any) -> Iterator[str]:
    if isinstance(target, Renamed | Removed):
        return
    if isinstance(target, click.Command):
        yield from (inspect.cleandoc(target.help or ""), "")
        yield from _table(("option", "default", "meaning"), _flags(target), (0,))
        return
    if isinstance(target, Mapping):
        yield from (registry.summary(entry), "")
        yield from _table(
            ("key", "value"), [(key, repr(value)) for key, value in leaves(target)], (0, 1)
        )
        return
    yield from (inspect.getdoc(target) or registry.summary(entry), "")
    try:
        options = options_of(config_class(target, entry.kind), registry)
    except (ConfigError, TypeError) as error:
        yield from (f"**broken**: {error}", "")
        return
    rows = [
        (
            option.name,
            option.type,
            "required" if option.required else repr(option.default),
            " or ".join(map(repr, option.choices)) or option.range,
            option.help + (f" [{option.unit}]" if option.unit else ""),
        )
        for option in options
    ]
    yield from _table(("option", "type", "default", "range", "meaning"), rows, (0, 1, 2, 3))


def _flags(command: click.Command) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in command.params:
        if isinstance(each, click.Option):
            given = each.to_info_dict()["default"]  # None also for click's mark of an unset default
            default = "" if given in (None, False) else str(given)
            rows.append((", ".join(each.opts), default, each.help or ""))
    return rows


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], code: Sequence[int]
) -> Iterator[str]:
    if not rows:
        return
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows:
        cells = [_cell(text, code=index in code) for index, text in enumerate(row)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _cell(text: str, *, code: bool) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text}`" if code and text else text
