"""What a study has found: a table, a picture, and the config of the best trial."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dicore.errors import UsageError
from dicore.run.atomic import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Found", "draw", "found", "importances", "table", "write_best"]


_FEW = 8
"""Fewer trials say nothing about which option matters."""


class Found(NamedTuple):
    """One trial that ended.

    Args:
        number: Its number.
        score: The value that the study maximises.
        complete: False: ended early by the pruner.
        values: The options that it set.
        env_step: Env steps of its last training.
        seconds: Time of all its trainings.
        error: Why it failed; "" without an error.
    """

    number: int
    score: float
    complete: bool
    values: dict[str, Any]
    env_step: int
    seconds: float
    error: str


def found(study: Any) -> list[Found]:
    """Returns the trials of a study that ended, the best first, failed ones last."""
    rows = []
    for trial in study.get_trials(deepcopy=False):
        facts = trial.user_attrs
        if "score" not in facts and "error" not in facts:
            continue
        choices = {
            name: isinstance(value, str) for name, value in trial.params.items()
        }  # choices are JSON, so that any value can be one
        values = {
            name: json.loads(value) if choices[name] else value
            for name, value in trial.params.items()
        }
        rows.append(
            Found(
                trial.number, float(facts.get("score", float("-inf"))),
                trial.state.name == "COMPLETE", values, int(facts.get("env_step", 0)),
                float(facts.get("seconds", 0.0)), str(facts.get("error", "")),
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: (bool(row.error), not row.complete, -row.score))


def importances(study: Any) -> dict[str, float]:
    """Returns the share of each option in the differences of the scores; {} for few trials.

    Computed by PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255).
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    if sum(row.complete for row in found(study)) < _FEW:
        return {}
    with contextlib.suppress(ValueError, RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about trials of one score
        return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
    return {}


def table(rows: Sequence[Found], most: int) -> tuple[list[str], list[list[str]]]:
    """Returns header and rows of the best trials."""
    names = sorted({name for row in rows for name in row.values})
    last = [name.rpartition(".")[2] for name in names]
    unique = {
        name: short for name, short in zip(names, last, strict=True) if last.count(short) == 1
    }
    titles = [unique.get(name, name) for name in names]
    header = ["trial", "score", *titles, "env steps", "s", ""]
    cells = []
    for row in rows[:most]:
        state = row.error.splitlines()[0] if row.error else "" if row.complete else "ended early"
        score = "" if row.error else f"{row.score:.4g}"
        values = [_short(row.values.get(name)) for name in names]
        cost = [str(row.env_step), f"{row.seconds:.0f}"]
        cells.append([str(row.number), score, *values, *cost, state])
    return header, cells


def write_best(rows: Sequence[Found], file: Path) -> None:
    """Writes the config of the best trial, as recorded by its first run.

    Raises:
        UsageError: no trial is complete, or the file cannot be written.
    """
    from dicore.run.request import TrainRequest
    from dicore_tools.commands.config_view import view_config
    from dicore_tools.config_formats.editor_schema import config_text, write_schema

    best = rows[0] if rows and rows[0].complete else None
    if best is None:
        raise UsageError("no trial was completed")
    folder = file.parent / f"trial_{best.number:04d}"
    run = min(folder.glob("seed_*"), default=None)
    if run is None:
        raise UsageError(f"{folder}: the runs of the best trial are not there")
    with contextlib.redirect_stdout(None):
        view = view_config(str(run), TrainRequest(argv=()))
    tree = {name: value for name, value in view.tree.items() if name != "exp_name"}
    pipeline = tree.get("pipeline")
    if isinstance(pipeline, Mapping):  # trials have no logger
        tree["pipeline"] = {name: v for name, v in pipeline.items() if name != "logger"}
    text = f"# Trial {best.number} of {file.parent}: score {best.score:.6g}.\n"
    text = config_text(tree, view.origin, file.suffix).replace("\n", f"\n{text}", 1)
    try:
        write_file(file, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    write_schema(file.parent)


def draw(rows: Sequence[Found], file: Path) -> None:
    """Draws the scores by trial, and by the value of each option.

    Raises:
        UsageError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "the picture needs the package matplotlib", hint="pip install 'dicore-tools[plot]'"
        ) from error
    from dicore_tools.reports.picture import save

    done = [row for row in rows if not row.error and row.score > float("-inf")]
    names = sorted({name for row in done for name in row.values})
    figure = Figure(figsize=(3.2 * (len(names) + 1), 3.2), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(names) + 1, sharey=True, squeeze=False)[0]
    _history(panels[0], sorted(done, key=lambda row: row.number))
    for axes, name in zip(panels[1:], names, strict=True):
        _slice(axes, done, name)
    save(figure, file)


def _history(axes: Axes, rows: Sequence[Found]) -> None:
    best, line = float("-inf"), []
    for row in rows:
        best = max(best, row.score) if row.complete else best
        line.append(best)
    numbers = [row.number for row in rows]
    _points(axes, numbers, rows)
    axes.step(numbers, line, where="post", color="#d55e00", label="best so far")
    axes.set(xlabel="trial", ylabel="score")
    axes.legend(loc="lower right", frameon=False)


def _slice(axes: Axes, rows: Sequence[Found], name: str) -> None:
    values: list[Any] = [row.values.get(name) for row in rows]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    _points(axes, values if numbers else [_short(value) for value in values], rows)
    positive = numbers and min(values, default=0) > 0
    if positive and max(values) > 20 * min(values):
        axes.set_xscale("log")
    axes.set_xlabel(name.rpartition(".")[2])


def _points(axes: Axes, x: Sequence[Any], rows: Sequence[Found]) -> None:
    shades = ["#0072b2" if row.complete else "#bbbbbb" for row in rows]
    axes.scatter(x, [row.score for row in rows], c=shades, s=18)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value).strip('"')
