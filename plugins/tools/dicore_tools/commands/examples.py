"""Commands that show an example when an argument is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dicore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CommandWithExamples"]


class CommandWithExamples(click.Command):
    """A command with lines `  dicore NAME …` in its epilog, or in that of its group."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the words.

        Raises:
            UsageError: an argument or a required option is missing; the hint is the first example.
        """
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            example = next(_examples(ctx), "")
            if not example:
                raise
            text = error.format_message().rstrip(".")
            raise UsageError(text[:1].lower() + text[1:], hint=example) from error


def _examples(ctx: click.Context) -> Iterator[str]:
    """Yields the examples of a command, without the remarks beside them."""
    epilogs = [ctx.command.epilog, ctx.parent.command.epilog if ctx.parent else None]
    for line in "\n".join(filter(None, epilogs)).splitlines():
        example = line.strip().partition("   ")[0].rstrip()
        if f"{example} ".startswith(f"{ctx.command_path} ") and example != ctx.command_path:
            yield example
