"""Reads learning curves from run folders and groups them.

Shapes: P points of a run, G points of the grid of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONDecodeError
from os.path import lexists
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dicore.data.json_codec import loads
from dicore.errors import UsageError
from dicore.run.atomic import read_json
from dicore.run.folder import RunFolder
from dicore_tools.reports.columns import AT, LARGEST, read_columns

__all__ = [
    "AXES",
    "DAMAGED",
    "TAG",
    "Axis",
    "Band",
    "Curve",
    "Group",
    "Middle",
    "along",
    "common_label",
    "env_name",
    "find_runs",
    "goal_of",
    "group_runs",
    "read_curve",
    "read_json_file",
    "unread",
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
"""For each axis: key in log/metrics.jsonl, and title."""
DAMAGED: Final = "it was damaged or replaced: restore it from a copy, or leave the run out"
"""The hint where a file of a run is not as dicore writes it."""
_GRID_POINTS = 200
_MAX_LABEL_OPTIONS = 3
_IGNORED = frozenset(
    {"exp_name", "seed", "stop_value", "max_env_step", "max_train_iter", "train_iterations",
     "logger", "hook", "num_threads",
     "eval_freq", "final_eval"}
)  # fmt: skip
"""Options that set budget, evaluation or logging of a run, but not how it learns."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of one run.

    Args:
        folder: The run folder.
        x: float64 [P], increasing.
        y: float64 [P], finite.
        config: Config of the run as plain dicts.
        solved: Whether the run reached its stop value.
    """

    folder: Path
    x: Floats
    y: Floats
    config: Mapping[str, Any] = field(default_factory=dict)
    solved: bool = False

    def smooth(self, window: int) -> Curve:
        """Returns the moving average of the curve.

        Args:
            window: Number of points; fewer at the beginning.
        """
        if window == 1 or not len(self.y):
            return self
        padded = np.concatenate([np.zeros(window - 1), self.y])
        sums = np.lib.stride_tricks.sliding_window_view(padded, window).sum(1)
        smoothed = sums / np.minimum(np.arange(1, len(self.y) + 1), window)
        return Curve(self.folder, self.x, smoothed, self.config, self.solved)


def env_name(config: Mapping[str, Any]) -> str:
    """Returns the id that a run's environment was made from, or the name of its component."""
    part = config.get("env")
    return str(part.get("env_id") or part.get("type", "")) if isinstance(part, Mapping) else ""


