"""`dicore watch`: the report of runs in the browser while they go on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dicore.console import say, verbosity
from dicore.errors import DicoreError, UsageError
from dicore_tools.commands.examples import CommandWithExamples
from dicore_tools.commands.options import AS_JSON
from dicore_tools.commands.output import write_json

if TYPE_CHECKING:
    from dicore.run.folder import RunFolder
    from dicore_tools.json_output.written import Served
    from dicore_tools.reports.run_data import RunData

__all__ = ["command", "serve"]

_MOST_CONNECTIONS: Final = 32
_REQUEST_S: Final = 10.0
_REQUEST_BYTES: Final = 16_384

_EPILOG = """\b
Examples:
  dicore watch runs                            all runs in a folder, and those that come
  dicore watch runs/cartpole_dqn_s0 --every 5

The page is that of dicore report. It is served on this machine only (127.0.0.1); on a remote
machine, forward the port: ssh -L 8300:127.0.0.1:8300 HOST. Ctrl-C ends it.
"""


@click.command(name="watch", cls=CommandWithExamples, epilog=_EPILOG)
@click.argument("places", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--every",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Seconds between updates.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
    show_default=True,
    help="Port on 127.0.0.1; 0: any free one.",
)
@click.option("--open", "show", is_flag=True, help="Show the page in the browser.")
@AS_JSON
@verbosity
def command(places: Sequence[str], *, every: int, port: int, show: bool, as_json: bool) -> None:
    """Serves the report of runs on this machine; it is renewed while they go on."""
    server = serve(places, every=every, port=port)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    if as_json:
        served: Served = {"address": address}
        write_json(served)
    else:
        say(f"{address}   (Ctrl-C ends)", result=True)
    if show:
        click.launch(address)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def serve(places: Sequence[str], *, every: int = 10, port: int = 8300) -> ThreadingHTTPServer:
    """Returns a server of the report on 127.0.0.1, which does not serve yet.

    Args:
        places: Runs, or folders that contain runs.
        every: Seconds after which the browser loads the page again.
        port: Its port; 0: any free one.

    Raises:
        UsageError: there are no runs, or the port is in use.
    """
    from dicore_tools.reports.curves import find_runs

    find_runs(places)
    pages = _Pages(places, every)

    class Handler(BaseHTTPRequestHandler):
        """Answers every request for `/` with the page of now."""

        def setup(self) -> None:
            """Reads the request, which is short, before its lines are looked at."""
            super().setup()
            self.rfile = BytesIO(_request(self.connection))

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0]  # no port if it is 80
            ours = host in ("127.0.0.1", "localhost")  # not a name that a website points here
            found = ours and self.path.partition("?")[0] in ("/", "/index.html")
            content = pages.now() if found else b"not found: see /"
            with suppress(ConnectionError):  # the browser may be gone
                self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - see do_GET
            """Prints nothing."""

    try:
        return _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise UsageError(
            f"port {port} on 127.0.0.1 cannot be used: {error.strerror or error}",
            hint="pass --port 0 for any free one",
        ) from error


class _Server(ThreadingHTTPServer):
    """Holds few connections: a further one ends the oldest, whose browser loads the page again."""

    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._held: dict[Any, None] = {}
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread."""
        with self._lock:
            if len(self._held) >= _MOST_CONNECTIONS:
                with suppress(OSError):
                    next(iter(self._held)).shutdown(socket.SHUT_RDWR)
                del self._held[next(iter(self._held))]
            self._held[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        with self._lock:
            self._held.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: object) -> None:
        """Prints nothing of a connection that ended."""


def _request(connection: socket.socket) -> bytes:
    """Reads a request without a body; what is longer, or not there in time, is cut off."""
    end, data = time.monotonic() + _REQUEST_S, b""
    while b"\r\n\r\n" not in data and len(data) < _REQUEST_BYTES:
        connection.settimeout(max(0.001, end - time.monotonic()))
        try:
            piece = connection.recv(_REQUEST_BYTES)
        except OSError:
            return b""
        if not piece:
            break
        data += piece
    connection.settimeout(_REQUEST_S)
    return data


class _Pages:
    """Makes the page anew when a file of a run has changed."""

    def __init__(self, places: Sequence[str], every: int) -> None:
        self._places, self._every = places, every
        self._seen: object = None
        self._states: list[str] = []
        self._read: dict[Path, tuple[object, RunData]] = {}
        self._content = b""
        self._lock = threading.Lock()

    def now(self) -> bytes:
        """Returns the page; one that says so if no run can be read.

        Runs that cannot be read, because they are being removed or are damaged, are named on it.
        """
        from dicore_tools.reports.curves import find_runs
        from dicore_tools.reports.page import page

        with self._lock:
            try:
                folders = find_runs(self._places)
                seen = [(each.path, *map(_changed, _files(each))) for each in folders]
                states = [run.state for _, run in self._read.values()]
                if (seen, states) != (self._seen, self._states):  # a killed run writes nothing
                    runs, problems = self._runs(folders)
                    content = page(runs, refresh_s=self._every, problems=problems)
                    self._content, self._seen = content.encode("utf-8", "replace"), seen
                    self._states = [run.state for run in runs]
            except (DicoreError, OSError) as error:  # they may be removed at any time
                return self._note(str(error))
            return self._content

    def _runs(self, folders: Sequence[RunFolder]) -> tuple[list[RunData], list[str]]:
        """Reads the runs that have changed; returns all, and what could not be read."""
        from dicore_tools.reports.run_data import read_run

        kept, self._read = self._read, {}
        problems = []
        for folder in folders:
            seen, found = [_changed(file) for file in _files(folder)], kept.get(folder.path)
            try:
                run = read_run(folder) if found is None or found[0] != seen else found[1]
            except (DicoreError, OSError) as error:
                problems.append(f"{folder}: {error}")
            else:
                self._read[folder.path] = seen, run
        if not self._read:
            raise UsageError("\n".join(problems))
        return [run for _, run in self._read.values()], problems

    def _note(self, text: str) -> bytes:
        again = f'<meta http-equiv="refresh" content="{self._every}">'
        page = f"<!doctype html><meta charset=utf-8>{again}<pre>{escape(text)}</pre>"
        return page.encode("utf-8", "replace")


def _files(run: RunFolder) -> tuple[Path, ...]:
    """Returns the files and folders whose changes change the page."""
    return run.metrics, run.metadata, run.config, run.video


def _changed(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
