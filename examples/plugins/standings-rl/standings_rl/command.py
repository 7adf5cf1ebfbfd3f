"""`dicore standings`: a table of runs, best first."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dicore.errors import UsageError

__all__ = ["command"]


@click.command(name="standings", epilog="Example: dicore standings runs --env cartpole")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--env", metavar="NAME", help="Only runs of this environment.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(folder: Path, env: str | None, *, as_json: bool) -> None:
    """Ranks the runs below a folder by their best return, per environment."""
    from standings_rl.ranking import Place, ranked, runs_in

    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", hint="name the folder that has the runs")
    found = list(runs_in(folder))
    places = ranked(each for each in found if isinstance(each, Place))
    places = [each for each in places if env in (None, each.env)]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in places], indent=1))
        return
    click.echo(f"{'best_return':>11} {'env_step':>9} {'seed':>5}  {'env':<20} {'policy':<16} run")
    for each in places:
        numbers = f"{each.best_return:11.2f} {each.env_step:9} {each.seed:5}"
        click.echo(f"{numbers}  {each.env:<20} {each.policy:<16} {each.run}")
    for problem in (each for each in found if isinstance(each, str)):
        click.echo(problem, err=True)
