"""Draws where the time of profiled runs went: one bar per run, one piece per middleware."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dicore.errors import UsageError
from dicore.run.atomic import read_json
from dicore.run.folder import RunFolder
from dicore_tools.reports.curves import DAMAGED, unread
from dicore_tools.reports.picture import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Profile", "draw_profiles", "read_profile"]

_MAX_PIECES = 7
"""Further middleware are one piece, the shortest ones."""


class Profile(NamedTuple):
    """The time that the middleware of a run took.

    Args:
        folder: The run folder.
        seconds: Seconds of each middleware, in the order of the task.
        train_iter: Updates in this time.
    """

    folder: Path
    seconds: dict[str, float]
    train_iter: int


def read_profile(run: RunFolder) -> Profile:
    """Reads the profile of a run.

    Raises:
        UsageError: the run was not profiled, or the file cannot be read.
    """
    path = run.log / "profile.json"
    try:
        document: dict[str, Any] = read_json(path)
        rows = [row for row in document["rows"] if len(row["path"]) == 1]
        seconds = {str(row["path"][0]): float(row["seconds"]) for row in rows}
        return Profile(run.path, seconds, int(document["train_iter"]))
    except FileNotFoundError:
        hint = "dicore train … --profile writes one"
        raise UsageError(f"{run}: no profile (log/profile.json)", hint=hint) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {unread(error)}", hint=DAMAGED) from None
    except (KeyError, TypeError):
        problem = f"cannot read {path}: it is not one that dicore wrote"
        raise UsageError(problem, hint=DAMAGED) from None


def draw_profiles(profiles: Sequence[Profile], *, title: str | None = None) -> Figure:
    """Draws a bar per run.

    Args:
        profiles: The profiles.
        title: Title; None: the number of updates if all runs made the same, else none.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(0.6 + 0.5 * len(profiles) + 1.4)
    names = _longest(profiles)
    places = list(range(len(profiles)))[::-1]
    left = [0.0] * len(profiles)
    for index, name in enumerate(names):
        widths = [_seconds(profile, name, names) for profile in profiles]
        axes.barh(places, widths, 0.6, left, color=COLORS[index % len(COLORS)], label=name)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [str(profile.folder) for profile in profiles])
    axes.set_xlabel("seconds")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=3, fontsize=9, frameon=False)
    counts = {profile.train_iter for profile in profiles}
    made = f"{counts.pop()} updates" if len(counts) == 1 else ""
    axes.set_title(made if title is None else title, loc="left")
    return figure


def _longest(profiles: Sequence[Profile]) -> list[str]:
    """Returns the names of the pieces: those that took longest, in the order of the task."""
    total: dict[str, float] = {}
    for profile in profiles:
        for name, seconds in profile.seconds.items():
            total[name] = total.get(name, 0.0) + seconds
    kept = sorted(total, key=lambda name: total[name], reverse=True)[:_MAX_PIECES]
    found = [name for name in total if name in kept]
    return found if len(total) == len(found) else [*found, "others"]


def _seconds(profile: Profile, name: str, names: Sequence[str]) -> float:
    if name == "others":
        return sum(value for other, value in profile.seconds.items() if other not in names)
    return profile.seconds.get(name, 0.0)
