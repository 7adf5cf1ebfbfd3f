"""Draws learning curves as lines of text, for terminals."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from dicore.console import plural
from dicore_tools.reports.curves import Axis, Group, env_name

__all__ = ["sparklines"]

_UNITS: Final = {"env_step": "env steps", "train_iter": "updates", "wall": "s"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-:=+*#"


def sparklines(
    groups: Sequence[Group], *, axis: Axis = "env_step", width: int = 40, ascii_only: bool = False
) -> list[str]:
    """Returns two lines per group: the label, and the mean as a sparkline with its range.

    Groups of one environment share one scale, from their lowest to their highest mean.

    Args:
        groups: The groups.
        axis: Quantity on the x axis.
        width: Characters of a sparkline.
        ascii_only: Use only ASCII characters.
    """
    means = [group.middle("none") for group in groups]
    names = [env_name(group.curves[0].config) for group in groups]
    scales: dict[str, tuple[float, float]] = {}
    for name, each in zip(names, means, strict=True):
        low, high = scales.get(name, (np.inf, -np.inf))
        scales[name] = min(low, float(each.mean.min())), max(high, float(each.mean.max()))
    blocks = _ASCII if ascii_only else _BLOCKS
    digits = 1 if axis == "wall" else 0
    lines = []
    for name, group, (grid, mean, _, _, runs) in zip(names, groups, means, strict=True):
        low, high = scales[name]
        at = np.linspace(grid[0], grid[-1], width)
        levels = (np.interp(at, grid, mean) - low) / ((high - low) or 1.0) * (len(blocks) - 1)
        sparkline = "".join(blocks[int(level)] for level in np.rint(levels))
        count = plural(len(group.curves), "run")
        if runs[-1] < len(group.curves):
            end = grid[runs == len(group.curves)][-1]
            count += f"; beyond {end:.{digits}f} {_UNITS[axis]} the mean of {runs[-1]}"
        lines += [
            f"{group.label} ({count})",
            f"  {sparkline}  first {mean[0]:.1f}, last {mean[-1]:.1f}, best {mean.max():.1f}"
            f" ({grid[0]:.{digits}f} to {grid[-1]:.{digits}f} {_UNITS[axis]})",
        ]
    return lines


def supports_blocks() -> bool:
    """Returns whether the encoding of stdout has block characters."""
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
