"""The page works in a browser: a script does what a user would and says what it sees."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import dicore_tools.board
from dicore_tools.board.app import make_app
from dicore_tools.board.tags import FILE
from tests.tools.board.conftest import Serve, add_line
from tests.tools.reports.test_curves import make_run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "<img src=x onerror=alerted=1><script>alerted=1<"
HERE = Path(__file__).parent


def look(runs: Path, serve: Serve, tmp_path: Path, *options: str) -> Any:
    """Returns what the probe found on the page about some runs."""
    results: queue.Queue[Any] = queue.Queue()

    async def page(request: Request) -> Response:
        text = (Path(dicore_tools.board.__path__[0]) / "board.html").read_text()
        return HTMLResponse(
            text.replace("</head>", '<script src="/probe.js" defer></script></head>')
        )

    async def script(request: Request) -> Response:
        return Response((HERE / "probe.js").read_text(), media_type="text/javascript")

    async def append(request: Request) -> Response:
        add_line(runs / "a_s0", 500, 777.0)
        return JSONResponse({})

    async def found(request: Request) -> Response:
        results.put(json.loads(await request.body()))
        return JSONResponse({})

    app = make_app([runs])
    app.router.routes[:0] = [
        Route("/probe.html", page),
        Route("/probe.js", script),
        Route("/probe/append", append, methods=["POST"]),
        Route("/probe/found", found, methods=["POST"]),
    ]
    board = serve(app=app)
    browser = subprocess.Popen(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900",
         f"--user-data-dir={tmp_path / 'profile'}", *options, "--remote-debugging-port=0",
         f"{board.address}/probe.html"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return results.get(timeout=200)
    finally:
        browser.terminate()
        browser.wait(60)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("options", [(), ("--blink-settings=preferredColorScheme=0",)])
def test_it_works_in_a_browser(
    runs: Path, serve: Serve, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Table, filter, live curves, tags, differences, details; no text of a run is executed."""
    evil = make_run(runs / f"stop{EVIL}", [(0, 500.0)], policy={"type": EVIL}, env={"type": EVIL})
    (evil / "run.json").write_text(json.dumps({"status": "failed", "error": EVIL, "argv": [EVIL]}))
    for name in ("a_s0", "a_s1", "b_s0"):
        add_line(runs / name, 10, 0.5, "loss")
    found = look(runs, serve, tmp_path, *options)

    assert found["errors"] == []
    assert found["legend"][:2] == [
        "dqn on cartpole, nstep = 1 (mean of 2)",
        "dqn on cartpole, nstep = 3",
    ]
    assert found["lines"] == 5  # mean, band and single runs of one group, and two of one run
    assert found["colored"] != "rgba(0, 0, 0, 0)"
    assert found["filtered"] == ["a_s0", "a_s1"]
    assert found["sorted"] == [evil.name, "a_s0", "a_s1", "b_s0"]
    assert found["turned"] == found["sorted"][::-1]
    assert found["nothing"] == "Select runs in the table."
    assert found["differences"] == ["option", "a_s0", "b_s0", "policy.nstep", "1", "3"]
    assert found["address"]
    assert EVIL in found["details"]
    assert (found["scripts"], found["alerted"], found["wide"]) == (0, False, True)
    assert len(found["origins"]) == 1
    assert found["origins"][0].startswith("http://127.0.0.1:")
    assert json.loads((runs / FILE).read_text())["tags"] == {"a_s0": ["keep"]}
