"""The page about runs: one file, right numbers, and it works in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.folder import RunFolder
from dicore_tools.commands.watch import serve
from dicore_tools.reports.chart import MAX_POINTS, thinned, ticks
from dicore_tools.reports.curves import TAG, read_curve
from dicore_tools.reports.run_data import read_run
from dicore_tools.results.statistics import iqm_interval
from tests.tools.reports.test_curves import make_run

POINTS = [(0, 9.0), (100, 200.0), (200, 480.0)]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Takes a page apart: its text, its tags with their attributes, and that they are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def report(*places: Path, **options: str) -> str:
    out = places[0].parent / "report.html"
    more = [part for name, value in options.items() for part in (f"--{name}", value)]
    assert main(["report", *map(str, places), "-o", str(out), *more]) == 0
    return out.read_text(encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two groups, of two runs and of one."""
    folder = tmp_path / "runs"
    make_run(folder / "a_s0", POINTS, stop=True, seed=0)
    make_run(folder / "a_s1", [(0, 11.0), (100, 100.0), (300, 300.0)], seed=1)
    other = {"type": "dqn", "nstep": 3}
    make_run(folder / "b_s0", [(0, 10.0), (400, 50.0)], seed=0, policy=other)
    return folder


def test_the_page_needs_nothing_else(runs: Path) -> None:
    html = report(runs)
    page = Page(html)
    assert page.open == []
    loaded = [
        value
        for _, attrs in page.tags
        for name, value in attrs.items()
        if name in ("src", "href", "action")
    ]
    assert loaded == []
    assert "@import" not in html
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", html)


def test_its_numbers_are_those_of_the_runs(runs: Path) -> None:
    text = " ".join(Page(report(runs)).text)
    assert "dqn on cartpole" in text
    assert "390 (300 to 480)" in text  # best return of the two runs with nstep 1
    assert "1 of 2" in text
    assert "0 of 1" in text
    assert "policy.nstep" in text
    assert "max_env_step" not in text


def test_a_curve_is_drawn_where_its_values_are(runs: Path) -> None:
    html = report(runs / "a_s0")
    points = re.search(r'<polyline class="mean" points="([^"]*)"', html)
    (low_x, high_x), (high_y, low_y) = (
        map(float, found.split()[2:]) for found in re.findall(r'data-[xy]="([^"]*)"', html)[:2]
    )
    left, right, top, bottom = 64, 748, 12, 296
    assert points is not None
    drawn = [tuple(map(float, each.split(","))) for each in points[1].split()]
    x = [low_x + (each[0] - left) / (right - left) * (high_x - low_x) for each in drawn]
    y = [high_y - (each[1] - top) / (bottom - top) * (high_y - low_y) for each in drawn]
    wanted = np.interp(x, *zip(*POINTS, strict=True))
    np.testing.assert_allclose(y, wanted, atol=1.0)
    assert (round(x[0]), round(x[-1])) == (0, 200)


@pytest.mark.parametrize(
    "line",
    ["[1]", "5", '{"a": [1]}', '{"step": "x", "train_iter": 0, "time": 0}', "{}", "[" * 100_000,
     '{"step": 1, "train_iter": 0, "time": 0, "a": {"b": 1}}',
     f'{{"step": {10**400}, "train_iter": 0, "time": 0, "a": 1}}'],
    ids=lambda line: line[:60],
)  # fmt: skip
@pytest.mark.parametrize("command", ["report", "plot"])
def test_a_line_that_is_not_of_metrics_is_named(
    command: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "a", POINTS)
    (folder / "log/metrics.jsonl").write_text(f"{line}\n")
    out = tmp_path / f"x.{'png' if command == 'plot' else 'html'}"
    assert main([command, str(folder), "-o", str(out)]) == 2
    assert re.search(r"metrics\.jsonl: line 1 is not one of metrics", capsys.readouterr().err)


