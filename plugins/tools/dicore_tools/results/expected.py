"""What short trainings are expected to measure: an interval for each row and measure.

Shapes: R recorded seeds, K checked seeds.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from dicore.config.convert import convert
from dicore.errors import UsageError
from dicore.run.atomic import read_regular, write_file
from dicore_registry.explain import brief
from dicore_tools.results.plan import Plan, Row
from dicore_tools.results.records import Record

__all__ = [
    "Expected",
    "Finding",
    "Measured",
    "compared",
    "is_whole",
    "measures",
    "options_of",
    "read_expected",
    "recorded",
    "write_expected",
]

_WIDTH: Final = 4.0
"""Half an interval in standard errors of the difference of two means: of R and of K seeds.

Seeds that are drawn again are outside with a probability of 2.8 % for R = 4 and 0.5 % for R = 8 (t
distribution). Equal code on an equal machine measures the same, as a check trains recorded seeds.
"""
_FLOOR: Final = 0.01
"""Least half of an interval, as a share of the mean: all seeds may have measured the same."""
_LEAST_SEEDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of a row over the recorded seeds.

    Args:
        mean: Mean over the seeds.
        deviation: Standard deviation over the seeds.
        low: Least mean of a check that passes.
        high: Largest one.
    """

    mean: float
    deviation: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is expected of a row.

    Args:
        options: Its options when it was recorded; see `options_of`.
        seeds: Number of recorded seeds, R.
        git: Revision of the code that was measured, if any.
        measures: By name.
    """

    options: Mapping[str, Any]
    seeds: int
    git: str | None
    measures: Mapping[str, Measured]


@dataclass(frozen=True, slots=True)
class Finding:
    """A measure of a row beside its interval; `found` is NaN if it could not be measured."""

    row: str
    measure: str
    found: float
    low: float
    high: float

    @property
    def outside(self) -> bool:
        """Whether the measure is outside of its interval, or not finite."""
        return not self.low <= self.found <= self.high


def measures(record: Record) -> dict[str, float]:
    """Returns what is compared of a run: its returns, and the metrics of the log.

    `curve` is the mean over the evaluations of the training, without that before the first update;
    `last` the mean return of the last checkpoint on episodes that the training did not use.
    """
    later = [mean for step, mean in record.curve if step > 0] or [m for _, m in record.curve]
    found = {
        "curve": statistics.fmean(later) if later else math.nan,
        "last": statistics.fmean(record.last_returns) if record.last_returns else math.nan,
    }
    return {**found, **record.logged}


def recorded(plan: Plan, rows: Sequence[Row], records: Sequence[Record]) -> dict[str, Expected]:
    """Computes the intervals of rows from the records of all their seeds.

    An interval is mean ± 4 s (1/R + 1/K)^0.5, at least 1 % of the mean to each side.

    Raises:
        UsageError: a row has fewer than three seeds, or a measure is not finite.
    """
    found = {}
    for row in rows:
        own = [each for each in records if each.row == row.name]
        if len(own) < _LEAST_SEEDS:
            raise UsageError(
                f"row {row.name}: an interval needs {_LEAST_SEEDS} seeds, there are {len(own)}",
                hint="add seeds to the row, and record it again",
            )
        values = [measures(each) for each in own]
        found[row.name] = Expected(
            options=options_of(plan, row), seeds=len(own), git=own[0].git,
            measures={
                name: _interval(f"row {row.name}: {name}", [v[name] for v in values], _checked(row))
                for name in _names(row)
            },
        )  # fmt: skip
    return found


def options_of(plan: Plan, row: Row) -> dict[str, Any]:
    """Returns the options on which the intervals of a row depend."""
    return {
        "settings": plan.settings(row),
        "max_env_step": row.max_env_step,
        "seeds": list(row.seeds[: row.check_seeds]),
        "metrics": list(row.check_metrics),
    }


def is_whole(each: Expected, row: Row) -> bool:
    """Returns whether there is an interval for each measure of a row, finite and not empty."""
    return set(each.measures) == set(_names(row)) and all(
        math.isfinite(found.low) and math.isfinite(found.high) and found.low <= found.high
        for found in each.measures.values()
    )


def _names(row: Row) -> tuple[str, ...]:
    return ("curve", "last", *row.check_metrics)


def _checked(row: Row) -> int:
    return min(row.check_seeds, len(row.seeds))


def _interval(where: str, values: Sequence[float], checked: int) -> Measured:
    if not all(map(math.isfinite, values)):
        raise UsageError(
            f"{where} was {', '.join(f'{each:g}' for each in values)}",
            hint="check_metrics names metrics of log/metrics.jsonl that each seed logs as numbers",
        )
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    half = _WIDTH * deviation * math.sqrt(1 / len(values) + 1 / checked)
    half = max(half, _FLOOR * abs(mean))
    shown = {"mean": mean, "deviation": deviation, "low": mean - half, "high": mean + half}
    return Measured(**{name: float(f"{value:.6g}") for name, value in shown.items()})


def compared(
    rows: Sequence[Row], expected: Mapping[str, Expected], records: Sequence[Record]
) -> Iterator[Finding]:
    """Yields each measure of each row beside its interval; NaN where a seed has no record."""
    for row in rows:
        seeds = row.seeds[: row.check_seeds]
        own = [each for each in records if each.row == row.name and each.seed in seeds]
        values = [measures(each) for each in own]
        for name, each in expected[row.name].measures.items():
            whole = len(own) == len(seeds)
            mean = statistics.fmean(v.get(name, math.nan) for v in values) if whole else math.nan
            yield Finding(row.name, name, mean, each.low, each.high)


def read_expected(file: Path) -> dict[str, Expected]:
    """Reads the intervals by row.

    Raises:
        UsageError: the file is missing or is not one of intervals.
    """
    try:
        return {name: _parsed(each, name) for name, each in json.loads(read_regular(file)).items()}
    except FileNotFoundError as error:
        raise UsageError(
            f"{file}: no such file", hint="record the intervals: --check --record"
        ) from error
    except Exception as error:  # a file can lie in many ways
        raise UsageError(
            f"{file}: not a file of expected intervals: {brief(error)}",
            hint="record it again: --check --record",
        ) from error


def _parsed(tree: Mapping[str, Any], name: str) -> Expected:
    values = _typed(Expected, tree, name)
    values["measures"] = {
        measure: Measured(**_typed(Measured, each, f"{name}.measures.{measure}"))
        for measure, each in tree["measures"].items()
    }
    return Expected(**values)


def _typed(kind: type, tree: Mapping[str, Any], path: str) -> dict[str, Any]:
    hints = {**get_type_hints(kind), "measures": dict[str, Any]}
    return {key: convert(value, hints[key], f"{path}.{key}") for key, value in tree.items()}


def write_expected(file: Path, found: Mapping[str, Expected]) -> None:
    """Writes the intervals of rows, and keeps those of the others.

    Raises:
        UsageError: the file cannot be written, or is not one of intervals.
    """
    kept = read_expected(file) if file.exists() else {}
    rows = {name: asdict(each) for name, each in sorted({**kept, **found}.items())}
    try:
        write_file(file, f"{json.dumps(rows, indent=1)}\n".encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