class Middle(NamedTuple):
    """Mean and band of a group of runs.

    Args:
        grid: float64 [G], increasing.
        mean: float64 [G].
        low: float64 [G], lower edge of the band.
        high: float64 [G], upper edge of the band.
        runs: int64 [G], number of runs that have values there.
    """

    grid: Floats
    mean: Floats
    low: Floats
    high: Floats
    runs: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Runs with the same config and different seeds.

    Args:
        label: Label in the legend.
        curves: One per run.
    """

    label: str
    curves: list[Curve]

    def middle(self, band: Band = "std") -> Middle:
        """Returns the mean over runs at each x, linearly interpolated.

        The grid ends where fewer than two runs have values. The curve of a run that reached its
        stop value is extended with its last value.
        """
        count = len(self.curves)
        first = max(curve.x[0] for curve in self.curves)
        longest = max(curve.x[-1] for curve in self.curves)
        ends = sorted(longest if each.solved else each.x[-1] for each in self.curves)
        last = max(first, ends[-min(2, count)])
        inside = [end for end in ends if first < end < last]  # the mean may jump there
        grid = np.union1d(np.linspace(first, last, _GRID_POINTS), inside)
        values = np.stack([np.interp(grid, curve.x, curve.y) for curve in self.curves])
        for row, curve in zip(values, self.curves, strict=True):
            if not curve.solved:
                row[(grid > curve.x[-1]) & (grid > first)] = np.nan
        runs = np.isfinite(values).sum(0)
        mean = np.nanmean(values, 0)
        if band == "minmax":
            return Middle(grid, mean, np.nanmin(values, 0), np.nanmax(values, 0), runs)
        squares = np.nansum((values - mean) ** 2, 0)
        spread = np.sqrt(squares / np.maximum(runs - 1, 1)) if band == "std" else 0.0 * mean
        return Middle(grid, mean, mean - spread, mean + spread, runs)


def find_runs(places: Sequence[str | Path]) -> list[RunFolder]:
    """Returns the runs in folders, without duplicates.

    Args:
        places: Folders, which are searched recursively, or summary files of several seeds.

    Raises:
        UsageError: a folder contains no run.
    """
    found: dict[Path, RunFolder] = {}
    for place in map(Path, places):
        if place.is_file():
            runs = _summarized(place)
        elif place.is_dir():
            folders = [file.parent for file in sorted(place.rglob("config.json"))]
            runs = [RunFolder(folder) for folder in folders if RunFolder(folder).metadata.is_file()]
        else:
            raise UsageError(
                f"{place}: no such folder", hint="pass run folders, or a folder that contains runs"
            )
        if not runs:
            raise UsageError(
                f"{place}: no runs found", hint="pass run folders, or a folder that contains runs"
            )
        found |= {run.path.resolve(): run for run in runs}
    return list(found.values())


def read_curve(run: RunFolder, *, tag: str = TAG, axis: Axis = "env_step") -> Curve:
    """Reads the curve of a run, which may be unfinished.

    Args:
        run: The run.
        tag: The metric.
        axis: Quantity on the x axis.

    Raises:
        UsageError: the run's files cannot be read, or it has no such metric.
    """
    file = run.log / "usage.jsonl" if tag.startswith("usage/") else run.metrics
    columns = read_columns(file) if lexists(file) else {}
    if tag not in columns:
        raise UsageError(f"{run}: no finite '{tag}' in {file}", hint=_tag_hint(tag, columns))
    config, result = _json(run.config).get("config"), _json(run.metadata).get("result")
    solved = isinstance(result, Mapping) and bool(result.get("stop"))
    known = config if isinstance(config, Mapping) else {}
    return Curve(run.path, *along(columns[tag], axis), known, solved)


def along(points: Floats, axis: Axis) -> tuple[Floats, Floats]:
    """Returns a metric over an axis: x, increasing, and y, float64 [P].

    Args:
        points: Of the metric, as `read_columns` returns it: float64 [P, 4].
        axis: Quantity on the x axis.
    """
    x = points[:, AT.index(AXES[axis][0])]
    order = np.argsort(x, kind="stable")
    return x[order], points[order, 3]


def group_runs(curves: Sequence[Curve], by: str | None = None) -> list[Group]:
    """Groups curves.

    Args:
        curves: The curves.
        by: Path of an option (`policy.learn.batch_size`), or `run` for one group per run; None:
            runs of the same config, whatever their seeds and budgets.

    Raises:
        UsageError: no run has this option, or it is a section.
    """
    if by is None:
        return _group_by_config(curves)
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(_label(curve, by), []).append(curve)
    if by != "run" and set(groups) == {f"{by} unknown"}:
        raise UsageError(f"no run has an option '{by}'", hint="see dicore config show RUN")
    return [Group(label, members) for label, members in groups.items()]


def common_label(curves: Sequence[Curve]) -> str | None:
    """Returns `dqn on CartPole-v1` if all runs have this algorithm and environment."""
    labels = {_algorithm(curve) for curve in curves}
    return labels.pop() if len(labels) == 1 else None


def goal_of(curve: Curve) -> float | None:
    """Returns the stop value of a run; None if it is not finite, or no picture can show it."""
    goal = _value(curve.config, "env.stop_value")
    return goal if isinstance(goal, int | float) and abs(goal) < LARGEST else None


def _group_by_config(curves: Sequence[Curve]) -> list[Group]:
    """Groups runs by algorithm, environment and config; labels show the options that differ."""
    families: dict[str, list[Curve]] = {}
    for curve in curves:
        families.setdefault(_algorithm(curve), []).append(curve)
    groups: dict[str, list[Curve]] = {}
    for family, members in families.items():
        options = [_options(curve.config) for curve in members]
        differing = _differing(options)
        labels: dict[tuple[str, ...], str] = {}
        for curve, own in zip(members, options, strict=True):
            values = tuple(own.get(path, "unset") for path in differing)
            if values not in labels:
                parts = [f"{name} = {value}" for name, value in zip(
                    differing.values(), values, strict=True)]  # fmt: skip
                hidden = len(parts) - _MAX_LABEL_OPTIONS
                more = f" and {hidden} more" if hidden > 0 else ""
                label = ", ".join(parts[:_MAX_LABEL_OPTIONS]) + more
                if len(families) > 1 or not label:
                    label = f"{family}, {label}" if label else family
                labels[values] = label if label not in labels.values() else str(curve.folder)
            groups.setdefault(labels[values], []).append(curve)
    return [Group(label, members) for label, members in groups.items()]


def _options(tree: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Returns the options that affect learning, by path, as text."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        if key in _IGNORED:
            continue
        if isinstance(value, Mapping) and value:
            found |= _options(value, f"{path}{key}.")
        else:
            found[f"{path}{key}"] = str(value)
    return found


def _differing(options: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the paths of options that differ, with short names.

    Of several options with the same name and values, only the first is returned. Options that only
    some runs have come last.
    """
    paths = {path: None for each in options for path in each}
    paths = dict.fromkeys(sorted(paths, key=lambda path: any(path not in each for each in options)))
    found: dict[tuple[str, tuple[str | None, ...]], str] = {}
    for path in paths:
        values = tuple(each.get(path) for each in options)
        if len(set(values)) > 1:
            found.setdefault((path.rsplit(".", 1)[-1], values), path)
    names = [name for name, _ in found]
    return {path: name if names.count(name) == 1 else path for (name, _), path in found.items()}


