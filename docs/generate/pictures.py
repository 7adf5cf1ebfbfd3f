"""Draws the pictures of components: `python -m docs.generate.pictures`.

Every pipeline is drawn to `docs/images/pipelines`, a frame of every environment that renders to
`docs/images/envs`, and `docs/gallery.md` shows the frames. The files are part of the repository, so
that building the pages needs no environment; a test draws the pipelines again.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dicore.errors import DicoreError
from dicore_registry import default
from dicore_tools.pictures.draw import frame_of_env, png
from dicore_tools.pictures.graph import graph_svg
from dicore_tools.pictures.middleware import stages_of

__all__ = ["gallery", "names", "pipeline_svg", "write"]

DOCS = Path(__file__).parents[1]
PIPELINES, ENVS = DOCS / "images/pipelines", DOCS / "images/envs"
_WIDTH = 240
_ACROSS = 3


def names(kind: str) -> list[str]:
    """Returns the components of a kind in dicore's own packages."""
    own = [entry for entry in default().entries(kind) if entry.dist.startswith("dicore")]
    return [entry.name for entry in own if entry.status == "ok"]


def pipeline_svg(name: str) -> str:
    """Returns the picture of a pipeline.

    Raises:
        UsageError: no preset fits it.
    """
    return graph_svg(name, stages_of(f"pipeline/{name}"))


def gallery() -> str:
    """Returns the page with the frames in `docs/images/envs`."""
    found = sorted(path.stem for path in ENVS.glob("*.png"))
    cells = [f"![A frame of {name}](images/envs/{name}.png) `{name}`" for name in found]
    rows = [cells[start : start + _ACROSS] for start in range(0, len(cells), _ACROSS)]
    table = "\n".join(f"| {' | '.join([*row, *[''] * (_ACROSS - len(row))])} |" for row in rows)
    return (
        "# Gallery\n\nThe environments that dicore's own packages bring, after some random steps."
        " `dicore show env/NAME --frame` draws such a\npicture of any environment, `dicore enjoy"
        " NAME` plays it, and `dicore check env/NAME` tests it and gives advice. Options:\n"
        "[env](generated/components/env.md).\n\n"
        f"|  |  |  |\n| --- | --- | --- |\n{table}\n"
    )


def write() -> None:
    """Draws everything; names what cannot be drawn."""
    for folder in (PIPELINES, ENVS):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names("pipeline"):
        try:
            (PIPELINES / f"{name}.svg").write_text(pipeline_svg(name), encoding="utf-8")
        except DicoreError as error:
            sys.stderr.write(f"pipeline {name}: {error}\n")
    for name in names("env"):
        try:
            frame = frame_of_env(f"env/{name}")
        except Exception as error:  # of an environment: whatever it likes
            sys.stderr.write(f"env {name}: {type(error).__name__}: {error}\n")
        else:
            (ENVS / f"{name}.png").write_bytes(png(_small(frame)))
    (DOCS / "gallery.md").write_text(gallery(), encoding="utf-8")


def _small(frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns a picture at most `_WIDTH` wide: each pixel is the mean of a block."""
    block = -(-frame.shape[1] // _WIDTH)
    height, width = (size // block * block for size in frame.shape[:2])
    blocks = frame[:height, :width].reshape(height // block, block, width // block, block, 3)
    return blocks.mean((1, 3)).round().astype(np.uint8)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write()
