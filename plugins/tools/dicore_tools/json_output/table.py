"""Finds the output of a command: in this table, else `JSON_OUTPUT` of the command's module.

`JSON_OUTPUT` is a type that `dicore_tools.json_output.schema` describes; so a command of another
package declares its output without importing this one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import click

from dicore.errors import UsageError
from dicore_tools.json_output import components, runs, written

__all__ = ["OUTPUTS", "commands", "has_json", "output_of"]

_Config = Annotated[dict[str, object], "a config file: see dicore config schema"]
OUTPUTS: Final[Mapping[str, object]] = {
    "benchmark": list[runs.ListedRow] | list[runs.MeasuredRow],
    "board": written.Served,
    "check": components.Checks,
    "collect": written.Collected,
    "config check": list[components.CheckedConfig],
    "config diff": components.Differences,
    "config show": _Config
    | Annotated[dict[str, components.OptionValue], "with --origin: by key path"],
    "diagnose": runs.Diagnosis,
    "doctor": components.Problems,
    "enjoy": list[runs.PlayedEpisodes],
    "eval": runs.Evaluation | runs.Battle | runs.OfflineEvaluation,
    "export": list[runs.Exported],
    "hub list": list[components.HubCard],
    "hub pull": written.Pulled,
    "hub push": written.Pushed,
    "import-weights": runs.ImportedWeights,
    "index": written.WrittenIndex,
    "list": list[components.Component],
    "new plugin": written.NewPackage,
    "plan": runs.PlanOfTraining,
    "plot": written.Plotted,
    "replay": runs.Replayed,
    "report": list[runs.RunReport],
    "search": list[components.Package],
    "selftest": components.SelftestCase,
    "session module": list[written.MadeRun],
    "session new": written.MadeRun,
    "show": components.ComponentFacts,
    "status": runs.SerialStatus | runs.ParallelStatus,
    "train": written.Trained | list[written.Trained],
    "tune": runs.Study,
    "verify": runs.Verdict | runs.Certificate,
    "watch": written.Served,
}
"""Type of the output of each command."""


def output_of(name: str, command: click.Command) -> object:
    """Returns the type of what a command prints with `--json`.

    Args:
        name: The command with its groups: `config diff`.
        command: The command.

    Raises:
        UsageError: it has no `--json`, or does not declare what it prints.
    """
    if not has_json(command):
        raise UsageError(f"dicore {name} has no --json", hint="dicore schema lists those that do")
    if name in OUTPUTS:
        return OUTPUTS[name]
    module = sys.modules.get(getattr(command.callback, "__module__", ""))
    found: object = getattr(module, "JSON_OUTPUT", None)
    if found is None:
        raise UsageError(
            f"dicore {name} does not declare what it prints",
            hint="its module needs JSON_OUTPUT, a TypedDict class",
        )
    return found


def has_json(command: click.Command) -> bool:
    """Returns whether a command has the option `--json`."""
    return any("--json" in each.opts for each in command.params)


def commands(root: click.Group, words: Sequence[str] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yields name and command of each command below a group, groups left out.

    Args:
        root: The group.
        words: Only the command that these words begin with; the words after it are ignored.
    """
    context = click.Context(root)
    first = [words[0]] if words else root.list_commands(context)
    for name in first:
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", each) for below, each in commands(command, words[1:]))
        elif command is not None:
            yield name, command
