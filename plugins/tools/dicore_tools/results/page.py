"""Writes records as a Markdown page with a table, learning curves and the command of each row."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np

from dicore.console import number
from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore_tools.reports.curves import Curve, Group
from dicore_tools.results.plan import Plan, Row
from dicore_tools.results.records import Record
from dicore_tools.results.statistics import Estimate, interquartile_mean, iqm_interval

__all__ = ["SUMMARY", "RowResult", "collect_results", "draw_pictures", "write_page"]

_ABOUT = (
    "`{command}` trains every row and writes this page. Each run is trained until the mean return"
    " of {episodes} evaluation episodes reaches the stop value, or until its budget of env steps"
    " is spent.",
    "- **Solved**: seeds that reached the stop value, of the seeds that were run.",
    "- **Env steps**, **Seconds**: median over the seeds up to the stop value (lowest to highest)."
    " Seconds include evaluations and depend on the machine and on what else it was doing. A seed"
    " that did not reach the stop value counts as more than its budget.",
    "- **Core-hours**: median CPU time of a training with its evaluations, of all its processes.",
    "- **Best**, **Last**: interquartile mean over the seeds with its 95 % bootstrap interval"
    " (Agarwal et al. 2021, arXiv:2108.13264). The return of a seed is the mean of its best or last"
    " checkpoint over {episodes} episodes that the training did not use.",
    "- Algorithms that learn from a data set alone have a table of their own. **Normalised**: the"
    " score of the last checkpoint, or of the best where the last was not measured, as in D4RL"
    " (Fu et al. 2020, arXiv:2004.07219): {normalised}.",
)
_WIDTH = 120
_PROFILES, _COSTS = "all_profiles", "all_costs"
SUMMARY = {
    _PROFILES: "Score profiles: the share of runs with a score above τ, the mean over environments"
    " (Agarwal et al. 2021), with 95 % bands",
    _COSTS: "Core-hours of a training against the score of each row",
}
"""Texts of the pictures of all environments, by file name."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The records of a row.

    Args:
        row: The row.
        task: Name of the environment.
        algorithm: Name of the algorithm.
        preset: Name and version of its preset; "" without one.
        offline: Whether it learns from a data set, without env steps.
        stop_value: Mean return that ends a run.
        records: One for each seed that was run with the present settings.
    """

    row: Row
    task: str
    algorithm: str
    preset: str
    offline: bool
    stop_value: float
    records: tuple[Record, ...]

    @property
    def solved(self) -> int:
        """Number of seeds that reached the stop value."""
        return sum(record.stop for record in self.records)

    def returns(self) -> Estimate | None:
        """Interquartile mean of the returns of the best checkpoints; None without records."""
        return iqm_interval([self.scores()]) if self.records else None

    def last_returns(self) -> Estimate | None:
        """Interquartile mean of the returns of the last checkpoints; None where not measured."""
        found = [each.last_returns for each in self.records if each.last_returns]
        return iqm_interval([[statistics.fmean(each) for each in found]]) if found else None

    def normalised(self, zero: float, hundred: float) -> Estimate | None:
        """Interquartile mean of 100 (R - zero) / (hundred - zero); None without records."""
        found = [each.last_returns or each.returns for each in self.records]
        means = [100 * (statistics.fmean(each) - zero) / (hundred - zero) for each in found]
        return iqm_interval([means]) if means else None

    def core_hours(self) -> float | None:
        """Median CPU hours of a training; None where not measured."""
        found = [each.cpu_s for each in self.records if each.cpu_s]
        return statistics.median(found) / 3600 if found else None

    def scores(self) -> list[float]:
        """Mean return of each seed."""
        return [record.mean_return for record in self.records]

    def until_solved(self, name: str) -> tuple[float, float, float] | None:
        """Returns median, least and most of `solved_step` or `wall_s`; inf for unsolved seeds."""
        if not self.records:
            return None
        values = [
            float(getattr(each, name)) if each.stop else float("inf") for each in self.records
        ]
        return statistics.median(values), min(values), max(values)


def collect_results(plan: Plan, records: Mapping[tuple[str, str, int], Record]) -> list[RowResult]:
    """Returns the rows with their records; those of other settings or seeds are left out."""
    found = []
    for row in plan.rows:
        keys = [(row.name, plan.settings(row), seed) for seed in row.seeds]
        own = tuple(records[key] for key in keys if key in records)
        found.append(
            RowResult(
                row,
                plan.task(row),
                plan.algorithm(row),
                plan.preset(row),
                not any(each.env_step for each in own) if own else plan.offline(row),
                plan.stop_value(row),
                own,
            )
        )
    return found


def write_page(plan: Plan, results: Sequence[RowResult], out: Path, command: str) -> list[Path]:
    """Writes the page, and the learning curves of each environment beside it.

    Args:
        plan: The plan.
        results: Its rows with their records.
        out: The Markdown file.
        command: The command that makes the page.

    Returns:
        The files.

    Raises:
        UsageError: a file cannot be written, or matplotlib is not installed.
    """
    pictures = draw_pictures(plan, results, out.with_name(f"{out.stem}_files"))
    text = "\n".join(_lines(plan, results, pictures, out, command))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_file(out, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    return [out, *pictures.values()]


def draw_pictures(plan: Plan, results: Sequence[RowResult], folder: Path) -> dict[str, Path]:
    """Draws the curves of each environment, and the pictures of all (`SUMMARY`).

    Returns:
        The files by environment, or by name; without those for which there are no records.

    Raises:
        UsageError: a file cannot be written, or matplotlib is not installed.
    """
    pictures: dict[str, Path] = {}
    for task in dict.fromkeys(each.task for each in results):
        file = folder / f"{_file_name(task)}.svg"
        own = [each for each in results if each.task == task]
        if _draw(own, plan.anchors.get(task, {}), file):
            pictures[task] = file
    return {**pictures, **_draw_summary(plan, results, folder)}


def _lines(
    plan: Plan,
    results: Sequence[RowResult],
    pictures: Mapping[str, Path],
    out: Path,
    command: str,
) -> Iterable[str]:
    episodes = " or ".join(str(n) for n in sorted({each.row.n_episode for each in results}))
    yield f"# {plan.title}\n"
    zero_hundred = "; ".join(
        f"{task} {low:g} is 0, {high:g} is 100"
        for task, (low, high) in plan.normalised.items()
        if any(each.offline and each.task == task for each in results)
    )
    for text in _ABOUT if zero_hundred else _ABOUT[:-1]:
        indent = "  " * text.startswith("-")
        filled = text.format(command=command, episodes=episodes, normalised=zero_hundred)
        yield fill(filled, _WIDTH, subsequent_indent=indent) + "\n" * (not indent)
    yield ""
    yield from _scores(plan, results)
    for name, text in SUMMARY.items():
        if name in pictures:
            place = pictures[name].relative_to(out.parent).as_posix()
            yield f"![{text}]({place})\n"
    for task in dict.fromkeys(each.task for each in results):
        own = [each for each in results if each.task == task]
        yield f"## {task}\n"
        yield from _table([each for each in own if not each.offline])
        yield from _offline_table(plan, [each for each in own if each.offline])
        if task in pictures:
            place = pictures[task].relative_to(out.parent).as_posix()
            yield f"![Learning curves on {task}: mean return against env steps]({place})\n"
        anchors = plan.anchors.get(task, {})
        if anchors:
            listed = "; ".join(f"{name}: {number(value)}" for name, value in anchors.items())
            yield f"Published, as lines in the picture: {listed}.\n"
        yield "```text"
        yield from (each.row.command for each in own)
        yield "```\n"
        yield from (f"`{each.row.name}`: {each.row.note}\n" for each in own if each.row.note)
    yield from _origin(results)


def _table(results: Sequence[RowResult]) -> Iterable[str]:
    if not results:
        return
    goals = {each.stop_value for each in results}
    yield f"Stop value: {', '.join(f'{goal:g}' for goal in sorted(goals))}.\n"
    yield "| Row | Preset | Algorithm | Solved | Env steps | Seconds | Core-hours | Best | Last |"
    yield "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for each in results:
        solved = f"{each.solved} of {len(each.records)}" if each.records else "not run"
        cells = [
            f"`{each.row.name}`",
            each.preset or "none",
            f"`{each.algorithm}`",
            solved + _missing(each),
            _range(each, "solved_step"),
            _range(each, "wall_s"),
            "" if (hours := each.core_hours()) is None else _short(hours),
            _estimate(each.returns()),
            _estimate(each.last_returns()),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _offline_table(plan: Plan, results: Sequence[RowResult]) -> Iterable[str]:
    if not results:
        return
    yield "From data sets:\n"
    yield "| Row | Preset | Algorithm | Seeds | Updates | Core-hours | Best | Last | Normalised |"
    yield "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for each in results:
        ends = plan.normalised.get(each.task)
        updates = statistics.median([record.train_iter for record in each.records] or [0])
        cells = [
            f"`{each.row.name}`",
            each.preset or "none",
            f"`{each.algorithm}`",
            f"{len(each.records) or 'not run'}{_missing(each)}",
            _short(updates) if each.records else "",
            "" if (hours := each.core_hours()) is None else _short(hours),
            _estimate(each.returns()),
            _estimate(each.last_returns()),
            "" if ends is None else _estimate(each.normalised(*ends)),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _missing(result: RowResult) -> str:
    rest = len(result.row.seeds) - len(result.records)
    return f", {rest} not run" if rest and result.records else ""


def _range(result: RowResult, name: str) -> str:
    found = result.until_solved(name)
    if found is None:
        return ""
    spent = max(getattr(record, name) for record in result.records)
    median, low, high = (
        f"> {_short(spent)}" if value == float("inf") else _short(value) for value in found
    )
    return median if low == high else f"{median} ({low} to {high})"


def _short(value: float) -> str:
    """Writes 812.3 as 812, 12345 as 12.3k."""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 1e3:
        return f"{value / 1e3:.3g}k"
    return f"{value:.3g}"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ""
    return f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"


def _scores(plan: Plan, results: Sequence[RowResult]) -> Iterable[str]:
    """Writes the interquartile mean over environments of the algorithms that have several."""
    rows = []
    for algorithm, tasks in _several(plan, results).items():
        found = iqm_interval(list(tasks.values()))
        shown = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
        rows.append(f"| `{algorithm}` | {', '.join(tasks)} | {shown} |")
    if rows:
        yield "## All environments\n"
        zero_one = "; ".join(
            f"{task}: {low:g}, {high:g}" for task, (low, high) in plan.scores.items()
        )
        yield (
            "Interquartile mean of the scores over environments and seeds, with stratified"
            f" bootstrap interval. Returns with the scores 0 and 1: {zero_one}.\n"
        )
        yield from ("| Algorithm | Environments | Score |", "| --- | --- | ---: |", *rows, "")


def _several(plan: Plan, results: Sequence[RowResult]) -> dict[str, dict[str, list[float]]]:
    """Returns the scores by algorithm and environment, of algorithms with several of these."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in results:
        if each.records and each.task in plan.scores:
            own = found.setdefault(each.algorithm, {}).setdefault(each.task, [])
            own.extend(_scaled(plan, each))
    return {algorithm: tasks for algorithm, tasks in found.items() if len(tasks) > 1}


