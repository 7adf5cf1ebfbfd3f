"""Candidates for shell completion by the words before: subcommands, values of options, runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import click

import dicore_registry
from dicore.errors import DicoreError
from dicore_tools.commands.completion_words import config_words

__all__ = ["line_words", "option_names"]

_KINDS = {"env": "env", "policy": "policy", "mode": "pipeline"}
"""Kinds of component that options of these names take."""
_MOST = 200
"""Entries of a folder, of those that begin as typed, that are looked at."""


def line_words(prefix: str, line: Sequence[str], root: click.Context) -> list[str]:
    """Returns the candidates for the last word of a command line.

    Args:
        prefix: The typed part of the last word.
        line: The words before it, without the program's name. A shell may split words at `=`.
        root: Context of the program's command group.
    """
    found = _walked(line, root)
    if found is None:
        return []
    command, context, rest = found
    if isinstance(command, click.Group):
        return _starting(sorted(command.list_commands(context)), prefix)
    option = _open_option(command, rest)
    if option is not None:
        return _starting(_values(option, "" if prefix == "=" else prefix, rest), prefix.lstrip("="))
    return [*config_words(prefix, line, root), *_arguments(command, prefix, rest)]


def option_names(line: Sequence[str], root: click.Context) -> list[str]:
    """Returns the long options of the command, or subcommand, that a line names."""
    found = _walked(line, root)
    if found is None:
        return []
    options = [each for each in found[0].params if isinstance(each, click.Option)]
    names = [word for each in options if not each.hidden for word in each.opts]
    return [word for word in names if word.startswith("--")] + ["--help"]


def _walked(
    line: Sequence[str], root: click.Context
) -> tuple[click.Command, click.Context, list[str]] | None:
    """Returns the command of a line, its context, and the words behind its name."""
    words = ["train", *line] if not line or line[0].startswith("-") else [*line]
    command, context = root.command, root
    while isinstance(command, click.Group) and words:
        try:
            chosen = command.get_command(context, words[0])
        except DicoreError:
            return None
        if chosen is None:
            return None
        context = click.Context(chosen, parent=context, info_name=words[0])
        command, words = chosen, words[1:]
    return command, context, words


def _open_option(command: click.Command, rest: Sequence[str]) -> click.Option | None:
    """Returns the option whose value the last word is."""
    before = [word for word in rest if word != "="][-1:]
    for each in command.params:
        if (
            isinstance(each, click.Option)
            and not each.is_flag
            and before
            and before[0] in each.opts
        ):
            return each
    return None


def _values(option: click.Option, prefix: str, rest: Sequence[str]) -> Iterator[str]:
    metavar = str(option.metavar)
    if isinstance(option.type, click.Choice):
        yield from map(str, option.type.choices)
    elif option.name in _KINDS:
        yield from _components(_KINDS[option.name])
    elif option.name == "load_path":
        for word in rest:
            if (folder := Path(word, "ckpt")).is_dir():
                yield from sorted(each.name for each in folder.iterdir() if each.is_dir())
    elif "RUN" in metavar or option.name == "resume":
        yield from _runs(prefix)


def _arguments(command: click.Command, prefix: str, rest: Sequence[str]) -> Iterator[str]:
    """Yields what an argument of a command may be."""
    for each in command.params:
        if not isinstance(each, click.Argument):
            continue
        if isinstance(each.type, click.Choice):
            yield from _starting(map(str, each.type.choices), prefix)
        elif "RUN" in str(each.metavar) and not (command.name == "train" and rest):
            yield from _runs(prefix)
            return


def _components(kind: str) -> list[str]:
    entries = dicore_registry.default().entries(kind)
    return [each.name for each in entries if each.status == "ok"]


def _runs(prefix: str) -> list[str]:
    """Returns run folders that a path begins, and folders, with `/`, that may hold runs."""
    above, name = os.path.split(prefix)
    try:
        with os.scandir(Path(above).expanduser()) as entries:
            begun = (each for each in entries if each.name.startswith(name))
            folders = [each for each in islice(begun, _MOST) if each.is_dir()]
    except OSError:
        return []
    if not name.startswith("."):
        folders = [each for each in folders if not each.name.startswith((".", "__"))]
    found = []
    for each in sorted(folders, key=lambda each: each.name):
        is_run = Path(each.path, "run.json").is_file()
        found.append(os.path.join(above, each.name) + "/" * (not is_run))  # noqa: PTH118 - as typed
    return found


def _starting(words: Iterator[str] | Sequence[str] | map[str], prefix: str) -> list[str]:
    return [word for word in words if word.startswith(prefix)]