def test_values_that_no_picture_can_show_are_left_out(tmp_path: Path) -> None:
    points = [(0, 1.0), (10, 1e308), (20, -1e308), (30, float("inf")), (40, 3.0)]
    for seed in range(2):
        make_run(tmp_path / f"runs/a_s{seed}", points, seed=seed)
    assert "3 (3 to 3)" in " ".join(Page(report(tmp_path / "runs")).text)
    curve = read_curve(RunFolder(tmp_path / "runs/a_s0"))
    assert (curve.x.tolist(), curve.y.tolist()) == ([0, 40], [1, 3])
    assert main(["plot", str(tmp_path / "runs"), "--text"]) == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", '{"result": {"env_step": NaN}}'),
        ("run.json", '{"result": {"wall_s": Infinity}}'),
        ("run.json", '{"seed": "x"}'),
        ("run.json", "null"),
        ("config.json", '{"config": {"env": [1]}}'),
        ("config.json", '{"config": [1]}'),
        ("config.json", '{"config": {}}'),
        ("config.json", "{}"),
        ("config.json", "[]"),
    ],
)
def test_a_damaged_record_or_config_is_named(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "a", POINTS)
    (folder / name).write_text(content)
    assert main(["report", str(folder), "-o", str(tmp_path / "x.html")]) == 2
    assert f"{name}: it is not one that dicore wrote" in capsys.readouterr().err
    assert main(["diagnose", str(folder)]) == 2
    assert f"{name}: it is not one that dicore wrote" in capsys.readouterr().err
    assert main(["plot", str(folder), "--text"]) == 0
    warned = "config.json: not one that dicore wrote" in capsys.readouterr().err
    assert warned == (content in ("{}", "[]", '{"config": {}}', '{"config": [1]}'))


@pytest.mark.parametrize(
    ("content", "told"), [("", "it is empty"), ('{"config": {', "not JSON")], ids=["empty", "cut"]
)
def test_a_config_that_is_empty_or_cut_off_is_told(
    content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "a", POINTS)
    (folder / "config.json").write_text(content)
    for name in ("status.json", "profile.json"):
        (folder / "log" / name).write_text(content)
    for words, name in (
        (["diagnose"], "config.json"), (["plot", "--text"], "config.json"),
        (["status"], "status.json: cannot be read"), (["plot", "--profile"], "profile.json"),
    ):  # fmt: skip
        assert main([*words, str(folder)]) == 2
        said = capsys.readouterr().err
        assert f"{name}: {told}" in said
        assert "hint: it was damaged" in said


def test_json_writes_no_page_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = str(make_run(tmp_path / "a", POINTS)), str(tmp_path / "x.html")
    assert main(["report", folder, "-o", file, "--title", "x", "--json"]) == 2
    assert "--out, --title would have no effect" in capsys.readouterr().err
    assert main(["report", folder, "--json"]) == 0
    assert main(["plot", folder, "--text", "-o", file]) == 2
    assert "--out would have no effect" in capsys.readouterr().err


def test_a_folder_whose_name_is_no_text_is_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / os.fsdecode(b"caf\xe9_s0"), POINTS)
    assert "caf?_s0" in report(folder)


