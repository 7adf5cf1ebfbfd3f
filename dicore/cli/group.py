"""The commands, found in the metadata of installed packages (group `dicore.command`).

A command's module is imported when it is invoked; for `dicore --help` its first docstring line is
read off its file.
"""

from __future__ import annotations

import gc

import click

import dicore
import dicore_registry
from dicore.errors import PluginLoadError

_EPILOG = """\b
Examples:
  dicore list policy
  dicore show policy/dqn
  dicore train -e cartpole -p dqn -s 0 policy.learn.batch_size=128
  dicore -m serial -e cartpole -p dqn -s 0      (a leading option means train)
"""


class Commands(click.Group):
    """A group whose commands are components of kind `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        entries = dicore_registry.default().entries("command")
        return [_spelling(entry) for entry in entries if entry.status == "ok"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        resolved = dicore_registry.default().resolve("command", cmd_name)
        if not isinstance(resolved.target, click.Command):
            label = resolved.entry.label if resolved.entry else cmd_name
            raise PluginLoadError(f"{label} is no click command")
        return resolved.target

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return args[0], self.get_command(ctx, args[0]), args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        registry = dicore_registry.default()
        entries = [entry for entry in registry.entries("command") if entry.status == "ok"]
        with formatter.section("Commands"):
            formatter.write_dl([(_spelling(entry), registry.summary(entry)) for entry in entries])
        gc.freeze()  # the process ends here: searching it for cycles would take its time


def _spelling(entry: dicore_registry.Entry) -> str:
    return entry.name.replace("_", "-")


@click.command(
    cls=Commands,
    name="dicore",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(dicore.__version__, message="dicore %(version)s")
def group() -> None:
    """Reinforcement learning assembled by name.

    --debug, anywhere, shows the traceback of an error.
    """
