"""`dicore league`: who is in a league, how strong they are, and who beats whom."""

from __future__ import annotations

import json

import click

from dicore.console import say, verbosity
from dicore_agents.league.output import League

__all__ = ["JSON_OUTPUT", "command"]

JSON_OUTPUT = League

_EPILOG = """\b
Examples:
  dicore league runs/tictactoe_league
  dicore league runs/tictactoe_league --json         with all win rates
  dicore report runs/tictactoe_league                as pictures
  dicore eval runs/tictactoe_league/league/main_1 --against runs/tictactoe_league

Elo starts at 1200. Skill is mean ± deviation of the package openskill, where it is installed. The
weights are those of the mixture of participants that no mixture beats.
"""


@click.command(name="league", epilog=_EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity
def command(run: str, *, as_json: bool) -> None:
    """Shows the participants of a league with their ratings and win rates."""
    from dicore_agents.league.table import read_league, table_lines

    told = read_league(run)
    say(json.dumps(told) if as_json else "\n".join(table_lines(told)), result=True)
