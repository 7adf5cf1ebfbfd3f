"""Candidates for shell completion of config options, `a.b=c`.

There are no candidates if finding them would run code of a config file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click

import dicore_registry
from dicore.config import Compiled
from dicore.config.schema import Field, Section, fields_of
from dicore.errors import DicoreError
from dicore.run.request import TrainRequest
from dicore_tools.commands.config_view import compile_source
from dicore_tools.commands.words import split_words

__all__ = ["config_words"]

_METAVAR = "a.b=c"


def config_words(prefix: str, line: Sequence[str], root: click.Context) -> list[str]:
    """Returns the candidates for the last word of a command line.

    Args:
        prefix: The typed part of the last word, `policy.le`.
        line: The words before it, without the program's name. A shell may split words at `=`.
        root: Context of the program's command group.
    """
    line = [*line, prefix] if prefix != "=" else [*line, "=", ""]
    words = _join(line)
    start = words[-1].index("=") + 1 if words[-1] != line[-1] else 0
    candidates = _candidates(words[-1], words[:-1], root)
    return [word[start:] for word in candidates if word.startswith(words[-1])]


def _join(line: Sequence[str]) -> list[str]:
    """Joins words that the shell split: `a.b`, `=`, `c` become one word."""
    words: list[str] = []
    join_next = False
    for word in line:
        if words and (word == "=" or join_next):
            words[-1] += word
        else:
            words.append(word)
        join_next = word == "="
    return words


def _candidates(prefix: str, line: Sequence[str], root: click.Context) -> list[str]:
    parsed = _parse(line, root)
    if parsed is None:
        return []
    request, metavar = parsed
    presets = []
    if "PRESET" in metavar and not (request.config or request.env or request.policy):
        entries = dicore_registry.default().entries("preset")
        presets = [entry.name for entry in entries if entry.status == "ok"]
    compiled = _compile(request)
    return presets if compiled is None else [*presets, *_options(prefix, compiled)]


def _parse(line: Sequence[str], root: click.Context) -> tuple[TrainRequest, str] | None:
    """Parses an incomplete command line; None if the command takes no config options."""
    words = ["train", *line] if line and line[0].startswith("-") else list(line)
    context, command = root, root.command
    while isinstance(command, click.Group):
        try:
            chosen = command.get_command(context, words[0]) if words else None
        except DicoreError:
            return None
        if chosen is None:
            return None
        context = chosen.make_context(
            words[0], words[1:], parent=context, resilient_parsing=True, allow_extra_args=True
        )
        command, words = chosen, words[1:]
    arguments = [each for each in command.params if _METAVAR in str(each.metavar)]
    if not arguments:
        return None
    given, metavar = context.params, str(arguments[0].metavar)
    typed = [word for word in given.get(str(arguments[0].name)) or () if isinstance(word, str)]
    files, overrides = split_words(typed)
    request = TrainRequest(
        config=given.get("config") or (files[0] if files else None),
        mode=given.get("mode"),
        env=given.get("env"),
        policy=given.get("policy"),
        overrides=overrides,
        argv=(),
    )
    return request, metavar


def _compile(request: TrainRequest) -> Compiled | None:
    file = request.config
    if file is not None and (Path(str(file)).suffix == ".py" or _may_be_module(str(file))):
        return None  # reading it would run it, or import its package
    os.environ["DICORE_NAMES_ONLY"] = "1"  # this process only prints candidates
    for each in (request, TrainRequest(env=request.env, policy=request.policy, argv=())):
        with contextlib.suppress(DicoreError), contextlib.redirect_stdout(sys.stderr):
            return compile_source(file, each)
    return None


def _may_be_module(text: str) -> bool:
    return "." in text and not Path(text).exists()


def _options(prefix: str, compiled: Compiled) -> Iterator[str]:
    """Yields options level by level: `policy.`, then `policy.learn.` or `policy.nstep=`."""
    path, has_value, _ = prefix.partition("=")
    *above, name = path.split(".")
    node: Any = compiled.cfg
    kind = None
    for each in above:
        field = fields_of(type(node)).get(each)
        node = getattr(node, each, None)
        if field is None or not isinstance(node, Section):
            return
        kind = field.metadata.get("component")
    fields = fields_of(type(node))
    if not has_value:
        for key in fields:
            end = "." if isinstance(getattr(node, key), Section) else "="
            yield ".".join((*above, key)) + end
    elif name in fields:
        for value in _values(fields[name], kind if name == "type" else None):
            yield f"{path}={value}"


def _values(field: Field, kind: str | None) -> Iterator[str]:
    kind = kind or field.metadata.get("component")
    if kind is not None:
        entries = dicore_registry.default().entries(kind)
        yield from (entry.name for entry in entries if entry.status == "ok")
        return
    for hint in _alternatives(field.hint):
        if hint is bool:
            yield from ("true", "false")
        elif get_origin(hint) is Literal:
            yield from map(str, get_args(hint))
        elif hint is type(None):
            yield "null"


def _alternatives(hint: object) -> Sequence[object]:
    return get_args(hint) if get_origin(hint) in (Union, type(int | None)) else (hint,)
