"""Learning curves as lines of text, for a terminal far from any screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from dicore_tools.reports.curves import Axis, Group

__all__ = ["sparklines"]

_UNITS: Final = {"env_step": "env steps", "train_iter": "updates", "wall": "s"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN = "_.-:=+*#"
"""The same for terminals that know ASCII alone."""


def sparklines(
    groups: Sequence[Group], *, axis: Axis = "env_step", width: int = 40, ascii_only: bool = False
) -> list[str]:
    """Returns two lines for each group: its label, then its mean drawn small, with its range.

    All groups share one scale from the lowest to the highest mean.

    Args:
        groups: What to draw.
        axis: What the curves are drawn against.
        width: Characters of a curve.
        ascii_only: Draw with plain characters.
    """
    drawn = [group.middle("none") for group in groups]
    low = min(float(each.mean.min()) for each in drawn)
    high = max(float(each.mean.max()) for each in drawn)
    signs = _PLAIN if ascii_only else _BLOCKS
    lines = []
    for group, (grid, mean, *_) in zip(groups, drawn, strict=True):
        at = np.linspace(grid[0], grid[-1], width)
        share = (np.interp(at, grid, mean) - low) / ((high - low) or 1.0)
        picture = "".join(signs[int(level)] for level in np.rint(share * (len(signs) - 1)))
        count = len(group.curves)
        lines += [
            f"{group.label} ({count} run{'' if count == 1 else 's'})",
            f"  {picture}  {mean[0]:.1f} to {mean[-1]:.1f}, best {mean.max():.1f},"
            f" at {grid[-1]:.{0 if axis != 'wall' else 1}f} {_UNITS[axis]}",
        ]
    return lines


def knows_blocks() -> bool:
    """Says whether stdout can show block characters."""
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
