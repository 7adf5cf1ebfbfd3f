"""Options that several commands have."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["AS_JSON", "CHECKPOINT", "EPISODE_SEED", "TRUST", "given_of"]

CHECKPOINT: Final = click.option(
    "--load-path",
    "--load_path",
    metavar="CKPT",
    help="Name or path of a checkpoint.  [default: best, else the latest valid one]",
)
EPISODE_SEED: Final = click.option(
    "-s",
    "--seed",
    type=click.IntRange(0),
    help="Seed of the episodes.  [default: the run's]",
)
TRUST: Final = click.option(
    "--trust",
    is_flag=True,
    help="Run code that config.json names by path (./file.py:Class, pkg.mod:Class).",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print only JSON.")


def given_of(ctx: click.Context, *names: str) -> str:
    """Returns which of some options the command line has, as text; "" for none."""
    shown = {each.name: max(each.opts, key=len) for each in ctx.command.params}
    sources = {name: getattr(ctx.get_parameter_source(name), "name", "") for name in names}
    return ", ".join(shown[name] for name in names if sources[name] == "COMMANDLINE")
