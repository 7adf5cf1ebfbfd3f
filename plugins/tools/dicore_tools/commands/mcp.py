"""`dicore mcp`: answers programs that speak the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from dicore.errors import MissingDependencyError

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore mcp                                   answers on standard input and output
  dicore mcp --root experiments --write        may also train, in experiments/runs
\b
In the settings of a client:
  {"mcpServers": {"dicore": {"command": "dicore", "args": ["mcp", "--root", "/path/to/work"]}}}

Tools: list, show, check, status, report, diagnose; with --write also train, and stop for what it
started. Paths lead below the root only. Configs are read as text and may name registered components
only: nothing of the root is executed. Trainings end with the server; they are saved. Needs: pip
install 'dicore-tools[mcp]'
"""


@click.command(name="mcp", epilog=_EPILOG)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder below which runs and configs are.  [default: the working directory]",
)
@click.option("--write", is_flag=True, help="May also start trainings, and stop those.")
def command(root: Path, *, write: bool) -> None:
    """Answers AI assistants and other clients of the Model Context Protocol (MCP)."""
    if find_spec("mcp") is None:
        raise MissingDependencyError(
            "dicore mcp needs the package mcp", hint="pip install 'dicore-tools[mcp]'"
        )
    from dicore_tools.mcp.server import serve

    serve(root, write=write)
