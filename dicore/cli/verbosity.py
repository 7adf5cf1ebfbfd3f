"""`-v` and `-q`: how much a command says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from dicore.errors import UsageError

__all__ = ["verbosity"]

F = TypeVar("F", bound=Callable[..., object])
_KEY = "dicore.verbosity"


def verbosity(command: F) -> F:
    """Adds `-v/--verbose` and `-q/--quiet` to a command; its function takes neither."""
    for flags, text in (
        (("-q", "--quiet"), "Say the result and errors alone."),
        (("-v", "--verbose"), "Say all that the parts log."),
    ):
        add = click.option(*flags, is_flag=True, expose_value=False, callback=_choose, help=text)
        command = add(command)
    return command


def _choose(ctx: click.Context, param: click.Parameter, chosen: bool) -> None:
    if not chosen:
        return
    other = ctx.meta.setdefault(_KEY, param.name)
    if other != param.name:
        raise UsageError("--verbose and --quiet cannot both be had")
    from dicore.console import chatter

    ctx.with_resource(chatter("quiet" if param.name == "quiet" else "verbose"))
