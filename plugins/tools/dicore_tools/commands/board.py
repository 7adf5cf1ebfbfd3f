"""`dicore board`: a page to work with runs in the browser, on this machine only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dicore.console import say, verbosity
from dicore.errors import MissingDependencyError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json

if TYPE_CHECKING:
    from dicore_tools.json_output.written import Served

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore board runs                        all runs in a folder, and those that come
  dicore board runs /data/runs --open      two folders; shows the page in the browser
  dicore board runs --port 9000

The page lists the runs, draws curves of those that are selected, compares their configs, and shows
diagnoses, videos and payoffs of leagues. It follows runs that are being trained. Needs
pip install 'dicore-tools[board]'.

It is served on this machine only (127.0.0.1); on a remote machine, forward the port:
ssh -L 8310:127.0.0.1:8310 HOST. Tags are kept in .dicore-board.json beside the run folders; nothing
else is written. Ctrl-C ends it.
"""


@click.command(name="board", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1.  [default: 8310, or a free one if it is in use]",
)
@click.option("--open", "show", is_flag=True, help="Show the page in the browser.")
@AS_JSON
@verbosity
def command(places: Sequence[str], *, port: int | None, show: bool, as_json: bool) -> None:
    """Serves a page to filter, tag, compare and follow runs in the browser."""
    try:
        from dicore_tools.board.app import make_app
        from dicore_tools.board.server import HOST, listen, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingDependencyError(
            f"the board needs {error.name}", hint="pip install 'dicore-tools[board]'"
        ) from error
    app = make_app(places)
    listener = listen(port)
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    if as_json:
        served: Served = {"address": address}
        write_json(served)
    else:
        say(f"{address}   (Ctrl-C ends)", result=True)
    if show:
        click.launch(address)
    serve(app, listener)
