"""What may be typed next where a command takes a config and `a.b=c`; for the shells' completion.

Nothing is said where that cannot be known without running somebody's file.
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
from dicore.config.declare import Section
from dicore.config.fields import Field, fields_of
from dicore.errors import DicoreError
from dicore.run.request import TrainRequest
from dicore_tools.commands.settings import compiled_of

__all__ = ["option_words"]

_TAKES = "a.b=c"


def option_words(prefix: str, line: Sequence[str], root: click.Context) -> list[str]:
    """Returns the words that may stand at the end of a line.

    Args:
        prefix: What is typed of the last word, `policy.le`.
        line: The words before it, without the program's name. A shell may have split words at `=`.
        root: Of the program's group of commands.
    """
    line = [*line, prefix] if prefix != "=" else [*line, "=", ""]
    words = _joined(line)
    done = _value_at(words[-1]) if words[-1] != line[-1] else 0
    found = _found(words[-1], words[:-1], root)
    return [word[done:] for word in found if word.startswith(words[-1])]


def _value_at(word: str) -> int:
    """Returns where the value of `a.b=value` begins."""
    return word.index("=") + 1


def _joined(line: Sequence[str]) -> list[str]:
    """Puts together what was split: `a.b`, `=`, `c` are one word."""
    words: list[str] = []
    glue = False
    for word in line:
        if words and (word == "=" or glue):
            words[-1] += word
        else:
            words.append(word)
        glue = word == "="
    return words


def _found(prefix: str, line: Sequence[str], root: click.Context) -> list[str]:
    asked = _asked(line, root)
    if asked is None:
        return []
    request, metavar = asked
    found = []
    if "PRESET" in metavar and not (request.config or request.env or request.policy):
        entries = dicore_registry.default().entries("preset")
        found = [entry.name for entry in entries if entry.status == "ok"]
    compiled = _compiled(request)
    return found if compiled is None else [*found, *_options(prefix, compiled)]


def _asked(line: Sequence[str], root: click.Context) -> tuple[TrainRequest, str] | None:
    """Reads a line as far as it goes; None where no options of a config can stand at its end."""
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
    taking = [each for each in command.params if _TAKES in str(each.metavar)]
    if not taking:
        return None
    given, metavar = context.params, str(taking[0].metavar)
    said = [word for word in given.get(str(taking[0].name)) or () if isinstance(word, str)]
    files = [word for word in said if "=" not in word]
    request = TrainRequest(
        config=given.get("config") or (files[0] if files else None),
        mode=given.get("mode"),
        env=given.get("env"),
        policy=given.get("policy"),
        overrides=[word for word in said if "=" in word],
        argv=(),
    )
    return request, metavar


def _compiled(request: TrainRequest) -> Compiled | None:
    file = request.config
    if file is not None and Path(str(file)).suffix == ".py":  # to read it is to run it
        return None
    os.environ["DICORE_NAMES_ONLY"] = "1"  # this process does nothing but answer
    for each in (request, TrainRequest(env=request.env, policy=request.policy, argv=())):
        with contextlib.suppress(DicoreError), contextlib.redirect_stdout(sys.stderr):
            return compiled_of(file, each)
    return None


def _options(prefix: str, compiled: Compiled) -> Iterator[str]:
    """Yields options one step further: `policy.` and then `policy.learn.` or `policy.nstep=`."""
    path, value_asked, _ = prefix.partition("=")
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
    if not value_asked:
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


def _alternatives(hint: Any) -> Sequence[Any]:
    return get_args(hint) if get_origin(hint) in (Union, type(int | None)) else (hint,)
