"""The command group; its commands are entry points of installed packages (`dicore.command`).

A command's module is imported when the command runs; for `dicore --help`, the first docstring line
is read from its source file.
"""

from __future__ import annotations

import gc
from itertools import takewhile

import click

import dicore
import dicore_registry
from dicore.errors import (
    DicoreError,
    MissingPackageError,
    PluginHookError,
    PluginLoadError,
    UnknownComponentError,
)
from dicore_registry.explain import brief
from dicore_registry.installing import comes_with
from dicore_registry.known import known

_EPILOG = """\b
Examples:
  dicore list policy
  dicore show policy/dqn
  dicore train -e cartpole -p dqn -s 0 policy.learn.batch_size=128
  dicore -m serial -e cartpole -p dqn -s 0      (`train` is the default command)
\b
Options of every command:
  --plugin FILE      import FILE first; it may register components
  --no-plugins       ignore third-party packages
  --names-only       reject configs that refer to code by path instead of by name
  --strict-plugins   treat warnings about plugins as errors
  --debug            show the traceback of an error
  --json --schema    print the JSON Schema of what --json prints
"""


class Commands(click.Group):
    """A group whose commands are components of kind `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [
            _spelling(e) for e in dicore_registry.default().entries("command") if e.status == "ok"
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        try:
            resolved = dicore_registry.default().resolve("command", cmd_name)
        except UnknownComponentError:
            if (command := _command_of_plugins(cmd_name)) is not None:
                return command
            if (dist := known("command").get(cmd_name.lower())) is None:
                raise
            raise MissingPackageError(comes_with(cmd_name, dist)) from None
        if not isinstance(resolved.target, click.Command):
            label = resolved.entry.label if resolved.entry else cmd_name
            raise PluginLoadError(f"{label} is not a click command")
        return resolved.target

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if {"--json", "--schema"} <= {*args}:  # asks what the command prints
            args = ["schema", *takewhile(lambda word: not word.startswith("-"), args)]
        return args[0], self.get_command(ctx, args[0]), args[1:]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (DicoreError, OSError, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            name = ctx.invoked_subcommand or ""
            dists = {_spelling(e): e.dist for e in dicore_registry.default().entries("command")}
            if dists.get(name, "") in ("dicore", known("command").get(name)):
                raise
            text = f"command '{name}' of {dists.get(name, 'a plugin')} raised {brief(error)}"
            raise PluginHookError(text, hint="--debug shows the traceback") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        registry = dicore_registry.default()
        entries = [entry for entry in registry.entries("command") if entry.status == "ok"]
        with formatter.section("Commands"):
            formatter.write_dl([(_spelling(entry), registry.summary(entry)) for entry in entries])
        gc.freeze()  # the process ends soon: skip the garbage collection


def _command_of_plugins(cmd_name: str) -> click.Command | None:
    """Returns a command that a plugin adds by the hook `dicore_add_commands`."""
    from dicore.hookspecs.manager import load_plugins

    group = click.Group()
    load_plugins().call("dicore_add_commands", group=group)
    return group.commands.get(cmd_name)


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
    """A modular reinforcement-learning framework: choose every component by name."""
