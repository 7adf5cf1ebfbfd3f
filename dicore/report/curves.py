"""Learning curves out of run folders: one for each run, one for each group of runs.

Shapes: R runs of a group, P points of one run, G points of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dicore.config.exact import loads
from dicore.errors import UsageError
from dicore.run.folder import RunFolder
from dicore.run.metrics import RESERVED, read_metrics

__all__ = [
    "AXES",
    "TAG",
    "Axis",
    "Band",
    "Curve",
    "Group",
    "find_runs",
    "goal_of",
    "group_runs",
    "read_curve",
]

Axis = Literal["env_step", "train_iter", "wall"]
Band = Literal["std", "minmax", "none"]
Floats = npt.NDArray[np.float64]

TAG: Final = "evaluator/return_mean"
AXES: Final[Mapping[Axis, tuple[str, str]]] = {
    "env_step": ("step", "env steps"),
    "train_iter": ("train_iter", "updates"),
    "wall": ("time", "wall time in s"),
}
"""For each axis its member of a line of metrics, and its title."""
_GRID = 200


@dataclass(frozen=True, slots=True)
class Curve:
    """One run's numbers.

    Args:
        folder: The run's folder.
        x: float64 [P], rising.
        y: float64 [P], finite.
        config: The run's config, as plain dicts.
        solved: The run ended by its stop value; its last value stands for all that would follow.
    """

    folder: Path
    x: Floats
    y: Floats
    config: Mapping[str, Any] = field(default_factory=dict)
    solved: bool = False

    def smooth(self, window: int) -> Curve:
        """Returns the same curve with each value the mean of the last `window`.

        Args:
            window: Number of points; fewer at the beginning.
        """
        sums = np.concatenate([[0.0], np.cumsum(self.y)])
        last = np.arange(1, len(self.y) + 1)
        first = np.maximum(last - window, 0)
        smoothed = (sums[last] - sums[first]) / (last - first)
        return Curve(self.folder, self.x, smoothed, self.config, self.solved)


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ in nothing but chance.

    Args:
        label: For the legend.
        curves: One for each run.
    """

    label: str
    curves: list[Curve]

    def middle(self, band: Band = "std") -> tuple[Floats, Floats, Floats, Floats]:
        """Returns grid, mean, lower and upper edge of the band: float64 [G] each.

        The grid goes as far as every run does; a run that reached its stop value goes on with its
        last one. The mean is over runs, at equal x, linearly interpolated.
        """
        first = max(curve.x[0] for curve in self.curves)
        ends = [curve.x[-1] for curve in self.curves if not curve.solved]
        last = min(ends) if ends else max(curve.x[-1] for curve in self.curves)
        grid = np.linspace(first, max(first, last), _GRID)
        values = np.stack([np.interp(grid, curve.x, curve.y) for curve in self.curves])
        mean = values.mean(0)
        if band == "minmax":
            return grid, mean, values.min(0), values.max(0)
        spread = values.std(0, ddof=1) if band == "std" and len(values) > 1 else 0.0 * mean
        return grid, mean, mean - spread, mean + spread


def find_runs(places: Sequence[str | Path]) -> list[RunFolder]:
    """Returns the runs at or below some folders, sorted below each, none twice.

    Raises:
        UsageError: there is none in one of them.
    """
    found: dict[Path, RunFolder] = {}
    for place in map(Path, places):
        if not place.is_dir():
            raise UsageError(f"{place}: no such folder", hint="name folders of runs")
        folders = [file.parent for file in sorted(place.rglob("config.json"))]
        runs = [RunFolder(folder) for folder in folders if RunFolder(folder).record.is_file()]
        if not runs:
            raise UsageError(f"{place}: there is no run in it", hint="dicore train makes runs")
        found |= {run.path.resolve(): run for run in runs}
    return list(found.values())


def read_curve(run: RunFolder, *, tag: str = TAG, axis: Axis = "env_step") -> Curve:
    """Reads one curve; a run that still runs, or was killed, has what it has.

    Args:
        run: The run.
        tag: The number to show.
        axis: What it is shown against.

    Raises:
        UsageError: the run's files cannot be read, or it has no such number.
    """
    member = AXES[axis][0]
    points: list[tuple[float, float]] = []
    tags: set[str] = set()
    if run.metrics.is_file():
        for line in read_metrics(run.metrics):
            tags |= line.keys()
            if tag in line and math.isfinite(line[tag]):
                points.append((float(line[member]), float(line[tag])))
    if not points:
        raise UsageError(f"{run}: no '{tag}' in {run.metrics}", hint=_near(tag, tags))
    points.sort(key=lambda point: point[0])
    x, y = np.array(points).T
    record = _json(run.record)
    result = record.get("result") or {}
    return Curve(run.path, x, y, _json(run.config).get("config", {}), bool(result.get("stop")))


def group_runs(curves: Sequence[Curve], by: str | None = None) -> list[Group]:
    """Puts curves together whose runs are alike.

    Args:
        curves: The curves.
        by: `run` for one group each, or the path of an option (`policy.learn.batch_size`); None
            for environment and policy.

    Raises:
        UsageError: no run has such an option.
    """
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(_label(curve, by), []).append(curve)
    if by not in (None, "run") and set(groups) == {f"{by} unknown"}:
        raise UsageError(f"no run has an option '{by}'", hint="dicore show lists options")
    return [Group(label, members) for label, members in groups.items()]


def goal_of(curve: Curve) -> float | None:
    """Returns the mean return that ends the run of a curve; None where none does."""
    goal = _value(curve.config, "env.stop_value")
    return goal if isinstance(goal, int | float) and math.isfinite(goal) else None


def _label(curve: Curve, by: str | None) -> str:
    if by == "run":
        return str(curve.folder)
    if by is not None:
        value = _value(curve.config, by)
        return f"{by} unknown" if value is None else f"{by.rsplit('.', 1)[-1]} = {value}"
    env = _value(curve.config, "env.env_id") or _value(curve.config, "env.type")
    policy = _value(curve.config, "policy.type")
    return f"{policy} on {env}" if env and policy else str(curve.folder)


def _value(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree["type"] if isinstance(tree, Mapping) and "type" in tree else tree


def _json(file: Path) -> dict[str, Any]:
    try:
        content = loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    return content if isinstance(content, dict) else {}


def _near(tag: str, tags: set[str]) -> str:
    from dicore_registry import nearest

    close = nearest(tag, tags - {*RESERVED})
    if close:
        return f"did you mean '{close}'?"
    return "log/metrics.jsonl has the names" if tags else "nothing has been logged yet"
