"""Reads run folders at once: record, config and the curves of all metrics.

Shapes: P points of a metric.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psutil

from dicore.errors import UsageError
from dicore.run.folder import RunFolder
from dicore_tools.reports.columns import Columns, read_columns
from dicore_tools.reports.curves import DAMAGED, TAG, Axis, Curve, along, env_name, read_json_file

__all__ = ["NONE", "RunData", "differing", "read_record", "read_run", "read_runs", "state_of"]

Floats = npt.NDArray[np.float64]

NONE: Final = "\u2013"
"""What a table shows where there is no value."""
_CLOCK_S: Final = 60.0
"""By how much the clocks of files and of processes may differ."""
_TREES = ("limits", "versions")
_NUMBERS = ("env_step", "train_iter", "wall_s", "best_return")


@dataclass(frozen=True, slots=True)
class RunData:
    """A run.

    Args:
        folder: Its folder.
        record: The contents of `run.json`.
        config: Its config, as plain dicts.
        columns: For each metric float64 [P, 4]: env step, update, seconds, value.
    """

    folder: RunFolder
    record: Mapping[str, Any]
    config: Mapping[str, Any]
    columns: Mapping[str, Floats]

    @property
    def result(self) -> Mapping[str, Any]:
        """What the run has come to, from its record: empty while it runs."""
        found: Mapping[str, Any] = self.record.get("result") or {}
        return found

    def type_of(self, name: str) -> str:
        """Returns the type of a component of the config, such as `env`; "" if it has none."""
        part = self.config.get(name)
        return str(part.get("type", "")) if isinstance(part, Mapping) else ""

    @property
    def env_name(self) -> str:
        """The id that the environment was made from, or the name of its component."""
        return env_name(self.config)

    @property
    def why(self) -> str:
        """The first line of the error that ended the run; "" if none did."""
        return str(self.record.get("error") or "").partition("\n")[0]

    @property
    def not_finite(self) -> Mapping[str, int]:
        """How many values of each metric are not finite; the columns do not have them."""
        return self.columns.not_finite if isinstance(self.columns, Columns) else {}

    def curve(self, tag: str = TAG, axis: Axis = "env_step") -> Curve | None:
        """Returns the curve of a metric; None if the run has no value of it."""
        points = self.columns.get(tag)
        if points is None:
            return None
        solved = bool(self.result.get("stop"))
        return Curve(self.folder.path, *along(points, axis), self.config, solved)

    @property
    def state(self) -> str:
        """What became of the run: `running`, `killed`, `failed`, `reached the stop value`, …."""
        status = str(self.record.get("status", "unknown"))
        if status == "done":
            return "reached the stop value" if self.result.get("stop") else "used up the budget"
        if status == "running" and not _may_be_alive(
            self.record, self.folder.metadata.stat().st_mtime
        ):
            return "killed"
        return {"error": "failed"}.get(status, status)

    @property
    def measure(self) -> str:
        """What the stop value is of: `return`, `win_rate` or `reward_per_step`."""
        try:
            return str(self.config["policy"]["eval"]["evaluator"]["measure"])
        except (LookupError, TypeError):
            return "return"

    @property
    def best_return(self) -> float | None:
        """Highest mean return of an evaluation; None before the first."""
        points = self.columns.get(TAG)
        return None if points is None else float(points[:, 3].max())

    @property
    def progress(self) -> tuple[int, int, float]:
        """Env steps, updates and seconds so far."""
        last = [points[-1, :3] for points in self.columns.values()]
        found = np.max(last, axis=0) if last else np.zeros(3)
        step, updates, seconds = map(float, found)
        result = self.result
        return (
            int(result.get("env_step") or step),
            int(result.get("train_iter") or updates),
            float(result.get("wall_s") or seconds),
        )


def read_run(folder: RunFolder, columns: Mapping[str, Floats] | None = None) -> RunData:
    """Reads a run, which may be unfinished.

    Args:
        folder: Its folder.
        columns: Its metrics, if they were read already.

    Raises:
        UsageError: its files cannot be read.
    """
    if columns is None:
        columns = read_columns(folder.metrics) if lexists(folder.metrics) else Columns()
    record, config = read_record(folder)
    return RunData(folder, record, config, columns)


def read_record(folder: RunFolder) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the contents of `run.json`, and the config in `config.json`, of a run.

    Raises:
        UsageError: one cannot be read, or is not one that dicore wrote.
    """
    record, config = _json(folder.metadata), _json(folder.config).get("config")
    for file, ours in ((folder.metadata, _is_ours(record)), (folder.config, _is_config(config))):
        if not ours:
            raise _not_ours(file)
    return record, config


