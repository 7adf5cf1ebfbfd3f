"""The web application of the board."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast, get_args

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dicore.errors import DicoreError, MissingDependencyError, UsageError
from dicore_tools.board.details import details, video_file
from dicore_tools.board.guard import Guard
from dicore_tools.board.library import Library
from dicore_tools.board.overlay import View, overlay
from dicore_tools.reports.chart import COLORS
from dicore_tools.reports.curves import AXES, TAG, Axis, Band
from dicore_tools.reports.run_data import differing

__all__ = ["make_app", "plotly_script"]

_HERE: Final = Path(__file__).parent
_PAGE: Final = _HERE.parent / "reports" / "page.css"
_FILES: Final = {
    "/": _HERE / "board.html",
    "/board.css": _HERE / "board.css",
    "/board.js": _HERE / "board.js",
    "/charts.js": _HERE / "charts.js",
    "/table.js": _HERE / "table.js",
    "/page.css": _PAGE,
}
_NAMES: Final = ("exp_name", "seed")
"""Options that name a run and are in the table already."""
_MOST_WINDOW: Final = 10_000
_MOST_METRICS: Final = 24
_ANSWER_S: Final = 1.5
"""Longest time to read runs for one answer."""


def make_app(places: Sequence[str | Path]) -> Starlette:
    """Returns the application: a page about the runs in folders, and what it asks for.

    Args:
        places: Folders, which are searched recursively, or summary files of several seeds.

    Raises:
        UsageError: a place does not exist.
        MissingDependencyError: the library of the charts is not installed.
    """
    board = _Board(Library(places))
    files = {**_FILES, "/plotly.js": plotly_script()}
    routes = [
        *(Route(path, _sender(file)) for path, file in files.items()),
        Route("/api/runs", board.runs),
        Route("/api/curves", board.curves),
        Route("/api/differences", board.differences),
        Route("/api/details/{id}", board.details),
        Route("/api/tags", board.tags, methods=["POST"]),
        Route("/video/{id}/{name:path}", board.video),
    ]
    problems = {DicoreError: _told, 404: _not_found}
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard)],
        exception_handlers=cast("dict[Any, Any]", problems),
    )


def plotly_script() -> Path:
    """Returns the script of plotly.js that the package plotly ships; nothing of it is imported.

    Raises:
        MissingDependencyError: it is not there.
    """
    found = find_spec("plotly")
    folders = (found.submodule_search_locations if found else None) or ()
    for folder in folders:
        file = Path(folder) / "package_data" / "plotly.min.js"
        if file.is_file():
            return file
    raise MissingDependencyError("the board needs plotly", hint="pip install 'dicore-tools[board]'")


class _Answer(JSONResponse):
    """JSON in ASCII, which any text of a run can be written in."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class _Board:
    """Answers what the page asks for."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def runs(self, request: Request) -> Response:
        """Answers with the rows that are new since a version, and which runs there are."""
        found = self._library.changes(_number(request, "since", 0, 1 << 53))
        facts = {"colors": COLORS, "axes": {key: title for key, (_, title) in AXES.items()}}
        return _Answer({**found._asdict(), **facts, "tag": TAG})

    def curves(self, request: Request) -> Response:
        """Answers with the curves of the chosen runs, of each metric that is asked for.

        Of many runs some are `reading`: they are in one of the next answers.
        """
        asked = request.query_params
        view = View(
            axis=_choice(request, "x", get_args(Axis)),
            band=_choice(request, "band", get_args(Band)),
            window=_number(request, "window", 1, _MOST_WINDOW),
            by=asked.get("by", "config"),
        )
        metrics = list(dict.fromkeys(asked.getlist("metric")))[:_MOST_METRICS] or [TAG]
        runs, reading = self._library.data(_ids(asked.get("runs", "")), metrics, _ANSWER_S)
        names = self._library.names()
        charts = [overlay(runs, names, replace(view, metric=metric)) for metric in metrics]
        return _Answer({"reading": reading, "charts": charts})

    def differences(self, request: Request) -> Response:
        """Answers with the options that differ between the chosen runs."""
        runs, _ = self._library.data(_ids(request.query_params.get("runs", "")), ())
        names = self._library.names()
        shown = [names.get(run.folder.path, run.folder.path.name) for run in runs]
        rows = [
            (path, [value if len(value) <= 200 else f"{value[:200]}…" for value in values])
            for path, values in differing(runs).items()
            if path not in _NAMES
        ]
        return _Answer({"runs": shown, "rows": rows})

    def details(self, request: Request) -> Response:
        """Answers with what is told of one run, as HTML."""
        run = self._library.run(request.path_params["id"])
        found, _ = self._library.data([request.path_params["id"]], ())
        if run is None or not found:
            return _not_found(request, None)
        return _Answer({"id": run.id, "name": run.name, "html": "".join(details(run, *found))})

    async def tags(self, request: Request) -> Response:
        """Adds and removes tags of runs."""
        return await run_in_threadpool(self._change, await _body(request))

    def _change(self, asked: object) -> Response:
        wanted = asked if isinstance(asked, dict) else {}
        add, remove = (_texts(wanted.get(name)) for name in ("add", "remove"))
        for run in filter(None, map(self._library.run, _texts(wanted.get("runs")))):
            self._library.tags.change(run.folder.path, add=add, remove=remove)
        return _Answer({})

    def video(self, request: Request) -> Response:
        """Answers with a video, or the part of it that a player asks for."""
        run = self._library.run(request.path_params["id"])
        file = None if run is None else video_file(run, request.path_params["name"])
        return _not_found(request, None) if file is None else FileResponse(file)


def _sender(file: Path) -> Callable[[Request], Response]:
    def send(request: Request) -> Response:
        return FileResponse(file, headers={"Cache-Control": "no-cache"})

    return send


def _told(request: Request, error: Exception) -> Response:
    """Answers with the text of an error of dicore."""
    text = error.message if isinstance(error, DicoreError) else str(error)
    return _Answer({"error": text, "hint": getattr(error, "hint", None)}, 400)


def _not_found(request: Request, error: object) -> Response:
    return PlainTextResponse("not found: see /", 404)


async def _body(request: Request) -> object:
    try:
        return json.loads(await request.body())
    except (RecursionError, ValueError):
        raise UsageError("not JSON") from None


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _ids(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _choice(request: Request, name: str, choices: Sequence[str]) -> Any:  # a Literal
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise UsageError(f"{name}: unknown value; expected {', '.join(choices)}")
    return value


def _number(request: Request, name: str, least: int, most: int) -> int:
    text = request.query_params.get(name, str(least))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UsageError(f"{name}: not a whole number")
    return min(max(int(text), least), most)
