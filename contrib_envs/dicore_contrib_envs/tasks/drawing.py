"""Images of small grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_COLOURS = np.array(
    [[24, 24, 32], [230, 230, 230], [80, 160, 255], [255, 176, 48], [80, 200, 120], [220, 80, 80]],
    np.uint8,
)


def picture(cells: Any, scale: int = 16) -> npt.NDArray[np.uint8]:
    """Returns an image, uint8 [height * scale, width * scale, 3], of cells numbered by colour.

    Args:
        cells: Integers [height, width]: 0 background, 1 white, 2 blue, 3 orange, 4 green, 5 red.
        scale: Pixels per cell.
    """
    image = _COLOURS[np.asarray(cells, np.int64)]
    return image.repeat(scale, axis=0).repeat(scale, axis=1)
