"""Writes a report of runs as one HTML page that needs nothing else: curves, tables, provenance."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from statistics import mean, median
from typing import Final

from dicore.console import plural
from dicore.errors import UsageError
from dicore.run.atomic import read_regular
from dicore_tools.diagnosis.section import section
from dicore_tools.reports.chart import COLORS, SIZE, SMALL, chart
from dicore_tools.reports.curves import AXES, TAG, Axis, Group, goal_of, group_runs
from dicore_tools.reports.run_data import NONE, RunData, differing
from dicore_tools.results.statistics import iqm_interval

__all__ = ["leagues", "page", "provenance"]

_MOST_VIDEO_BYTES: Final = 2_000_000
"""A larger video is a link instead of a part of the page."""
_MOST_COMPARED: Final = 8
_MORE_METRICS: Final = 8
_MOST_NAMED: Final = 6
_MEASURES: Final = ("evaluator/win_rate", "evaluator/reward_per_step")
"""What evaluations compare with the stop value, if that is not the return."""
_OWN_METRICS: Final = (
    "collector/reward_mean", "learner/total_loss", "learner/cur_lr",
    "evaluator/avg_envstep_per_episode", "collector/avg_envstep_per_sec",
)  # fmt: skip
_SIMPLE: Final = ("exp_name", "seed")
_LEAGUE: Final = "league.json"
_HERE: Final = Path(__file__).parent

_Row = Sequence[str]


def page(
    runs: Sequence[RunData],
    *,
    title: str | None = None,
    refresh_s: int | None = None,
    problems: Sequence[str] = (),
    benchmark: Sequence[str] = (),
) -> str:
    """Returns the page.

    Args:
        runs: The runs.
        title: Its title; None: algorithm and environment, if all runs have the same.
        refresh_s: The browser loads the page again after so many seconds; None: never.
        problems: What could not be read.
        benchmark: HTML of the section about a benchmark.
    """
    curves = [curve for run in runs if (curve := run.curve()) is not None]
    groups = group_runs(curves) if curves else []
    heading = title or _heading(runs)
    of_folder = {run.folder.path: run for run in runs}
    members = [[of_folder[curve.folder] for curve in group.curves] for group in groups]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = [
        f"<h1>{escape(heading)}</h1>",
        f"<p>{plural(len(runs), 'run')}, {now}. {_told(runs)}</p>",
        *(f'<p class="note">{escape(problem)}</p>' for problem in problems),
        *benchmark,
        *_curves(runs, groups),
        *section(runs),
        *_summary(groups, members),
        *_metrics(runs, groups),
        *leagues(runs),
        *_differences(runs, groups),
        *_runs(runs),
        *_videos(runs),
        *provenance(runs),
    ]
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">'
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{again}<title>{escape(heading)}</title><style>{style}</style></head>"
        f"<body><main>{''.join(body)}</main><script>{script}</script></body></html>\n"
    )


def _heading(runs: Sequence[RunData]) -> str:
    """Returns `dqn, ppo on CartPole-v1`, or the number of runs if it would be long."""
    envs: dict[str, None] = {}
    policies: dict[str, None] = {}
    for run in runs:
        env = run.config.get("env") or {}
        envs[str(env.get("env_id") or env.get("type"))] = None
        policies[str((run.config.get("policy") or {}).get("type"))] = None
    if len(envs) + len(policies) > _MOST_NAMED:
        return plural(len(runs), "run")
    return f"{', '.join(policies)} on {', '.join(envs)}"


def _told(runs: Sequence[RunData]) -> str:
    """Says in a sentence how the runs ended."""
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.state] = counts.get(run.state, 0) + 1
    return (
        escape(", ".join(f"{number} {state}" for state, number in counts.items())).capitalize()
        + "."
    )


# ---- curves


def _curves(runs: Sequence[RunData], groups: Sequence[Group]) -> Iterator[str]:
    if not groups:
        yield '<p class="note">No run has been evaluated yet, so there are no curves.</p>'
        return
    yield "<h2>Mean return of evaluations</h2>"
    goals = {goal_of(curve) for group in groups for curve in group.curves}
    goal = goals.pop() if len(goals) == 1 else None
    first = _axis(runs)
    yield '<div class="tabs">'
    for number, (_, name) in enumerate(AXES.values()):
        checked = " checked" if [*AXES][number] == first else ""
        yield f'<input type="radio" name="axis" id="axis{number}"{checked}>'
        yield f'<label for="axis{number}">over {escape(name)}</label>'
    for number, axis in enumerate(AXES):
        yield f'<div class="panel p{number}">{_picture(runs, groups, TAG, axis, goal)}</div>'
    yield "</div>"
    yield from _legend(groups, goal)


def _axis(runs: Sequence[RunData]) -> Axis:
    """Returns the axis of pictures: updates, if no run collects env steps."""
    return "env_step" if any(run.progress[0] for run in runs) else "train_iter"


def _picture(
    runs: Sequence[RunData],
    groups: Sequence[Group],
    tag: str,
    axis: Axis,
    goal: float | None = None,
) -> str:
    """Returns the picture of a metric with the numbers that its tooltip shows."""
    of_folder = {run.folder.path: run for run in runs}
    drawn, places = [], []
    for place, group in enumerate(groups):
        found = (of_folder[curve.folder].curve(tag, axis) for curve in group.curves)
        curves = [curve for curve in found if curve is not None]
        if curves:
            drawn.append(Group(group.label, curves))
            places.append(place)
    if not drawn:
        return ""
    name = "mean return of an evaluation" if tag == TAG else tag
    size = SIZE if tag == TAG else SMALL
    picture = chart(drawn, x_title=AXES[axis][1], y_title=name, goal=goal, places=places, size=size)
    return f'<figure tabindex="0">{picture}<output></output></figure>'


def _legend(groups: Sequence[Group], goal: float | None) -> Iterator[str]:
    yield '<ul class="legend">'
    for number, group in enumerate(groups):
        color = COLORS[number % len(COLORS)]
        count = len(group.curves)
        note = f" (mean of {count} and standard deviation)" if count > 1 else ""
        yield (
            f'<li style="--c:{color}"><label><input type="checkbox" checked data-group="{number}">'
            f"<i></i>{escape(group.label)}{note}</label></li>"
        )
    if goal is not None:
        yield f"<li><i class='dashed'></i>stop value {goal:g}</li>"
    yield "</ul>"


def _metrics(runs: Sequence[RunData], groups: Sequence[Group]) -> Iterator[str]:
    """Draws further metrics; those of the policy come first."""
    known = dict.fromkeys(tag for run in runs for tag in run.columns)
    learner = [tag for tag in known if tag.startswith("learner/") and tag not in _OWN_METRICS]
    tags = [
        tag for tag in (*_MEASURES, *_OWN_METRICS[:2], *learner, *_OWN_METRICS[2:]) if tag in known
    ]
    axis = _axis(runs)
    pictures = [(tag, _picture(runs, groups, tag, axis)) for tag in tags[:_MORE_METRICS]]
    shown = [(tag, picture) for tag, picture in pictures if picture]
    if not shown:
        return
    yield "<h2>More metrics</h2><div class='grid2'>"
    for tag, picture in shown:
        yield f"<section><h3>{escape(tag)}</h3>{picture}</section>"
    yield "</div>"


def leagues(runs: Sequence[RunData]) -> Iterator[str]:
    """Yields ratings and payoffs of those runs that are leagues, as HTML."""
    for run in runs:
        if not (run.folder.path / _LEAGUE).is_file():
            continue
        from dicore import league_sections

        yield f"<h2>League of {escape(run.folder.path.name)}</h2>"
        tags = [tag for tag in run.columns if tag.startswith("league/") and tag.endswith("/elo")]
        found = [(tag.split("/")[1], run.curve(tag, "env_step")) for tag in tags]
        groups = [Group(name, [curve]) for name, curve in found if curve is not None]
        if groups:
            picture = chart(groups, x_title=AXES["env_step"][1], y_title="Elo")
            yield f"<h3>Elo of those that learn</h3><figure>{picture}</figure>"
            yield from _legend(groups, None)
        try:
            yield from league_sections(run.folder.path)
        except UsageError as error:
            yield f'<p class="note">{escape(error.message)}</p>'


# ---- tables


def _table(head: _Row, rows: Iterable[_Row], kind: str = "") -> str:
    """Returns a table; cells are HTML."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _summary(groups: Sequence[Group], members: Sequence[Sequence[RunData]]) -> Iterator[str]:
    if not groups:
        return
    rows = []
    for number, (group, runs) in enumerate(zip(groups, members, strict=True)):
        best = [run.best_return for run in runs if run.best_return is not None]
        last = [float(curve.y[-1]) for curve in group.curves]
        solved = [run for run in runs if run.result.get("stop")]
        seconds = [run.progress[2] for run in runs]
        rates = [run.progress[0] / run.progress[2] for run in runs if run.progress[2] > 0]
        rows.append(
            (
                f'<i style="--c:{COLORS[number % len(COLORS)]}"></i>{escape(group.label)}',
                str(len(runs)),
                _with_range(best),
                _interval(best),
                _with_range(last),
                f"{len(solved)} of {len(runs)}" if goal_of(group.curves[0]) is not None else NONE,
                f"{median(run.progress[0] for run in solved):,.0f}" if solved else NONE,
                f"{median(seconds):,.0f}",
                f"{median(rates):,.0f}" if rates else NONE,
            )
        )
    yield "<h2>Results</h2>"
    yield _table(
        ("group", "runs", "best return: mean (range)", "best return: IQM [95 % interval]",
         "last return: mean (range)",
         "reached the stop value", "env steps until then (median)", "seconds (median)",
         "env steps/s (median)"),
        rows,
        "numbers",
    )  # fmt: skip