def test_the_mean_of_noisy_runs_is_their_mean(tmp_path: Path) -> None:
    """Points that are left out of a picture count in its mean."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        values = np.where(rng.random(4_000) < 0.01, 100.0, 0.0)
        points = [(step, float(value)) for step, value in enumerate(values)]
        make_run(tmp_path / f"runs/a_s{seed}", points, seed=seed)
    html = report(tmp_path / "runs")
    points = re.search(r'<polyline class="mean" points="([^"]*)"', html)
    high_y, low_y = map(float, re.findall(r'data-y="([^"]*)"', html)[0].split()[2:])
    assert points is not None
    drawn = np.array([float(each.split(",")[1]) for each in points[1].split()])
    y = high_y - (drawn - 12) / (296 - 12) * (high_y - low_y)
    assert abs(y.mean() - 1) < 1


def test_several_runs_have_an_interquartile_mean(tmp_path: Path) -> None:
    for seed, best in enumerate((0.0, 10.0, 20.0, 100.0)):
        make_run(tmp_path / f"runs/a_s{seed}", [(0, -1.0), (100, best)], seed=seed)
    found = iqm_interval([[0.0, 10.0, 20.0, 100.0]])
    assert found.value == 15
    text = " ".join(Page(report(tmp_path / "runs")).text)
    assert f"15 [{found.low:.4g}, {found.high:.4g}]" in text


@pytest.mark.parametrize(("host", "state"), [("", "killed"), ("elsewhere", "running")])
def test_a_run_whose_process_is_gone_was_killed(host: str, state: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", POINTS)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    record = {"status": "running", "pid": gone.pid, "host": host or platform.node()}
    (folder / "run.json").write_text(json.dumps(record))
    assert read_run(RunFolder(folder)).state == state


HOSTILE = "\"'><img src=x onerror=alert(1)><script>alert(1)</script></title></script>"


def poisoned(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: poisoned(value) for key, value in tree.items()}
    return tree + HOSTILE if isinstance(tree, str) else tree


def test_what_runs_are_called_and_say_is_text(tmp_path: Path) -> None:
    """Names, options, metrics, errors and records of runs are shown as they are."""
    for seed, nstep in enumerate((1, 3)):
        policy = {"type": "dqn", "nstep": nstep, f"x{HOSTILE}": f"{seed}{HOSTILE}"}
        name = f"{seed}<script>alert(1)<"
        run = make_run(tmp_path / "runs" / name, POINTS, seed=seed, policy=policy)
        record = {
            "status": HOSTILE, "error": {"message": HOSTILE}, "argv": [HOSTILE],
            "versions": {HOSTILE: HOSTILE}, "host": HOSTILE, "git": HOSTILE, "started": HOSTILE,
            "components": {HOSTILE: {"type": HOSTILE, "dist": HOSTILE, "version": HOSTILE}},
        }  # fmt: skip
        (run / "run.json").write_text(json.dumps(record))
        config = poisoned(json.loads((run / "config.json").read_text()))
        (run / "config.json").write_text(json.dumps(config))
        with (run / "log/metrics.jsonl").open("a") as file:
            line = {"step": 300, "train_iter": 300, "time": 1.0, f"learner/{HOSTILE}": 1.0}
            file.write(json.dumps(line) + "\n")
        (run / "video").mkdir()
        (run / "video" / f"{HOSTILE.replace('/', '')}.mp4").write_bytes(b"0")
    for options in ({}, {"title": HOSTILE}):
        page = Page(report(tmp_path / "runs", **options))
        tags = [tag for tag, _ in page.tags]
        assert (tags.count("script"), tags.count("title"), tags.count("img")) == (1, 1, 0)
        assert not [name for _, given in page.tags for name in given if name.startswith("on")]
        assert sum(HOSTILE in text for text in page.text) > 10


def test_a_run_without_an_evaluation_is_there(tmp_path: Path) -> None:
    make_run(tmp_path / "new", [])
    (tmp_path / "new/run.json").write_text(
        json.dumps({"status": "failed", "error": {"message": "env 3 raised <Error>"}})
    )
    text = " ".join(Page(report(tmp_path / "new")).text)
    assert "no curves" in text
    assert "failed: env 3 raised <Error>" in text


def test_videos_are_part_of_the_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", POINTS)
    (folder / "video").mkdir()
    (folder / "video/env_0.mp4").write_bytes(b"0123456789")
    (folder / "video/large.mp4").write_bytes(bytes(2_000_001))
    page = Page(report(folder))
    (video,) = [attrs for tag, attrs in page.tags if tag == "video"]
    assert video["src"] == "data:video/mp4;base64,MDEyMzQ1Njc4OQ=="
    (link,) = [attrs for tag, attrs in page.tags if tag == "a"]
    assert str(link["href"]).endswith("large.mp4")


def test_a_file_that_cannot_be_written_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(runs), "-o", str(runs / "a_s0/run.json/x.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_thinned_curves_keep_their_extremes() -> None:
    y = np.zeros(100_000)
    y[[777, 51_234]] = 5.0, -3.0
    x, kept = thinned(np.arange(100_000.0), y)
    assert len(x) <= MAX_POINTS
    assert (kept.max(), kept.min(), x[0], x[-1]) == (5.0, -3.0, 0, 99_999)
    assert x[kept == 5.0].tolist() == [777]
    assert (np.diff(x) > 0).all()


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (-0.3, 0.31, [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]),
        (0, 1e6, None),
        (5e-7, 6e-7, None),
    ],
)
def test_ticks_are_round(low: float, high: float, wanted: list[float] | None) -> None:
    found = ticks(low, high, 5)
    assert all(low - 1e-9 <= each <= high * (1 + 1e-9) for each in found)
    assert 2 <= len(found) <= 11
    if wanted is not None:
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_all_metrics_are_read_at_once(runs: Path) -> None:
    found = read_run(RunFolder(runs / "a_s0"))
    assert found.columns[TAG][:, 0].tolist() == [0, 100, 200]
    assert found.best_return == 480
    assert found.progress == (200, 100, 2.0)
    curve = found.curve(TAG, "wall")
    assert curve is not None
    assert curve.x.tolist() == [0, 1, 2]


def test_watching_holds_few_connections_of_strangers(runs: Path) -> None:
    """RELIABILITY E08: they are silent, or send a line that never ends."""
    server = serve([str(runs)], port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    place = "127.0.0.1", int(server.server_address[1])
    strangers = [socket.create_connection(place, timeout=200) for _ in range(64)]
    try:
        for each in strangers[::2]:
            with contextlib.suppress(OSError):
                each.sendall(b"GET /" + b"x" * 20_000)
        with urllib.request.urlopen("http://{}:{}/".format(*place), timeout=200) as answer:
            assert answer.status == 200
        assert len(server._held) <= 32  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for each in strangers:
            each.close()


def test_watching_serves_the_page_of_now(runs: Path) -> None:
    server = serve([str(runs)], every=3, port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        host, port = server.server_address[:2]
        assert host == "127.0.0.1"
        address = f"http://127.0.0.1:{port}"

        def get(path: str = "/") -> str:
            with urllib.request.urlopen(address + path, timeout=200) as answer:
                text: str = answer.read().decode()
                return text

        first = get()
        assert 'http-equiv="refresh" content="3"' in first
        assert get("/?again") == first
        make_run(runs / "c_s0", [(0, 1.0), (10, 2.0)], seed=7)
        assert "c_s0" in get()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get("/../run.json")
        with pytest.raises(UsageError, match="cannot be used"):
            serve([str(runs)], port=int(port))
        shutil.rmtree(runs)
        assert "no such folder" in get()
        make_run(runs / "new_s0", [(0, 1.0), (10, 2.0)])
        make_run(runs / "odd<_s0", [(0, 1.0)])
        (runs / "odd<_s0/run.json").write_text("{")
        page = get()
        assert "new_s0" in page
        assert "odd&lt;_s0" in page
        assert "cannot read" in page
        shutil.rmtree(runs / "new_s0")
        assert "odd&lt;_s0" in get()
        assert "odd<_s0" not in get()

        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        alive = make_run(runs / "alive_s0", [(0, 1.0), (10, 2.0)])
        record = {"status": "running", "pid": child.pid, "host": platform.node()}
        (alive / "run.json").write_text(json.dumps(record))
        assert "1 running" in get()
        child.communicate(b"\n")
        assert "1 killed" in get(), "a process that is killed changes no file"

        request = urllib.request.Request(address, headers={"Host": "localhost"})
        with urllib.request.urlopen(request, timeout=200) as answer:
            assert answer.status == 200
        foreign = urllib.request.Request(address, headers={"Host": "a.example:80"})
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(foreign, timeout=200)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


PROBE = """
<script>
const figure = document.querySelector("figure"), found = {};
figure.dispatchEvent(new KeyboardEvent("keydown", {key: "End"}));
found.last = figure.querySelector("output").textContent;
figure.dispatchEvent(new KeyboardEvent("keydown", {key: "Home"}));
found.first = figure.querySelector("output").textContent;
const box = document.querySelector("input[data-group='0']");
box.click();
found.hidden = [...document.querySelectorAll(".group.g0")].every(
  (each) => getComputedStyle(each).display === "none");
box.click();
document.getElementById("axis2").click();
found.panels = [...document.querySelectorAll(".panel")].map(
  (each) => getComputedStyle(each).display);
found.wide = document.documentElement.scrollWidth;
document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_it_works_in_a_browser(runs: Path, tmp_path: Path) -> None:
    """By keyboard, on a narrow screen, and without an error of a script."""
    caught = (
        '<script>addEventListener("error", (e) => { document.title = "E " + e.message; });</script>'
    )
    html = report(runs).replace("<title>", caught + "<title>").replace("</body>", PROBE + "</body>")
    file = tmp_path / "probe.html"
    file.write_text(html)
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=500,900",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    page = Page(done.stdout)
    found = json.loads(next(text for text in page.text if '"panels"' in text))
    assert found["first"].startswith("0\n10  nstep = 1")
    assert found["last"].startswith("400\n")
    assert "50  nstep = 3" in found["last"]
    assert found["hidden"] is True
    assert found["panels"] == ["none", "none", "block"]
    assert found["wide"] <= 500
    assert "<title>E " not in done.stdout