def _scaled(plan: Plan, result: RowResult) -> list[float]:
    low, high = plan.scores[result.task]
    return [(score - low) / (high - low) for score in result.scores()]


def _draw_summary(plan: Plan, results: Sequence[RowResult], folder: Path) -> dict[str, Path]:
    """Draws the pictures of all environments; returns those for which there are records."""
    from dicore_tools.reports.picture import save
    from dicore_tools.results.summary_picture import Cost, draw_costs, draw_profiles

    found: dict[str, Path] = {}
    several = _several(plan, results)
    if several:
        found[_PROFILES] = folder / f"{_PROFILES}.svg"
        profiles = {name: list(tasks.values()) for name, tasks in several.items()}
        save(draw_profiles(profiles), found[_PROFILES])
    costs = [
        Cost(each.row.name, each.algorithm, hours, float(interquartile_mean(_scaled(plan, each))))
        for each in results
        if each.task in plan.scores and (hours := each.core_hours()) is not None
    ]
    if costs:
        found[_COSTS] = folder / f"{_COSTS}.svg"
        save(draw_costs(costs), found[_COSTS])
    return found


def _origin(results: Sequence[RowResult]) -> Iterable[str]:
    records = [record for each in results for record in each.records]
    if not records:
        return
    versions = {
        f"{name} {version}"
        for record in records
        for name, version in record.versions.items()
        if version and name in ("dicore", "torch", "gymnasium", "python")
    }
    days = sorted(record.finished[:10] for record in records if record.finished)
    span = "" if not days else f", {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")
    yield f"Measured with {', '.join(sorted(versions))}{span}.\n"


def _draw(results: Sequence[RowResult], anchors: Mapping[str, float], file: Path) -> bool:
    """Draws the curves of an environment; returns False if there are none."""
    from dicore_tools.reports.picture import draw, save

    groups = [
        Group(each.row.name, curves)
        for each in results
        if not each.offline  # has no env steps
        and (curves := [_curve(record, each) for record in each.records if record.curve])
    ]
    if groups:
        save(draw(groups, title=results[0].task, anchors=anchors), file)
    return bool(groups)


def _curve(record: Record, result: RowResult) -> Curve:
    x, y = np.array(record.curve, np.float64).T
    config = {"env": {"stop_value": result.stop_value}}
    return Curve(Path(record.row), x, y, config, record.stop)


def _file_name(task: str) -> str:
    name = "".join(sign if sign.isalnum() or sign in "-." else "_" for sign in task)
    return name.lstrip("._") or name  # ./file.py:Class: no hidden file