def _algorithm(curve: Curve) -> str:
    env = _value(curve.config, "env.env_id") or _value(curve.config, "env.type")
    policy = _value(curve.config, "policy.type")
    return f"{policy} on {env}" if env and policy else str(curve.folder)


def _label(curve: Curve, by: str) -> str:
    if by == "run":
        return str(curve.folder)
    value = _value(curve.config, by)
    if isinstance(value, Mapping):
        raise UsageError(
            f"'{by}' is a section", hint=f"name an option: {by}.{next(iter(value), '')}"
        )
    return f"{by} unknown" if value is None else f"{by.rsplit('.', 1)[-1]} = {value}"


def _summarized(file: Path) -> list[RunFolder]:
    """Returns the runs of a summary file; they may have been moved together with it.

    Raises:
        UsageError: the file is not a summary.
    """
    items = _json(file).get("runs") if file.suffix == ".json" else None
    if not isinstance(items, list):
        raise UsageError(
            f"{file}: not a summary of runs",
            hint="pass run folders, or a folder that contains runs",
        )
    named = [run.get("folder") for run in items if isinstance(run, dict)]
    folders = [Path(each) for each in named if isinstance(each, str) and each]
    beside = [file.parent / folder.name for folder in folders]
    pairs = zip(folders, beside, strict=True)
    runs = [RunFolder(near if near.is_dir() else far) for far, near in pairs]
    return [run for run in runs if run.metadata.is_file()]


def _value(tree: Any, path: str) -> object:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree["type"] if isinstance(tree, Mapping) and "type" in tree else tree


def read_json_file(file: Path) -> object:
    """Returns the content of a JSON file of a run.

    Raises:
        UsageError: it cannot be read, is empty, or is not JSON.
    """
    try:
        return read_json(file, loads)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {unread(error)}", hint=DAMAGED) from None


def unread(error: Exception) -> str:
    """Returns why a JSON file of a run cannot be read: it is empty, or no JSON."""
    if isinstance(error, JSONDecodeError) and not error.doc.strip():
        return "it is empty"
    return f"not JSON: {error}" if isinstance(error, ValueError) else str(error)


def _json(file: Path) -> Mapping[str, object]:
    content = read_json_file(file)
    return content if isinstance(content, Mapping) else {}


def _tag_hint(tag: str, tags: Collection[str]) -> str:
    from dicore_registry import nearest

    inside = [each for each in tags if tag and tag in each]
    means = [each for each in tags if each.endswith(f"{tag}_mean")]  # the first is of evaluations
    close = min(means, default="") or nearest(tag, tags) or min(inside, key=len, default="")
    if close:
        return f"did you mean '{close}'?"
    return "log/metrics.jsonl lists the metric names" if tags else "the run has logged nothing yet"
