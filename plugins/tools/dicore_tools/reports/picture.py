"""Learning curves as a picture: a mean for each group of runs, a band, and each run thinly."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore_tools.reports.curves import AXES, TAG, Axis, Band, Group, common_label, goal_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "draw", "save"]

FORMATS: Final = (".png", ".svg", ".pdf")
_COLORS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#b8a800",
)  # fmt: skip
"""Told apart by the colour-blind too (Okabe and Ito 2008, jfly.uni-koeln.de/color)."""
_BANDS: Final = {"std": "± std", "minmax": "min to max", "none": ""}
_LONG, _MANY = 60, 6
"""Characters of a label, and number of labels, that fit into the axes."""
_LINE, _LINE_HEIGHT = 88, 0.2
"""Characters of a line below the axes, and the inches that it takes."""
_STYLES = ("-", "-.", ":")
"""Lines of the first groups, of those that have the same colours again, and so on."""


def draw(
    groups: Sequence[Group],
    *,
    axis: Axis = "env_step",
    tag: str = TAG,
    band: Band = "std",
    title: str | None = None,
) -> Figure:
    """Draws groups of runs into one picture.

    Args:
        groups: What to draw.
        axis: The x-axis.
        tag: What was read, for the y-axis.
        band: What the band around a mean shows.
        title: Above the picture; None: what the runs are.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "drawing needs the package matplotlib",
            hint="pip install 'dicore-tools[plot]'; --text draws in the terminal",
        ) from error
    with rc_context({"font.size": 10, "axes.titlesize": 11, "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.2, 4.0), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for index, group in enumerate(groups):
            again, color = divmod(index, len(_COLORS))
            _draw_group(axes, group, _COLORS[color], band, _STYLES[again % len(_STYLES)])
        _mark_goal(axes, groups, tag)
        _dress(axes, groups, axis, tag)
        _explain(figure, axes)
        axes.set_title(title if title is not None else _title(groups), loc="left")
    return figure


def save(figure: Figure, file: Path) -> None:
    """Writes a picture; the ending of the name says in which format.

    Raises:
        UsageError: the ending is another, or the disk refuses.
    """
    if file.suffix.lower() not in FORMATS:
        raise UsageError(f"{file}: no picture ends in '{file.suffix}'", hint=", ".join(FORMATS))
    from matplotlib import rc_context

    data = io.BytesIO()
    kind = file.suffix.lower()[1:]
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with rc_context({"svg.hashsalt": "dicore", "svg.fonttype": "none"}):  # the same each time
        figure.savefig(data, format=kind, metadata=metadata)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data.getvalue())
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error


def _draw_group(axes: Axes, group: Group, color: str, band: Band, style: str) -> None:
    count = len(group.curves)
    if count == 1:
        curve = group.curves[0]
        mark = "o" if len(curve.x) == 1 else ""
        axes.plot(
            curve.x, curve.y, marker=mark, color=color, linewidth=1.8, label=group.label, ls=style
        )
        return
    for curve in group.curves:
        axes.plot(curve.x, curve.y, color=color, linewidth=0.8, alpha=0.4)
        if curve.solved:
            axes.plot(curve.x[-1:], curve.y[-1:], "o", color=color, markersize=3.5, alpha=0.7)
    grid, mean, low, high, runs = group.middle(band)
    if band != "none":
        axes.fill_between(grid, low, high, color=color, alpha=0.15, linewidth=0)
    words = f"mean of {count}" + (f", {_BANDS[band]}" if band != "none" else "")
    whole = runs == count
    if not whole.all():
        words += "; dashed: fewer"
        rest = slice(max(0, int(whole.sum()) - 1), None)
        axes.plot(grid[rest], mean[rest], color=color, linewidth=2, linestyle=(0, (2, 1)))
    label = f"{group.label} ({words})"
    axes.plot(grid[whole], mean[whole], color=color, linewidth=2, label=label, ls=style)


def _mark_goal(axes: Axes, groups: Sequence[Group], tag: str) -> None:
    """Draws the stop value, if all the runs have the same."""
    goals = [goal_of(curve) for group in groups for curve in group.curves]
    goal = goals[0]
    if tag == TAG and goal is not None and all(each == goal for each in goals):
        label = f"stop value {goal:g}"
        axes.axhline(goal, color="#888888", linestyle=(0, (2, 2)), linewidth=1, label=label)


def _dress(axes: Axes, groups: Sequence[Group], axis: Axis, tag: str) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_xlabel(AXES[axis][1])
    axes.set_ylabel("mean return of an evaluation" if tag == TAG else tag)
    if axis != "wall":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.01)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _explain(figure: Figure, axes: Axes) -> None:
    """Puts the legend where there is room for it: inside, right of the axes, or below them."""
    look: Any = {"fontsize": 9, "framealpha": 0.85, "edgecolor": "none"}
    handles, labels = axes.get_legend_handles_labels()
    labels = ["\n".join(wrap(label, _LINE)) for label in labels]
    height = _LINE_HEIGHT * sum(label.count("\n") + 1 for label in labels)
    if max(map(len, labels)) > _LONG:
        figure.set_figheight(figure.get_figheight() + height)
        figure.legend(handles, labels, loc="outside lower left", **look)
    elif len(labels) > _MANY:
        figure.set_figheight(max(figure.get_figheight(), height + 0.5))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **look)
    else:
        axes.legend(**look)


def _title(groups: Sequence[Group]) -> str:
    """Returns what all runs have in common, and how many they are."""
    curves = [curve for group in groups for curve in group.curves]
    common = common_label(curves)
    runs = f"{len(curves)} run{'' if len(curves) == 1 else 's'}"
    return runs if common is None else f"{common}, {runs}"
