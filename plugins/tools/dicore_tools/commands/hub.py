"""`dicore hub`: runs and data sets in a shared place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from shlex import quote
from typing import TYPE_CHECKING

import click

from dicore.console import printable, say, write_table
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json

if TYPE_CHECKING:
    from dicore_tools.json_output.written import Pulled, Pushed

_EPILOG = """\b
Examples:
  dicore hub push runs/a /mnt/team --licence Apache-2.0
  dicore hub push runs/a s3://team-rl/hub --name cartpole-dqn
  dicore hub list https://example.org/hub
  dicore hub pull https://example.org/hub cartpole-dqn -o runs/theirs

A place is a folder, an address that fsspec knows (s3://, gs://, hf://), or a web server,
which is read only. Files that are pulled are data: nothing of them is executed.
"""


@click.group(name="hub", epilog=_EPILOG)
def command() -> None:
    """Shares runs and data sets: pushes, pulls and lists them, each with a card."""


@command.command(cls=CommandWithExamples)
@click.argument("source", metavar="RUN|DATA")
@click.argument("place", metavar="PLACE")
@click.option("--name", metavar="NAME", help="Name there.  [default: that of the folder]")
@click.option("--licence", default="", metavar="SPDX", help="Under which others may use it.")
@click.option("--all", "everything", is_flag=True, help="All files of a run, all checkpoints.")
@click.option("--overwrite", is_flag=True, help="Replace an item of this name.")
@AS_JSON
def push(
    source: str,
    place: str,
    *,
    name: str | None,
    licence: str,
    everything: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Copies a run or a data set into a place."""
    from dicore_tools.hub import transfer

    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # what is left out
        where = transfer.push(
            source, place, name=name, licence=licence, everything=everything, overwrite=overwrite
        )
    if as_json:
        told: Pushed = {"address": where}
        write_json(told)
        return
    say(where, result=True)


@command.command(cls=CommandWithExamples)
@click.argument("place", metavar="PLACE")
@click.argument("name", metavar="ITEM")
@click.option("-o", "--out", metavar="FOLDER", help="New folder.  [default: the name]")
@AS_JSON
def pull(place: str, name: str, *, out: str | None, as_json: bool) -> None:
    """Copies an item into a new folder; its files are compared with the hashes of its card."""
    from pathlib import Path

    from dicore_tools.hub import transfer
    from dicore_tools.hub.card import own_code

    card = transfer.pull(place, name, out or name)
    if as_json:
        told: Pulled = {"path": out or name, "kind": str(card.get("kind")),
                        "files": sorted(card["files"])}  # fmt: skip
        write_json(told)
        return
    folder, what, own, named = out or name, "a data set:", [], out or name
    data = [each for each in card["files"] if each.endswith((".npz", ".hdf5", ".h5"))]
    if len(data) == 1:
        named = f"{folder}/{data[0]}"
    if card.get("kind") == "run":
        own, named = own_code(Path(folder)), folder
        what = f"dicore eval{' --trust' if own else ''}"
    say(printable(f"{folder}: {len(card['files'])} files; {what} {quote(named)}"), result=True)
    for each in own:
        say(f"not in {printable(folder)}: {each}, which its config names; --trust runs it")


@command.command(name="list", cls=CommandWithExamples)
@click.argument("place", metavar="PLACE")
@AS_JSON
def list_(place: str, *, as_json: bool) -> None:
    """Lists what is in a place."""
    from dicore_tools.foreign import one_line
    from dicore_tools.hub import transfer

    cards = transfer.listed(place)
    if as_json:
        write_json(cards)
        return
    rows = [[one_line(card.get(key, "")) for key in ("name", "kind", "env", "policy", "seed")]
            + [_return(card), one_line(card.get("licence", ""))] for card in cards]  # fmt: skip
    head = ("name", "kind", "env", "policy", "seed", "best return", "licence")
    write_table(head, rows, {4, 5})


def _return(card: Mapping[str, object]) -> str:
    from dicore_tools.hub.card import shown_number

    result = card.get("result")
    return shown_number(result.get("best_return")) if isinstance(result, dict) else ""
