"""Draws tables of results as a whole: score profiles of algorithms, and cost against score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dicore_tools.reports.picture import COLORS, new_figure
from dicore_tools.results.statistics import score_profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cost", "draw_costs", "draw_profiles"]

_POINTS = 201
_MARKS = "os^Dv<>P"


class Cost(NamedTuple):
    """What a row cost, and what it reached.

    Args:
        row: Name of the row.
        algorithm: Name of its algorithm.
        core_hours: Median CPU hours of a training.
        score: Interquartile mean of the scores of its runs.
    """

    row: str
    algorithm: str
    core_hours: float
    score: float


def draw_profiles(scores: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Draws the share of runs that reach each score, with 95 % bands.

    Args:
        scores: By algorithm, the scores of the runs of each environment.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(4.0)
    flat = [each for tasks in scores.values() for task in tasks for each in task]
    taus = np.linspace(min(0.0, *flat), max(1.0, *flat) + 0.05, _POINTS)
    for index, (algorithm, tasks) in enumerate(scores.items()):
        share, low, high = score_profile(tasks, taus)
        color = COLORS[index % len(COLORS)]
        runs = sum(map(len, tasks))
        label = f"{algorithm} ({len(tasks)} environments, {runs} runs)"
        axes.step(taus, share, where="post", color=color, linewidth=1.8, label=label)
        axes.fill_between(taus, low, high, step="post", color=color, alpha=0.12, linewidth=0)
    axes.set_xlabel("score τ")
    axes.set_ylabel("share of runs with score > τ")
    axes.set_ylim(-0.02, 1.02)
    axes.margins(x=0)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, framealpha=0.85, edgecolor="none")
    axes.set_title("Score profiles", loc="left")
    return figure


def draw_costs(costs: Sequence[Cost]) -> Figure:
    """Draws a point per row: CPU hours of a training against the score that it reached.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure, axes = new_figure(4.0)
    axes.set_xscale("log")
    hours = [each.core_hours for each in costs]
    axes.set_xlim(min(hours) / 2, max(hours) * 3)  # with room for names
    for index, algorithm in enumerate(dict.fromkeys(each.algorithm for each in costs)):
        own = [each for each in costs if each.algorithm == algorithm]
        axes.plot(
            [each.core_hours for each in own],
            [each.score for each in own],
            _MARKS[index // len(COLORS) % len(_MARKS)],
            color=COLORS[index % len(COLORS)],
            label=algorithm,
        )
    for each in costs:
        axes.annotate(
            each.row, (each.core_hours, each.score), (4, 4), textcoords="offset points", fontsize=7
        )
    axes.set_xlabel("core-hours of a training")
    axes.set_ylabel("score (interquartile mean)")
    axes.margins(y=0.08)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", ncols=6, fontsize=9, frameon=False)
    axes.set_title("Cost and score", loc="left")
    return figure
