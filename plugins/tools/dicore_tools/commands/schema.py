"""`dicore schema`: JSON Schema of what a command prints with `--json`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence

import click

from dicore.console import write_table
from dicore.errors import UnknownComponentError, UsageError

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore schema                            commands with --json
  dicore schema list                       what `dicore list --json` prints
  dicore list --json --schema              the same
  dicore schema config diff -o diff.json

Outputs follow their schema; members may be added, so accept those that you do not know. A command
of another package declares its output as JSON_OUTPUT, a TypedDict class, in its module. The schema
of configs is dicore config schema.
"""


@click.command(name="schema", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("-o", "--out", metavar="FILE", help="Output file.  [default: standard output]")
def command(words: Sequence[str], out: str | None) -> None:
    """Prints the JSON Schema of what a command prints with --json."""
    from dicore.cli.group import group
    from dicore_tools.commands.output import write_output
    from dicore_tools.json_output.schema import json_schema
    from dicore_tools.json_output.table import commands, has_json, output_of

    try:
        with contextlib.redirect_stdout(sys.stderr):  # imports may print
            found = [*commands(group, words)]
    except UnknownComponentError as error:
        error.hint = error.hint or "dicore schema lists the commands with --json"
        raise
    if not words:
        rows = [(f"dicore {name}", each.get_short_help_str(limit=200)) for name, each in found
                if has_json(each)]  # fmt: skip
        write_table(("command", "summary"), rows)
        return
    if len(found) != 1:
        names = [name for name, _ in found]
        raise UsageError(f"dicore {words[0]} is a group", hint=f"one of {', '.join(names)}")
    name, each = found[0]
    schema = {"title": f"dicore {name} --json", **json_schema(output_of(name, each))}
    write_output(json.dumps(schema, indent=1) + "\n", out)
