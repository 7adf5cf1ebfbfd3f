"""What the page asks for, over HTTP."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import dicore_tools.board.app as module
from dicore.errors import MissingDependencyError
from dicore_tools.board.app import make_app, plotly_script
from dicore_tools.board.tags import FILE, Tags
from dicore_tools.reports.curves import TAG
from tests.tools.board.conftest import Board, Serve, add_line
from tests.tools.conftest import mtimes
from tests.tools.reports.test_curves import make_run


def ids(board: Board) -> str:
    return ",".join(board.ask("/api/runs").json["ids"])


def test_the_page_and_all_that_it_loads_are_here(board: Board) -> None:
    page = board.ask("/").body.decode()
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert "/plotly.js" in loaded
    for name in ("board.js", "charts.js", "table.js"):
        loaded += re.findall(r'from "([^"]*)"', board.ask(f"/{name}").body.decode())
    for path in loaded:
        assert path == "data:," or board.ask(path).status == 200, path


def test_only_what_is_new_is_answered(board: Board, runs: Path) -> None:
    first = board.ask("/api/runs").json
    assert len(first["rows"]) == 3
    add_line(runs / "a_s0", 500, 77.0)
    found = {"rows": []}
    for _ in range(1000):  # files are looked at now and then
        found = board.ask(f"/api/runs?since={first['version']}").json
        if found["rows"]:
            break
        time.sleep(0.03)
    assert [(row["name"], row["last"]) for row in found["rows"]] == [("a_s0", 77)]


def test_curves_of_several_metrics_come_together(board: Board, runs: Path) -> None:
    add_line(runs / "b_s0", 500, 0.5, "loss")
    asked = urlencode({"runs": ids(board), "metric": [TAG, "loss"], "x": "train_iter"}, doseq=True)
    found = board.ask(f"/api/curves?{asked}").json
    assert (found["reading"], [chart["metric"] for chart in found["charts"]]) == (0, [TAG, "loss"])
    assert found["charts"][0]["x_title"] == "updates"
    assert found["charts"][1]["groups"][0]["lines"][0]["y"] == [0.5]


@pytest.mark.parametrize(
    "query",
    ["x=nothing", "band=x", "window=-1", "window=1e3", "window=%D9%A3", "by=nothing"],
)
def test_what_is_asked_wrongly_is_told(board: Board, query: str) -> None:
    answer = board.ask(f"/api/curves?runs={ids(board)}&{query}")
    assert answer.status == 400
    assert answer.json["error"]


def test_options_that_differ(board: Board) -> None:
    found = board.ask(f"/api/differences?runs={ids(board)}").json
    assert found == {"runs": ["a_s0", "a_s1", "b_s0"], "rows": [["policy.nstep", ["1", "1", "3"]]]}


@pytest.mark.parametrize(
    "path",
    [
        "/api/details/nothing",
        "/api/details/..%2f..",
        "/video/x/y.mp4",
        "/../etc/passwd",
        "/static/x",
    ],
)
def test_what_is_not_there_is_not_found(board: Board, path: str) -> None:
    assert board.ask(path).status == 404


def test_tags_are_added_and_removed(board: Board, runs: Path) -> None:
    before = {name: mtimes(runs / name) for name in ("a_s0", "a_s1", "b_s0")}
    first, second, _ = ids(board).split(",")
    assert board.change({"runs": [first, second], "add": ["x", "<b>"]}).status == 200
    assert board.change({"runs": [first], "remove": ["x"]}).status == 200
    assert json.loads((runs / FILE).read_text())["tags"] == {"a_s0": ["<b>"], "a_s1": ["<b>", "x"]}
    assert {name: mtimes(runs / name) for name in before} == before


@pytest.mark.parametrize(
    "body", [1, None, [], {}, {"runs": "x"}, {"runs": ["../../etc"], "add": ["x"]}, {"runs": [1]}]
)
def test_changes_of_nothing_change_nothing(board: Board, runs: Path, body: object) -> None:
    before = mtimes(runs)
    assert board.change(body).status == 200
    assert mtimes(runs) == before


def test_a_bad_tag_is_told(board: Board) -> None:
    answer = board.change({"runs": ids(board).split(","), "add": ["x" * 99]})
    assert (answer.status, "not a tag" in answer.json["error"]) == (400, True)


def test_texts_of_strangers_are_not_html(tmp_path: Path, serve: Serve) -> None:
    """Everything that a run may say stands in its details, and nothing of it is a tag."""
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    run = make_run(tmp_path / "runs/<b>evil", [(0, 1.0)], env={"type": evil}, policy={"type": evil})
    record = {"status": evil, "error": evil, "argv": [evil], "host": evil, "git": evil,
              "versions": {evil: evil}, "components": {evil: {"type": evil}}}  # fmt: skip
    (run / "run.json").write_text(json.dumps(record))
    (run / "league.json").write_text(json.dumps({evil: evil}))
    (run / "video").mkdir()
    (run / "video/<i>x.mp4").touch()
    board = serve(tmp_path / "runs")
    (row,) = board.rows().values()
    answer = board.ask(f"/api/details/{row['id']}")
    html = answer.json["html"]
    assert "&lt;script&gt;" in html
    assert not re.search(r"<(script|img|b|i)\b", html)
    assert answer.headers["content-type"] == "application/json"
    assert board.ask("/api/runs").headers["content-type"] == "application/json"


ODD: dict[str, dict[str, Any]] = {
    "a stop value without end": {"env": {"type": "x", "stop_value": 10**400}},
    "half a character": {"env": {"type": "\ud800"}, "policy": {"type": "\udfff", "a\ud800": "b"}},
    "lists for names": {"env": {"type": [1]}, "policy": {"type": {"type": {}}}},
}


@pytest.mark.parametrize("config", ODD.values(), ids=ODD)
def test_an_odd_run_hides_no_other(runs: Path, serve: Serve, config: dict[str, Any]) -> None:
    odd = make_run(runs / os.fsdecode(b"odd\xff"), [(0, 1.0), (10, 2.0)], **config)
    result = {"env_step": 10**400, "wall_s": 10**400, "train_iter": 10**400}
    record = {"status": "done", "result": result, "seed": 10**400, "error": "\ud800"}
    (odd / "run.json").write_text(json.dumps(record))
    add_line(odd, 20, 5.0, "loss\ud800")
    (odd / "video").mkdir()
    (odd / "video" / os.fsdecode(b"\xff.mp4")).touch()
    board = serve(runs)
    rows = board.rows()
    assert set(rows) == {"a_s0", "a_s1", "b_s0", "odd?"}
    assert rows["odd?"]["best"] == 2
    for path in ("curves", "differences"):
        assert board.ask(f"/api/{path}?runs={ids(board)}").status == 200
    assert board.ask(f"/api/details/{rows['odd?']['id']}").status == 200
    assert board.change({"runs": [rows["odd?"]["id"]], "add": ["x"]}).status == 200
    assert Tags().of(odd) == ["x"]


def test_without_plotly_the_extra_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plotly_script().is_file()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError) as caught:
        make_app([runs])
    assert "dicore-tools[board]" in str(caught.value.hint)


def test_a_raised_budget_is_a_difference(board: Board, runs: Path) -> None:
    """Its config is that of the beginning; the record of the run has the budget of now."""
    for name, budget in (("a_s0", 300), ("a_s1", 600)):
        record = json.loads((runs / name / "run.json").read_text())
        record["limits"] = {"max_env_step": budget, "max_train_iter": None, "stop_value": 475.0}
        (runs / name / "run.json").write_text(json.dumps(record))
    rows = board.rows()
    found = board.ask(f"/api/differences?runs={rows['a_s0']['id']},{rows['a_s1']['id']}").json
    assert ["pipeline.max_env_step", ["300", "600"]] in found["rows"]
