"""`dicore plot`: learning curves of runs, with mean and band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import plural, say, verbosity
from dicore.errors import UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import AS_JSON, given_of
from dicore_tools.commands.output import write_json
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore_tools.json_output.written import Plotted
    from dicore_tools.reports.curves import Axis, Curve, Group

__all__ = ["command"]


class _Range(click.ParamType):  # type: ignore[type-arg]
    """A range of an axis, `A:B`, of which one end may be left out."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float | None, float | None]:
        """Reads both ends."""
        try:
            low, high = (float(end) if end.strip() else None for end in str(value).split(":"))
        except ValueError:
            self.fail(f"expected A:B, such as 0:500 or :500, got '{value}'", param, ctx)
        if low is not None and high is not None and not low < high:
            self.fail(f"the first end must be below the second, got '{value}'", param, ctx)
        return low, high


RANGE = _Range()
_MAX_NAMED = 8
"""With more groups, only their number is printed."""
_EPILOG = """\b
Examples:
  dicore plot runs/cartpole_dqn_s*                  one group: mean and band over seeds
  dicore plot runs -o curves.svg                    all runs in a folder
  dicore plot a b --group policy.learn.batch_size   a curve for each value of an option
  dicore plot runs/x --text                         in the terminal
  dicore plot runs/x -y learner/total_loss --x train_iter --smooth 10
  dicore plot runs/x -y usage/cpu --x wall          of the logger `usage`
  dicore plot runs/a runs/b --profile               of runs trained with --profile

Runs of the same config form a group, whatever their seeds and budgets; the legend shows the options
that differ between groups. The curve of a run that reached its stop value is extended with its last
value to the end of the longest run. The mean is dashed where some runs of the group have already
ended. Unfinished runs are included; runs without the metric are skipped.
"""


@click.command(name="plot", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("curves.png"),
    show_default=True,
    help="Output file: .png, .svg or .pdf.",
)
@click.option(
    "--x",
    "axis",
    type=click.Choice(["env_step", "train_iter", "wall"]),
    help="Quantity on the x axis: env steps, gradient updates, or seconds of training."
    "  [default: env_step; train_iter of runs that collect nothing]",
)
@click.option(
    "-y",
    "--y",
    "--tag",
    "--metric",
    "tag",
    metavar="TAG",
    default="evaluator/return_mean",
    show_default=True,
    help="Metric of log/metrics.jsonl on the y axis.",
)
@click.option(
    "--group",
    metavar="PATH|run",
    help="Group runs by a config option; run: one curve per run.  [default: by config]",
)
@click.option(
    "--band",
    type=click.Choice(["std", "minmax", "none"]),
    default="std",
    show_default=True,
    help="Band around the mean: standard deviation, or minimum to maximum, over runs.",
)
@click.option(
    "--smooth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Smooth each curve by a moving average over N logged values.",
)
@click.option("--xlim", metavar="A:B", type=RANGE, help="Range of the x axis; A or B may be empty.")
@click.option("--ylim", metavar="A:B", type=RANGE, help="Range of the y axis.")
@click.option("--title", help="Title of the plot.")
@click.option(
    "--profile", is_flag=True, help="Draw where the time of runs trained with --profile went."
)
@click.option("--text", is_flag=True, help="Draw in the terminal instead of a file.")
@AS_JSON
@verbosity
@click.pass_context
def command(  # noqa: PLR0913 - the options of the command
    ctx: click.Context,
    /,
    places: Sequence[str],
    *,
    out: Path,
    axis: Axis | None,
    tag: str,
    group: str | None,
    smooth: int,
    text: bool,
    profile: bool,
    as_json: bool,
    **look: Any,
) -> None:
    """Plots learning curves of runs, with mean and band over seeds."""
    if as_json and text:
        raise UsageError("--json and --text both print")
    if text and (unused := given_of(ctx, "out", "title", "xlim", "ylim", "band")):
        raise UsageError(f"--text draws in the terminal: {unused} would have no effect")
    if not text:
        check_place(out)
    if profile:
        told = _draw_profiles(places, out, look["title"])
        _tell(told, out, () if as_json else None)
        return
    from dicore_tools.reports.curves import group_runs
    from dicore_tools.reports.picture import check_format

    if not text:
        check_format(out)  # before the warnings about runs
    curves = _curves(places, tag, axis or "env_step")
    if axis is None:
        axis = "env_step" if any(each.x.any() for each in curves) else "train_iter"
        curves = _curves(places, tag, axis) if axis != "env_step" else curves
    groups = group_runs([each.smooth(smooth) for each in curves], group)
    if text:
        from dicore_tools.reports.text import sparklines, supports_blocks

        for line in sparklines(groups, axis=axis, ascii_only=not supports_blocks()):
            say(line, result=True)
        return
    from dicore_tools.reports.picture import draw, save

    save(draw(groups, axis=axis, tag=tag, **look), out)
    _tell(f"{out}: {_describe(groups)}", out, groups if as_json else None)


def _tell(text: str, out: Path, groups: Sequence[Group] | None) -> None:
    """Prints a text, or JSON about groups."""
    if groups is None:
        say(text, result=True)
        return
    plotted: Plotted = {
        "file": str(out),
        "groups": [
            {"label": each.label, "runs": [str(curve.folder) for curve in each.curves]}
            for each in groups
        ],
    }
    write_json(plotted)


def _draw_profiles(places: Sequence[str], out: Path, title: str | None) -> str:
    from dicore_tools.reports.curves import find_runs
    from dicore_tools.reports.picture import save
    from dicore_tools.reports.profile_picture import draw_profiles, read_profile

    profiles = [read_profile(run) for run in find_runs(places)]
    save(draw_profiles(profiles, title=title), out)
    return f"{out}: profiles of {plural(len(profiles), 'run')}"


def _curves(places: Sequence[str], tag: str, axis: Axis) -> list[Curve]:
    """Reads the curves; skips runs without the metric, with a warning.

    Raises:
        UsageError: no run has the metric.
    """
    from dicore_tools.reports.curves import find_runs, read_curve

    curves: list[Curve] = []
    failed: list[UsageError] = []
    for run in find_runs(places):
        try:
            curves.append(read_curve(run, tag=tag, axis=axis))
        except UsageError as error:
            failed.append(error)
    if not curves:
        raise failed[0]
    for each in failed:
        click.echo(f"warning: skipped {each.message}", err=True)
    for curve in curves:
        if not curve.config:
            file = curve.folder / "config.json"
            click.echo(f"warning: {file}: not one that dicore wrote; nothing is compared", err=True)
    return curves


def _describe(groups: Sequence[Group]) -> str:
    from dicore_tools.reports.curves import common_label

    curves = [curve for group in groups for curve in group.curves]
    common = common_label(curves)
    if len(groups) > _MAX_NAMED:
        return f"{len(curves)} runs in {len(groups)} groups"
    parts = [f"{group.label}, {plural(len(group.curves), 'run')}" for group in groups]
    head = f"{common}: " if common is not None and common != groups[0].label else ""
    return head + "; ".join(parts)
