"""Draws curves as SVG for a page: colours come from the page, so that light and dark both work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final

import numpy as np

from dicore_tools.reports.curves import Floats, Group

__all__ = ["COLORS", "MAX_POINTS", "chart", "thinned", "ticks"]

COLORS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a", "#b8a800",
)  # fmt: skip
"""Safe for colour-blind readers (Okabe and Ito 2008, jfly.uni-koeln.de/color)."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 44
SIZE, SMALL = (760, 340), (420, 240)
"""Width and height of a picture; text has the same size in both."""
MAX_POINTS: Final = 400
"""Points of a line; more cannot be told apart on a screen."""
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def chart(
    groups: Sequence[Group],
    *,
    x_title: str,
    y_title: str,
    goal: float | None = None,
    places: Sequence[int] | None = None,
    size: tuple[int, int] = SIZE,
) -> str:
    """Returns an SVG picture: the mean of each group with its band, and its runs as thin lines.

    Args:
        groups: The groups; `middle` of each is drawn.
        x_title: Title of the x axis.
        y_title: Title of the y axis.
        goal: A value to mark by a dashed line; None: none.
        places: Number of each group on the page, which gives its colour; None: 0, 1, ….
        size: Width and height.
    """
    drawn = [(group, group.middle("std")) for group in groups]
    curves = [curve for group in groups for curve in group.curves]
    ends_x = [float(each.x[at]) for each in curves for at in (0, -1)]
    ys = np.concatenate([each.y for each in curves])
    low_y, high_y = float(ys.min()), float(ys.max())
    if goal is not None:
        low_y, high_y = min(low_y, goal), max(high_y, goal)
    plane = _Plane(size, (min(ends_x), max(ends_x)), (low_y, high_y))
    parts = [*plane.axes(x_title, y_title)]
    if goal is not None:
        at = plane.y(goal)
        parts.append(f'<line class="goal" x1="{_LEFT}" x2="{plane.right}" y1="{at}" y2="{at}"/>')
    for number, (group, middle) in zip(places or range(len(drawn)), drawn, strict=True):
        color = COLORS[number % len(COLORS)]
        parts.append(f'<g class="group g{number}" data-group="{number}" style="--c:{color}">')
        mean = middle.grid, middle.mean
        if len(group.curves) > 1:
            edge = list(zip(middle.grid, middle.low, strict=True))
            edge += list(zip(middle.grid[::-1], middle.high[::-1], strict=True))
            parts.append(f'<polygon class="band" points="{plane.points(edge)}"/>')
            parts += [_line(plane, *thinned(each.x, each.y), "run") for each in group.curves]
        else:
            mean = thinned(group.curves[0].x, group.curves[0].y)
        parts += [_line(plane, *mean, "mean"), "</g>"]
    label = escape(f"{y_title} over {x_title}")
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{label}"'
        f' data-x="{plane.span_x}" data-y="{plane.span_y}">' + "".join(parts) + "</svg>"
    )


def thinned(x: Floats, y: Floats, most: int = MAX_POINTS) -> tuple[Floats, Floats]:
    """Returns a curve of at most so many points, which keeps its extremes.

    Of each of `most` / 2 equal parts of the points, the lowest and the highest remain, and the
    first and last of all.
    """
    if len(x) <= most:
        return x, y
    kept = {0, len(x) - 1}
    edges = np.linspace(0, len(x), (most - 2) // 2 + 1).astype(int)
    for start, stop in pairwise(edges):
        part = y[start:stop]
        kept |= {start + int(part.argmin()), start + int(part.argmax())}
    rows = np.array(sorted(kept))
    return x[rows], y[rows]


def _line(plane: _Plane, x: Any, y: Any, kind: str) -> str:
    if len(x) == 1:
        return f'<circle class="{kind}" cx="{plane.x(x[0])}" cy="{plane.y(y[0])}" r="3"/>'
    return f'<polyline class="{kind}" points="{plane.points(zip(x, y, strict=True))}"/>'


class _Plane:
    """Converts values to places in the picture."""

    def __init__(
        self, size: tuple[int, int], x_range: tuple[float, float], y_range: tuple[float, float]
    ) -> None:
        self.right, self.bottom, self._height = size[0] - _RIGHT, size[1] - _BOTTOM, size[1]
        self._x, self._y = _widened(x_range), _widened(y_range, 0.04)

    @property
    def span_x(self) -> str:
        """Left and right edge, and their values."""
        return f"{_LEFT} {self.right} {self._x[0]!r} {self._x[1]!r}"

    @property
    def span_y(self) -> str:
        """Upper and lower edge, and their values."""
        return f"{_TOP} {self.bottom} {self._y[1]!r} {self._y[0]!r}"

    def x(self, value: float) -> float:
        low, high = self._x
        return round(_LEFT + (value - low) / (high - low) * (self.right - _LEFT), 1)

    def y(self, value: float) -> float:
        low, high = self._y
        clipped = min(max(value, low), high)
        return round(_TOP + (high - clipped) / (high - low) * (self.bottom - _TOP), 1)

    def points(self, pairs: Any) -> str:
        return " ".join(f"{self.x(x)},{self.y(y)}" for x, y in pairs)

    def axes(self, x_title: str, y_title: str) -> Iterator[str]:
        right, bottom = self.right, self.bottom
        for value in ticks(*self._y, 5):
            at = self.y(value)
            yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
            yield f'<text x="{_LEFT - 8}" y="{at + 4}" text-anchor="end">{_short(value)}</text>'
        for value in ticks(*self._x, self.right // 100):
            at = self.x(value)
            yield f'<text x="{at}" y="{bottom + 18}" text-anchor="middle">{_short(value)}</text>'
        yield f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
        middle, low = (_LEFT + right) / 2, self._height - 6
        yield (
            f'<text x="{middle}" y="{low}" text-anchor="middle">{escape(x_title)}</text>'
            f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)"'
            f' text-anchor="middle">{escape(y_title)}</text>'
        )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Returns about `count` round numbers (1, 2 or 5 times a power of ten) from low to high."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda each: abs(each - rough))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _widened(span: tuple[float, float], margin: float = 0.0) -> tuple[float, float]:
    low, high = span
    if high <= low:
        extra = abs(low) * 0.05 or 1.0
        return low - extra, high + extra
    extra = (high - low) * margin
    return low - extra, high + extra


def _short(value: float) -> str:
    """Writes 20000 as 20k."""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.6g}{unit}"
    return f"{value:.6g}" if abs(value) > 1e-12 else "0"
