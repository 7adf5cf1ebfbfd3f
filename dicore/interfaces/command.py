"""The command role: a click command that a package adds to the `dicore` command line."""

from __future__ import annotations

from dicore_registry import Kind

KIND = Kind(
    name="command",
    summary="adds a subcommand to the command line: `dicore NAME`",
    contract="click:Command",
    use="dicore {spelling}",
)
