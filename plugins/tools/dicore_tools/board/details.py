"""What the board tells of one run: diagnosis, league, videos, provenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dicore.errors import DicoreError
from dicore_tools.board.run import BoardRun
from dicore_tools.diagnosis.section import section
from dicore_tools.reports.page import leagues, provenance
from dicore_tools.reports.run_data import RunData

__all__ = ["details", "video_file", "videos"]


_ODD: Final = (
    ArithmeticError, AttributeError, DicoreError, LookupError, OSError, TypeError, ValueError,
)  # fmt: skip
"""Errors at files of a stranger's run, or that were edited."""


def details(run: BoardRun, record: RunData) -> Iterator[str]:
    """Yields HTML in which all texts of the run are escaped.

    Args:
        run: The run.
        record: Its record and config.
    """
    for text in filter(None, (run.problem, run.error)):
        yield f'<p class="problem">{escape(text)}</p>'
    try:
        data = run.all_data()
    except (DicoreError, OSError) as error:
        yield f'<p class="problem">{escape(str(error))}</p>'
    else:
        yield from _or_note(lambda: _diagnosis(data))
        yield from _or_note(lambda: leagues([data]))
    yield from _videos(run)
    yield from _or_note(lambda: provenance([record]))


def videos(run: BoardRun) -> list[str]:
    """Returns the names of the videos of a run: paths below `video/`."""
    found = sorted(run.folder.video.rglob("*.mp4"))
    names = [file.relative_to(run.folder.video).as_posix() for file in found]
    return [name for name in names if video_file(run, name) is not None]


def video_file(run: BoardRun, name: str) -> Path | None:
    """Returns the file of a video; None: there is none of this name, or a link leads elsewhere.

    Args:
        run: The run.
        name: Path below `video/`, which may be a stranger's.
    """
    top = run.folder.path.resolve() / "video"
    try:
        name.encode()
        file = (top / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    is_inside = file == top / name and file.is_relative_to(top)
    return file if is_inside and file.suffix == ".mp4" and file.is_file() else None


def _diagnosis(data: RunData) -> Iterator[str]:
    found = [*section([data])]
    yield from found or ["<h2>What may be wrong</h2><p>Nothing that dicore diagnose finds.</p>"]


def _videos(run: BoardRun) -> Iterator[str]:
    names = videos(run)
    if not names:
        return
    yield "<h2>Videos</h2><div class='grid2'>"
    for name in names:
        source = escape(f"/video/{run.id}/{quote(name)}")
        yield f'<figure><video controls preload="metadata" src="{source}"></video>'
        yield f"<figcaption>{escape(name)}</figcaption></figure>"
    yield "</div>"


def _or_note(part: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Yields a part; a note if the files of the run are damaged."""
    try:
        found = [*part()]
    except _ODD as error:
        found = [f'<p class="problem">{escape(str(error))}</p>']
    yield from found
