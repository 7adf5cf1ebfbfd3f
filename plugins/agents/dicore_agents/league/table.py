"""What is told of a league: `league.json` of its run, as a table of text and as pictures (SVG)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from dicore.errors import UsageError
from dicore.run.atomic import read_json
from dicore_agents.league.names import FILE
from dicore_agents.league.payoff import mixture

__all__ = ["league_sections", "payoff_picture", "read_league", "table_lines"]

_CELL: Final = 34
_LABEL: Final = 130
_MOST_SHOWN: Final = 24


def read_league(folder: str | Path) -> dict[str, Any]:
    """Returns the content of `league.json` of a run, with the `mixture` that nobody beats.

    Raises:
        UsageError: the folder is not that of a league, or the file cannot be read.
    """
    path = Path(folder) / FILE
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder", hint="pass the run folder of a league")
    if not path.exists():
        raise UsageError(
            f"{folder}: not the run of a league: it has no {FILE}",
            hint="a league is trained by dicore train -m league; its first job writes the file",
        )
    try:
        told = _checked(read_json(path))
    except (AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error!r}") from error
    rates = np.array(told["payoff"]["win_rate"], np.float64)
    return {**told, "mixture": mixture(rates).round(4).tolist()}


def _checked(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a table, which may be a stranger's, in the types that it has."""
    rows = []
    for row in told["participants"]:
        texts = {key: str(row[key]) for key in ("name", "role", "of")}
        numbers = {key: _finite(row[key]) for key in ("elo", "mu", "sigma") if key in row}
        if "elo" not in numbers or len(numbers) == 2:
            raise ValueError(f"'{row['name']}' has no rating")
        rows.append({**texts, "frozen": bool(row["frozen"]), **numbers})
    payoff = {}
    for key in ("win_rate", "games"):
        payoff[key] = [[_finite(each) for each in line] for line in told["payoff"][key]]
        if [len(line) for line in payoff[key]] != [len(rows)] * len(rows) or not rows:
            raise ValueError(f"payoff.{key} is not a table of {len(rows)} participants")
    counts = {key: int(told[key]) for key in ("jobs", "env_step", "train_iter")}
    return {**counts, "participants": rows, "payoff": payoff}


def _finite(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def table_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a table of participants, the strongest first."""
    rows, order = told["participants"], _by_elo(told)
    rates, games = told["payoff"]["win_rate"], told["payoff"]["games"]
    mixed = told["mixture"]
    width = max(len("participant"), *(len(row["name"]) for row in rows))
    yield f"{told['jobs']} jobs, {told['env_step']} env steps, {len(rows)} participants"
    line = f"{{:{width}}}  {{:16}}  {{:>6}}  {{:>12}}  {{:>8}}  {{:>6}}".format
    yield line("participant", "role", "Elo", "skill", "win rate", "weight")
    for at in order:
        row = rows[at]
        played = [(rates[at][other], games[at][other]) for other in order if games[at][other]]
        total = sum(count for _, count in played)
        mean = f"{sum(rate * count for rate, count in played) / total:.2f}" if total else "-"
        skill = f"{row['mu']:.1f} ± {row['sigma']:.1f}" if "mu" in row else "-"
        yield line(row["name"], row["role"], f"{row['elo']:.0f}", skill, mean, f"{mixed[at]:.2f}")


def payoff_picture(told: Mapping[str, Any]) -> str:
    """Returns the win rates between participants as an SVG picture, rows against columns.

    Of many participants the learning ones and the newest copies are shown.
    """
    shown = _shown(told)
    names = [told["participants"][at]["name"] for at in shown]
    rates, games = told["payoff"]["win_rate"], told["payoff"]["games"]
    side = _LABEL + _CELL * len(shown)
    parts = []
    for row, home in enumerate(shown):
        y = _LABEL + row * _CELL
        middle = y + _CELL / 2 + 4
        name = escape(names[row])
        x = _LABEL + row * _CELL + _CELL / 2 + 4
        at = f'x="{_LABEL - 6}" y="{middle}" text-anchor="end"'
        parts.append(f"<text {at}>{name}</text>")
        turned = f"translate({x} {_LABEL - 6}) rotate(-90)"
        parts.append(f'<text transform="{turned}">{name}</text>')
        for column, away in enumerate(shown):
            parts.append(_cell(column, row, rates[home][away], games[home][away]))
    return (
        f'<svg viewBox="0 0 {side} {side}" width="{side}" role="img" font-family="sans-serif"'
        ' font-size="11" aria-label="win rates of rows against columns" fill="currentColor">'
        + "".join(parts)
        + "</svg>"
    )


def _cell(column: int, row: int, rate: float, games: float) -> str:
    """Returns one square: blue where the row wins, orange where the column does."""
    x, y = _LABEL + column * _CELL, _LABEL + row * _CELL
    if not games:
        return f'<rect x="{x}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}" fill="#8886"/>'
    color, strength = ("#0072b2", rate - 0.5) if rate >= 0.5 else ("#d55e00", 0.5 - rate)
    return (
        f'<g><title>{rate:.2f} of {games:.0f} games</title><rect x="{x}" y="{y}"'
        f' width="{_CELL - 1}" height="{_CELL - 1}" fill="{color}"'
        f' fill-opacity="{2 * strength:.2f}" stroke="#8886"/>'
        f'<text x="{x + _CELL / 2 - 0.5}" y="{y + _CELL / 2 + 4}"'
        f' text-anchor="middle">{100 * rate:.0f}</text></g>'
    )


def league_sections(folder: str | Path) -> Iterator[str]:
    """Yields the part of a report about a league, as HTML: its payoffs, and who it has.

    Raises:
        UsageError: `league.json` cannot be read.
    """
    told = read_league(folder)
    yield "<h3>Win rates of rows against columns, %</h3>"
    yield f'<div class="wide"><figure>{payoff_picture(told)}</figure></div>'
    lines = "\n".join(table_lines(told))
    yield f"<pre>{escape(lines)}</pre>"


def _by_elo(told: Mapping[str, Any]) -> list[int]:
    rows = told["participants"]
    return sorted(range(len(rows)), key=lambda at: -float(rows[at]["elo"]))


def _shown(told: Mapping[str, Any]) -> Sequence[int]:
    rows = told["participants"]
    learning = [at for at, row in enumerate(rows) if not row["frozen"]]
    frozen = [at for at, row in enumerate(rows) if row["frozen"]]
    return learning + frozen[-max(_MOST_SHOWN - len(learning), 0) :]
