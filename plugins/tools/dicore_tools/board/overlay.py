"""Curves of several runs as plain lists, as the page draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dicore_tools.reports.chart import thinned
from dicore_tools.reports.curves import AXES, TAG, Axis, Band, Curve, Group, goal_of, group_runs
from dicore_tools.reports.run_data import Floats, RunData

__all__ = ["View", "overlay"]

_MOST_POINTS: Final = 60_000
"""Points of all lines together: more take a browser seconds to draw."""
_LINE_POINTS: Final = (60, 600)
"""Fewest and most points of a line."""


@dataclass(frozen=True, slots=True)
class View:
    """What is drawn of a metric.

    Args:
        metric: Its name.
        axis: Quantity on the x axis.
        band: Band around the mean of a group.
        window: Points of the moving average.
        by: Groups: `config` (runs of the same config, whatever their seeds), `run`, or the path of
            an option.
    """

    metric: str = TAG
    axis: Axis = "env_step"
    band: Band = "std"
    window: int = 1
    by: str = "config"


def overlay(runs: Sequence[RunData], names: Mapping[Path, str], view: View) -> dict[str, object]:
    """Returns the curves of runs, by group.

    Args:
        runs: The runs; those without values of the metric are left out.
        names: Name of each run, by its folder.
        view: What is drawn.

    Raises:
        UsageError: no run has the option to group by.
    """
    found = [run.curve(view.metric, view.axis) for run in runs]
    curves = [curve.smooth(view.window) for curve in found if curve is not None]
    if view.by == "run":
        groups = [Group(_name(curve, names), [curve]) for curve in curves]
    else:
        groups = group_runs(curves, None if view.by == "config" else view.by) if curves else []
    most = max(_LINE_POINTS[0], min(_LINE_POINTS[1], _MOST_POINTS // max(len(curves), 1)))
    return {
        "metric": view.metric,
        "x_title": AXES[view.axis][1],
        "goal": _goal(curves) if view.metric == TAG else None,
        "without": len(runs) - len(curves),
        "groups": [_group(group, names, view.band, most) for group in groups],
    }


def _goal(curves: Sequence[Curve]) -> float | None:
    """Returns the stop value of all runs; None if it is far away from the curves."""
    goals = {goal_of(curve) for curve in curves}
    goal = goals.pop() if len(goals) == 1 else None
    if goal is None:
        return None
    low = min(float(curve.y.min()) for curve in curves)
    high = max(float(curve.y.max()) for curve in curves)
    return goal if low - (high - low) <= goal <= high + (high - low) else None


def _group(group: Group, names: Mapping[Path, str], band: Band, most: int) -> dict[str, object]:
    lines = [
        _line(curve, names.get(curve.folder, curve.folder.name), most) for curve in group.curves
    ]
    if len(lines) == 1:
        return {"label": group.label, "lines": lines, "mean": None}
    middle = group.middle(band)
    mean = {"x": middle.grid.tolist(), "y": _rounded(middle.mean)}
    if band != "none":
        mean |= {"low": _rounded(middle.low), "high": _rounded(middle.high)}
    return {"label": group.label, "lines": lines, "mean": mean}


def _name(curve: Curve, names: Mapping[Path, str]) -> str:
    return names.get(curve.folder, curve.folder.name)  # it may be gone by now


def _line(curve: Curve, name: str, most: int) -> dict[str, object]:
    x, y = thinned(curve.x, curve.y, most)
    return {"name": name, "x": x.tolist(), "y": _rounded(y)}


def _rounded(values: Floats) -> list[float]:
    """Returns values with six digits each, which are all that a picture shows."""
    return [float(f"{value:.6g}") for value in values]
