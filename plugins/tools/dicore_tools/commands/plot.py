"""`dicore plot`: the learning curves of runs, with mean and band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import verbosity
from dicore.errors import UsageError

if TYPE_CHECKING:
    from dicore_tools.reports.curves import Axis, Curve, Group

__all__ = ["command"]

_NAMED = 8
"""Groups that are told by name; of more, the picture alone tells."""
_EPILOG = """\b
Examples:
  dicore plot runs/cartpole_dqn_s*                  one group: mean and band over seeds
  dicore plot runs -o curves.svg                    all runs below a folder
  dicore plot a b --group policy.learn.batch_size   a curve for each value of an option
  dicore plot runs/x --text                         in the terminal, without a picture
  dicore plot runs/x -y learner/total_loss --x train_iter --smooth 10

Runs of one config make a group, whatever their seeds and budgets; what differs between groups is
in the legend. A run that reached its stop value goes on with its last value. Where other runs of a
group have ended, the mean of those that go on is dashed. Running and killed runs are shown as far
as they are; those that have logged nothing of it are left out.
"""


@click.command(name="plot", epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("curves.png"),
    show_default=True,
    help="The picture: .png, .svg or .pdf.",
)
@click.option(
    "--x",
    "axis",
    type=click.Choice(["env_step", "train_iter", "wall"]),
    default="env_step",
    show_default=True,
    help="What the curves are drawn against.",
)
@click.option(
    "-y",
    "--y",
    "tag",
    metavar="TAG",
    default="evaluator/return_mean",
    show_default=True,
    help="Which number of log/metrics.jsonl.",
)
@click.option(
    "--group",
    metavar="PATH|run",
    help="Group runs by an option of their config, or not at all.  [default: their configs]",
)
@click.option(
    "--band",
    type=click.Choice(["std", "minmax", "none"]),
    default="std",
    show_default=True,
    help="Around the mean: standard deviation over runs, or lowest to highest.",
)
@click.option(
    "--smooth",
    type=click.IntRange(1),
    default=1,
    help="Show means of the last so many points of each run.",
)
@click.option("--title", help="Above the picture.")
@click.option("--text", is_flag=True, help="Draw in the terminal instead.")
@verbosity
def command(
    places: Sequence[str],
    *,
    out: Path,
    axis: Axis,
    tag: str,
    group: str | None,
    smooth: int,
    text: bool,
    **look: Any,
) -> None:
    """Draws the learning curves of several runs and seeds, with mean and band."""
    from dicore.console import say
    from dicore_tools.reports.curves import group_runs

    groups = group_runs([each.smooth(smooth) for each in _curves(places, tag, axis)], group)
    if text:
        from dicore_tools.reports.text import knows_blocks, sparklines

        for line in sparklines(groups, axis=axis, ascii_only=not knows_blocks()):
            say(line, result=True)
        return
    from dicore_tools.reports.picture import draw, save

    save(draw(groups, axis=axis, tag=tag, **look), out)
    say(f"{out}: {_what(groups)}", result=True)


def _curves(places: Sequence[str], tag: str, axis: Axis) -> list[Curve]:
    """Reads what there is; runs that have logged nothing of it are named and left out.

    Raises:
        UsageError: no run has it.
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
        click.echo(f"warning: left out: {each.message}", err=True)
    return curves


def _what(groups: Sequence[Group]) -> str:
    from dicore_tools.reports.curves import common_label

    curves = [curve for group in groups for curve in group.curves]
    common = common_label(curves)
    if len(groups) > _NAMED:
        return f"{len(curves)} runs in {len(groups)} groups"
    told = []
    for group in groups:
        count = len(group.curves)
        told.append(f"{group.label}, {count} run{'' if count == 1 else 's'}")
    head = f"{common}: " if common is not None and common != groups[0].label else ""
    return head + "; ".join(told)