def _with_range(values: Sequence[float]) -> str:
    if not values:
        return NONE
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{mean(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def _interval(values: Sequence[float]) -> str:
    """Writes the interquartile mean of several runs with its bootstrap interval."""
    if len(values) < 2:
        return NONE
    found = iqm_interval([values])
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"


def _differences(runs: Sequence[RunData], groups: Sequence[Group]) -> Iterator[str]:
    """Tabulates options by group; by run if there is one group."""
    parts = [(run.folder.path.name, [run]) for run in runs]
    if len(groups) > 1:
        of_folder = {run.folder.path: run for run in runs}
        parts = [
            (group.label, [of_folder[curve.folder] for curve in group.curves]) for group in groups
        ]
    if len(parts) < 2:
        return
    compared = [run for _, members in parts for run in members]
    found = {path: values for path, values in differing(compared).items() if path not in _SIMPLE}
    yield "<h2>Options that differ</h2>"
    if not found:
        yield "<p>None but seeds and names of folders.</p>"
        return
    rows: list[list[str]] = []
    for path, values in found.items():
        left = iter(values)
        own = [list(dict.fromkeys(next(left) for _ in members)) for _, members in parts]
        if len(parts) > _MOST_COMPARED:
            own = [list(dict.fromkeys(value for each in own for value in each))]
        rows.append([f"<code>{escape(path)}</code>", *(escape(", ".join(each)) for each in own)])
    names = ["values"] if len(parts) > _MOST_COMPARED else [escape(name) for name, _ in parts]
    yield _table(["option", *names], rows)


def _runs(runs: Sequence[RunData]) -> Iterator[str]:
    rows = []
    for run in runs:
        step, updates, seconds = run.progress
        best = run.best_return
        rows.append(
            (
                f"<code>{escape(str(run.folder))}</code>",
                escape(str(run.record.get("seed", NONE))),
                escape(run.state + _cause(run)),
                f"{step:,}",
                f"{updates:,}",
                NONE if best is None else f"{best:.4g}{_measured(run)}",
                f"{seconds:,.1f}",
                escape(str(run.record.get("started") or NONE)[:16].replace("T", " ")),
            )
        )
    yield "<h2>Runs</h2>"
    head = ("folder", "seed", "state", "env steps", "updates", "best return", "seconds", "started")
    yield _table(head, rows, "numbers")


def _measured(run: RunData) -> str:
    """Returns the best value of what the run compares with its stop value; "" for the return."""
    points = run.columns.get(f"evaluator/{run.measure}")
    if points is None:
        return ""
    return f" ({run.measure.replace('_', ' ')} {float(points[:, 3].max()):.4g})"


def _cause(run: RunData) -> str:
    error = run.record.get("error")
    if not error:
        return ""
    message = error.get("message") if isinstance(error, Mapping) else error
    return f": {message}"


def _videos(runs: Sequence[RunData]) -> Iterator[str]:
    files = [(run, file) for run in runs for file in sorted(run.folder.video.rglob("*.mp4"))]
    if not files:
        return
    yield "<h2>Videos</h2><div class='grid2'>"
    for run, file in files:
        caption = escape(f"{run.folder.path.name}: {file.name}")
        if file.is_symlink() or not file.is_file():
            continue  # the page would hold what a stranger's link leads to
        if file.stat().st_size <= _MOST_VIDEO_BYTES:
            data = base64.b64encode(read_regular(file)).decode("ascii")
            source = f"data:video/mp4;base64,{data}"
            yield f'<figure><video controls src="{source}"></video>'
            yield f"<figcaption>{caption}</figcaption></figure>"
        else:
            yield f'<p><a href="{escape(file.as_uri())}">{caption}</a></p>'
    yield "</div>"


def provenance(runs: Sequence[RunData]) -> Iterator[str]:
    """Yields how each run was made, as HTML; equal texts are shown once."""
    yield "<h2>How the runs were made</h2>"
    seen: dict[str, list[str]] = {}
    for run in runs:
        seen.setdefault(_made(run), []).append(run.folder.path.name)
    for text, names in seen.items():
        shown = ", ".join(map(escape, names))
        yield f"<details><summary>{shown}</summary>{text}</details>"


def _made(run: RunData) -> str:
    record = run.record
    versions = record.get("versions") or {}
    git = record.get("git")
    changed = " with uncommitted changes (code.diff)" if record.get("dirty") else ""
    rows = [
        ("versions", escape(", ".join(f"{name} {each}" for name, each in versions.items()))),
        ("machine", escape(f"{record.get('host', NONE)}, {record.get('platform', NONE)}")),
        ("commit", f"<code>{escape(str(git))}</code>{changed}" if git else NONE),
        ("limits", escape(json.dumps(record.get("limits") or {}))),
    ]
    components = record.get("components") or {}
    parts = [
        (f"<code>{escape(path)}</code>", escape(str(each.get("type"))),
         escape(f"{each.get('dist')} {each.get('version')}"))
        for path, each in components.items()
    ]  # fmt: skip
    command = escape(" ".join(map(str, record.get("argv") or ())))
    return (
        f"<pre>{command}</pre>"
        + _table(("", ""), rows)
        + _table(("part", "type", "package"), parts)
    )