def state_of(folder: RunFolder) -> str:
    """Returns what became of a run, from its `run.json` alone; see `RunData.state`.

    Raises:
        UsageError: the file cannot be read.
    """
    return RunData(folder, _json(folder.metadata), {}, {}).state


def _is_ours(record: Mapping[str, Any]) -> bool:
    """Returns whether the members of a `run.json` that the page shows have their types."""
    result, components = record.get("result") or {}, record.get("components") or {}
    return (
        all(map(_is_tree, (result, components, *(record.get(name) or {} for name in _TREES))))
        and all(map(_is_tree, components.values()))
        and all(_is_finite(result.get(name) or 0) for name in _NUMBERS)
        and isinstance(record.get("argv") or [], list)
        and isinstance(record.get("seed"), int | None)
        and isinstance(record.get("status", ""), str)
    )


def _is_config(config: Any) -> bool:
    parts = ("env", "policy")
    return _is_tree(config) and bool(config) and all(_is_tree(config.get(n) or {}) for n in parts)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < math.inf


def _is_tree(value: Any) -> bool:
    return isinstance(value, Mapping)


def read_runs(folders: Sequence[RunFolder]) -> tuple[list[RunData], list[str]]:
    """Reads runs; those that are damaged are left out.

    Returns:
        The runs, and why others cannot be read.

    Raises:
        UsageError: none can be read.
    """
    runs, problems = [], []
    for folder in folders:
        try:
            runs.append(read_run(folder))
        except (UsageError, OSError) as error:
            problems.append(f"{folder}: {error}")
    if not runs:
        raise UsageError("\n".join(problems))
    return runs, problems


def _may_be_alive(record: Mapping[str, Any], written: float) -> bool:
    """Returns whether the process of a run may still exist; False: it ended on this machine.

    Args:
        record: What it wrote to `run.json`.
        written: When, in seconds since 1970: a later process of this number is another.
    """
    pid = record.get("pid")
    if record.get("host") != platform.node() or not isinstance(pid, int) or pid < 1:
        return True
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and process.create_time() < written + _CLOCK_S
    except psutil.NoSuchProcess:
        return False
    except (psutil.Error, OverflowError):
        return True


def differing(runs: Sequence[RunData]) -> dict[str, list[str]]:
    """Returns the options that differ between runs: the value of each run, as text, by path."""
    flat = [
        {path: str(value) for path, value in [*leaves(run.config), *_budget(run)]} for run in runs
    ]
    paths = dict.fromkeys(path for each in flat for path in each)
    found = {path: [each.get(path, NONE) for each in flat] for path in paths}
    return {path: values for path, values in found.items() if len(set(values)) > 1}


def _budget(run: RunData) -> Iterator[tuple[str, object]]:
    """Yields the budget of a run, which may have been raised since its config was written."""
    limits = run.record.get("limits") or {}
    for name in ("max_env_step", "max_train_iter"):
        if name in limits:
            yield f"pipeline.{name}", limits[name]


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Yields the path and value of every leaf of nested dicts."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _json(file: Path) -> Any:
    content = read_json_file(file)
    if not isinstance(content, dict):
        raise _not_ours(file)
    return content


def _not_ours(file: Path) -> UsageError:
    return UsageError(f"cannot read {file}: it is not one that dicore wrote", hint=DAMAGED)
