"""Plots learning curves: the mean of each group with a band, and each run as a thin line."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from dicore.console import plural
from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore_tools.reports.curves import AXES, TAG, Axis, Band, Group, common_label, goal_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "FORMATS", "check_format", "draw", "new_figure", "save"]

FORMATS: Final = (".png", ".svg", ".pdf")
Limits = tuple[float | None, float | None] | None
COLORS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#b8a800",
)  # fmt: skip
"""Safe for colour-blind readers (Okabe and Ito 2008, jfly.uni-koeln.de/color)."""
_BANDS: Final = {"std": "± std", "minmax": "min to max", "none": ""}
_MAX_LABEL_CHARS, _MAX_LABELS = 60, 6
"""A larger legend is placed outside the axes."""
_LEGEND_LINE_CHARS, _LEGEND_LINE_INCHES = 88, 0.2
"""Size of a line in a legend below the axes."""
_STYLE: Final[Any] = {"font.size": 10, "axes.titlesize": 11, "svg.fonttype": "none"}
_ANCHORS: Final[Any] = ((0, (6, 2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Line styles of values to compare with."""
_STYLES = ("-", "-.", ":")
"""The line style changes each time the colours repeat."""


def draw(
    groups: Sequence[Group],
    *,
    axis: Axis = "env_step",
    tag: str = TAG,
    band: Band = "std",
    title: str | None = None,
    xlim: Limits = None,
    ylim: Limits = None,
    anchors: Mapping[str, float] | None = None,
) -> Figure:
    """Draws groups of runs into one figure.

    Args:
        groups: The groups.
        axis: Quantity on the x axis.
        tag: Metric on the y axis.
        band: Type of the band around the mean.
        title: Title; None: algorithm, environment and number of runs.
        xlim: Range of the x axis; None, or one end None: by the data.
        ylim: Range of the y axis.
        anchors: Values to compare with, each drawn as a line, by label.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(4.0)
    from matplotlib import rc_context

    with rc_context(_STYLE):
        for index, group in enumerate(groups):
            cycle, color = divmod(index, len(COLORS))
            _draw_group(axes, group, COLORS[color], band, _STYLES[cycle % len(_STYLES)])
        _draw_stop_value(axes, groups, tag)
        for number, (name, value) in enumerate((anchors or {}).items()):
            style = _ANCHORS[number % len(_ANCHORS)]
            axes.axhline(value, color=COLORS[-2], linestyle=style, linewidth=1, label=name)
        _format_axes(axes, axis, tag)
        _add_legend(figure, axes)
        axes.set_title(title if title is not None else _title(groups), loc="left")
        axes.set_xlim(*(xlim or (None, None)))
        axes.set_ylim(*(ylim or (None, None)))
    return figure


def new_figure(height: float) -> tuple[Figure, Axes]:
    """Returns an empty figure with its axes.

    Args:
        height: In inches; the width is that of a column of text.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "plotting needs the package matplotlib",
            hint="pip install 'dicore-tools[plot]', or use --text",
        ) from error
    with rc_context(_STYLE):
        figure = Figure(figsize=(7.2, height), dpi=150, layout="constrained")
        return figure, figure.add_subplot()


def check_format(file: Path) -> None:
    """Raises `UsageError` if the suffix of a file is not that of an image."""
    if file.suffix.lower() not in FORMATS:
        formats = ", ".join(FORMATS)
        raise UsageError(f"{file}: unknown image format '{file.suffix}'", hint=f"use {formats}")


def save(figure: Figure, file: Path) -> None:
    """Writes a figure in the format of the file's suffix.

    Raises:
        UsageError: the format is unknown, or the file cannot be written.
    """
    check_format(file)
    from matplotlib import rc_context

    data = io.BytesIO()
    kind = file.suffix.lower()[1:]
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with rc_context({"svg.hashsalt": "dicore", "svg.fonttype": "none"}):  # reproducible
        figure.savefig(data, format=kind, metadata=metadata)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data.getvalue())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error


def _draw_group(axes: Axes, group: Group, color: str, band: Band, style: str) -> None:
    count = len(group.curves)
    if count == 1:
        curve = group.curves[0]
        axes.plot(
            curve.x, curve.y, color=color, linewidth=1.8, label=group.label, ls=style,
            marker=_mark(curve.x),
        )  # fmt: skip
        return
    for curve in group.curves:
        dot = _mark(curve.x)
        axes.plot(
            curve.x, curve.y, color=color, linewidth=0.8, alpha=0.4, marker=dot, markersize=3.5
        )
        if curve.solved:
            axes.plot(curve.x[-1:], curve.y[-1:], "o", color=color, markersize=3.5, alpha=0.7)
    grid, mean, low, high, runs = group.middle(band)
    if band != "none":
        axes.fill_between(grid, low, high, color=color, alpha=0.15, linewidth=0)
        if len(grid) == 1:
            axes.vlines(grid, low, high, color=color, alpha=0.3, linewidth=4)
    text = f"mean of {count}" + (f", {_BANDS[band]}" if band != "none" else "")
    complete = runs == count
    if not complete.all():
        text += "; dashed: fewer"
        rest = slice(max(0, int(complete.sum()) - 1), None)
        axes.plot(grid[rest], mean[rest], color=color, linewidth=2, linestyle=(0, (2, 1)))
    label = f"{group.label} ({text})"
    axes.plot(
        grid[complete], mean[complete], color=color, linewidth=2, label=label, ls=style,
        marker=_mark(grid[complete]),
    )  # fmt: skip


def _mark(points: Sized) -> str:
    """Returns the marker of a curve: a line through one point is not seen."""
    return "o" if len(points) == 1 else ""


def _draw_stop_value(axes: Axes, groups: Sequence[Group], tag: str) -> None:
    """Draws the stop value if all runs have the same."""
    goals = [goal_of(curve) for group in groups for curve in group.curves]
    goal = goals[0]
    if tag == TAG and goal is not None and all(each == goal for each in goals):
        label = f"stop value {goal:g}"
        axes.axhline(goal, color="#888888", linestyle=(0, (2, 2)), linewidth=1, label=label)


def _format_axes(axes: Axes, axis: Axis, tag: str) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel(AXES[axis][1])
    axes.set_ylabel("mean return of an evaluation" if tag == TAG else tag)
    if axis != "wall":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.01)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Figure, axes: Axes) -> None:
    """Places the legend inside, right of or below the axes, depending on its size."""
    style: Any = {"fontsize": 9, "framealpha": 0.85, "edgecolor": "none"}
    handles, labels = axes.get_legend_handles_labels()
    labels = ["\n".join(wrap(label, _LEGEND_LINE_CHARS)) for label in labels]
    height = _LEGEND_LINE_INCHES * sum(label.count("\n") + 1 for label in labels)
    if max(map(len, labels)) > _MAX_LABEL_CHARS:
        figure.set_figheight(figure.get_figheight() + height)
        figure.legend(handles, labels, loc="outside lower left", **style)
    elif len(labels) > _MAX_LABELS:
        figure.set_figheight(max(figure.get_figheight(), height + 0.5))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **style)
    else:
        axes.legend(**style)


def _title(groups: Sequence[Group]) -> str:
    """Returns algorithm and environment, if all runs have the same, and the number of runs."""
    curves = [curve for group in groups for curve in group.curves]
    common = common_label(curves)
    runs = plural(len(curves), "run")
    return runs if common is None else f"{common}, {runs}"
