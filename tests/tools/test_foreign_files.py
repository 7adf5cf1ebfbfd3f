"""Files of a stranger's run: none is waited for, and each that is damaged is one clear error."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.errors import DicoreError
from dicore.run.atomic import read_json, read_regular
from dicore_tools.sessions import Session

KINDS: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda file: file.symlink_to("/dev/zero"),
    "link": lambda file: file.symlink_to("/etc/hostname"),
    "sparse": lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 42),
    "deep": lambda file: file.write_text("[" * 100_000 + "]" * 100_000),
    "deeper": lambda file: file.write_text('{"a":' * 50_000 + "1" + "}" * 50_000 + "\n"),
    "number": lambda file: file.write_text('{"step":' + "9" * 5000 + "}\n"),
    "bytes": lambda file: file.write_bytes(bytes(range(256))),
    "null": lambda file: file.write_text("null\n"),
    "list": lambda file: file.write_text("[1]\n"),
    "types": lambda file: file.write_text(
        '{"status": [], "result": 7, "config": {"env": 3}, "components": {"env": 5}, "format": 1,'
        ' "limits": "x", "learner": 3, "ended": {}, "resumed": {}, "argv": 7, "rows": [1]}\n'
    ),
}
FILES = ("config.json", "run.json", "log/metrics.jsonl", "log/status.json", "log/profile.json")
READERS: dict[str, Callable[[str], Any]] = {
    "config show": lambda run: main(["config", "show", run]),
    "config diff": lambda run: main(["config", "diff", run, "cartpole_dqn"]),
    "report": lambda run: main(["report", run, "-o", f"{run}.html"]),
    "diagnose": lambda run: main(["diagnose", run]),
    "plot": lambda run: main(["plot", run, "--text"]),
    "profile": lambda run: main(["plot", run, "--profile", "--text"]),
    "status": lambda run: main(["status", run]),
    "result": lambda run: Session(run).result,
    "metrics": lambda run: Session(run).metrics("eval/return_mean"),
}


@pytest.fixture(autouse=True)
def no_wait() -> Iterator[None]:
    """Ends a read that waits for a pipe."""

    def end(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES)
def test_every_reader_ends_with_one_error(
    run: Path, file: str, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place = run / file
    place.unlink(missing_ok=True)
    KINDS[kind](place)
    for name, read in READERS.items():
        try:
            code = read(str(run))
        except DicoreError:
            continue
        said = capfd.readouterr().err
        assert code in (0, 2) or not isinstance(code, int), f"{name}: {said}"
        assert "Traceback" not in said, name


@pytest.mark.parametrize("kind", ["pipe", "deeper", "types"])
def test_a_run_with_such_a_record_is_resumed(
    run: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (run / "run.json").unlink()
    KINDS[kind](run / "run.json")
    code = main(["train", "--resume", str(run), "--max-env-step", "24", "-q"])
    said = capfd.readouterr().err
    assert code == 0 or (code == 2 and "refusing to write to it" in said), said


def test_a_report_embeds_no_file_that_a_link_leads_to(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"a private key")
    (run / "video").mkdir(exist_ok=True)
    (run / "video" / "x.mp4").symlink_to(tmp_path / "secret")
    (run / "video" / "y.mp4").write_bytes(b"a video")
    assert main(["report", str(run), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "YSB2aWRlbw" in page
    assert "YSBwcml2YXRlIGtle" not in page


@pytest.mark.parametrize("reader", ["report", "diagnose", "status", "plot"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_metrics_that_are_no_file_are_a_problem(
    run: Path, capsys: pytest.CaptureFixture[str], kind: str, reader: str
) -> None:
    """A run without metrics has only begun; one whose metrics are no file is damaged."""
    (run / "log/metrics.jsonl").unlink(missing_ok=True)
    KINDS[kind](run / "log/metrics.jsonl")
    assert READERS[reader](str(run)) == 2
    assert "metrics.jsonl: " in capsys.readouterr().err


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"a": 1}')
    assert read_json(file) == {"a": 1}
    with pytest.raises(OSError, match="larger than 0 MiB"):
        read_regular(file, at_most=3)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError, match="a symbolic link"):
        read_regular(tmp_path / "link")
