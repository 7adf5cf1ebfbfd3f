"""Only the board's own page on this machine is answered, and it may load nothing from elsewhere."""

from __future__ import annotations

import json

import pytest

from tests.tools.board.conftest import Board


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:9000", "[::1]:8310"])
def test_this_machine_is_answered(board: Board, host: str) -> None:
    assert board.ask("/api/runs", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8310", "127.0.0.1.evil.example", "localhost.", "", "127.0.0.1@x",
     "localhost:80:80", "evil.example/127.0.0.1"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/runs", "/board.js", "/nothing"])
def test_a_name_that_a_website_points_here_is_refused(board: Board, path: str, host: str) -> None:
    assert board.ask(path, Host=host).status == 403


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
     {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://127.0.0.1:1"}],
    ids=str,
)  # fmt: skip
def test_another_website_is_refused(board: Board, headers: dict[str, str]) -> None:
    assert board.ask("/api/runs", **headers).status == 403
    assert board.change({"runs": [], "add": ["x"]}, **headers).status == 403


def test_changes_come_from_the_page_alone(board: Board) -> None:
    body, ours = json.dumps({"runs": []}), {"Origin": board.address}
    json_of_page = {**ours, "Content_Type": "application/json"}
    assert board.ask("/api/tags", "POST", body, **json_of_page).status == 200
    without_origin = {"Content_Type": "application/json"}
    assert board.ask("/api/tags", "POST", body, **without_origin).status == 403
    form = {**ours, "Content_Type": "text/plain"}
    assert board.ask("/api/tags", "POST", body, **form).status == 403
    assert board.ask("/api/tags", "POST", " " * 70_000, **json_of_page).status == 403
    assert board.ask("/api/tags", "GET").status == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing", "/plotly.js"])
def test_the_page_loads_nothing_from_elsewhere(board: Board, path: str) -> None:
    headers = board.ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert not {"*", "http:", "https:"} & set(policy.replace(";", " ").split())
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
