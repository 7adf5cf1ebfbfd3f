"""What is told of one run; its videos, and nothing else of the disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dicore_tools.board.details import details, video_file, videos
from dicore_tools.board.run import BoardRun
from tests.tools.board.conftest import Serve
from tests.tools.reports.test_curves import make_run


@pytest.fixture
def run(tmp_path: Path) -> BoardRun:
    folder = make_run(tmp_path / "a", [(0, 9.0)])
    (folder / "video/deep").mkdir(parents=True)
    (folder / "video/one.mp4").write_bytes(bytes(range(100)))
    (folder / "video/deep/a b#?.mp4").write_bytes(b"x")
    return BoardRun(folder, "a")


def html(run: BoardRun) -> str:
    run.refresh()
    return "".join(details(run, run.data(())))


def test_videos_are_those_of_the_run(run: BoardRun, tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").touch()
    (run.folder.video / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (run.folder.video / "out").symlink_to(tmp_path)
    os.mkfifo(run.folder.video / "pipe.mp4")
    assert videos(run) == ["deep/a b#?.mp4", "one.mp4"]
    assert "deep/a%20b%23%3F.mp4" in html(run)


@pytest.mark.parametrize(
    "name",
    ["../run.json", "../../secret.mp4", "..", "", "/etc/passwd", "x\0.mp4", "link.mp4",
     "out/secret.mp4", "deep/../one.mp4", "text.txt", "x" * 5000],
)  # fmt: skip
def test_no_other_file_is_a_video(run: BoardRun, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.mp4").touch()
    (run.folder.video / "text.txt").touch()
    (run.folder.video / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (run.folder.video / "out").symlink_to(tmp_path)
    assert video_file(run, name) is None


def test_a_folder_of_videos_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", [(0, 9.0)])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.mp4").touch()
    (folder / "video").symlink_to(tmp_path / "elsewhere")
    run = BoardRun(folder, "a")
    assert video_file(run, "x.mp4") is None
    assert videos(run) == []


def test_a_player_gets_the_part_that_it_asks_for(run: BoardRun, serve: Serve) -> None:
    board = serve(run.folder.path)
    board.ask("/api/runs")
    answer = board.ask(f"/video/{run.id}/one.mp4", Range="bytes=10-12")
    assert (answer.status, answer.body) == (206, bytes([10, 11, 12]))
    assert answer.headers["content-type"] == "video/mp4"
    for escape in ("%2e%2e/run.json", "..%2f..%2fsecret.mp4", "%00.mp4"):
        assert board.ask(f"/video/{run.id}/{escape}").status == 404


def test_the_error_of_a_run_and_what_is_damaged_are_told(run: BoardRun) -> None:
    record = {"status": "failed", "error": "loss is NaN", "argv": ["dicore", "train"]}
    run.folder.metadata.write_text(json.dumps(record))
    (run.folder.path / "league.json").write_text("{")
    text = html(run)
    assert "loss is NaN" in text
    assert "league.json: cannot be read" in text
    assert "dicore train" in text


def test_damaged_metrics_hide_nothing_else(run: BoardRun) -> None:
    run.folder.metrics.write_text("[1]\n")
    text = html(run)
    assert "1 line left out, damaged" in text
    assert "one.mp4" in text
    assert "How the runs were made" in text
