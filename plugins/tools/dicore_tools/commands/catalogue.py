"""`dicore catalogue`: a Markdown page of the installed components with their options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

import click

import dicore_registry
from dicore.cli.show import describe, leaves, option_row
from dicore.errors import RegistryError
from dicore_registry import Entry, Registry, explain
from dicore_registry.entry_status import RESERVED
from dicore_registry.queries import provided
from dicore_tools.commands.output import write_output
from dicore_tools.levels import level, reason
from dicore_tools.output_place import check_place

__all__ = ["command", "page"]

_EPILOG = """\b
Examples:
  dicore catalogue --out components.md
  dicore catalogue policy env --out components.md
  dicore catalogue --package acme-rl
"""


@click.command(name="catalogue", epilog=_EPILOG)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option(
    "--package", "--dist", "dist", metavar="NAME", help="Only components of this package."
)
@click.option("--out", metavar="FILE", help="Output file.  [default: standard output]")
def command(kinds: Sequence[str], dist: str | None, out: str | None) -> None:
    """Writes a Markdown reference of the installed components and their options."""
    if out is not None:
        check_place(out, option="--out", devices=True)
    registry = dicore_registry.default()
    known = sorted(registry.kinds())
    if kinds or dist is not None:
        known += [kind for kind in RESERVED if kind != "default"]
    chosen = [dicore_registry.canonical(kind) for kind in kinds] or known
    for kind in chosen:
        if kind not in known:
            raise explain.unknown_kind(kind, known, "")
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
    lines = ["# Components", ""]
    declared = None if dist is None else provided(registry, dist)
    for kind in kinds:
        entries = registry.entries(kind) if declared is None else declared
        entries = [entry for entry in entries if entry.kind == kind]
        if not entries:
            continue
        lines += [f"## {kind}", ""]
        with contextlib.suppress(KeyError, RegistryError):  # the sections name a broken kind
            facts = registry.kinds()[kind]
            items = [
                ("Section", facts.section), ("Contract", facts.contract), ("Suite", facts.suite)
            ]  # fmt: skip
            lines += [f"{facts.summary[:1].upper()}{facts.summary[1:]}.", ""]
            lines += [*(f"- {title}: `{value}`" for title, value in items if value), ""]
        for entry in entries:
            lines += _section(registry, entry)
    return "\n".join(lines).rstrip() + "\n"


def _section(registry: Registry, entry: Entry) -> Iterator[str]:
    facts = describe(registry, entry)
    yield from (f"### {entry.kind}/{entry.name}", "")
    yield from (f"{entry.provider}, `{entry.target}`", "")
    if facts["status"] != "ok":
        yield from (f"**{facts['status']}**: {facts['reason']}", "")
    name = f"{entry.kind}/{entry.name}"
    if entry.dist.startswith("dicore") and (promised := level(name)) != "stable":
        yield from (f"**{promised}**: {reason(name)}", "")
    if facts["doc"]:
        yield from (facts["doc"], "")
    if facts["tree"] is not None:
        rows = [(key, repr(value)) for key, value in leaves(facts["tree"])]
        yield from _table(("key", "value"), rows, (0, 1))
    rows = [(option["name"], *option_row(option)[1:]) for option in facts["options"]]
    yield from _table(("option", "type", "default", "range", "meaning"), rows, (0, 1, 2, 3))
    if entry.kind == "command" and facts["status"] != "broken":
        target = registry.load(entry)
        if isinstance(target, click.Command):
            yield from _table(("option", "default", "meaning"), _flags(target), (0,))


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
