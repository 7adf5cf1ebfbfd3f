"""Progress: a bar on a terminal, plain lines elsewhere, nothing at all into a closed pipe."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dicore.interfaces.logger import ILogger, LogTarget, SupportsProgress
from dicore.run.log import MetricsFile
from dicore_plugins.loggers.console import ConsoleLogger
from dicore_plugins.loggers.heartbeat import beat

PROGRAM = """
import sys, time
from pathlib import Path
from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers.console import ConsoleLogger

logger = ConsoleLogger(interval=0.0)
logger.open(LogTarget(Path("log"), "runs/[x]", max_env_step=1000))
for step in (0, 250, 500, 1000):
    logger.log_scalars({"evaluator/return_mean": step / 2}, env_step=step, train_iter=step // 2)
    time.sleep(0.12)
logger.log_text("said in between")
logger.close()
logger.close()
print("end", flush=True)
print("rich" in sys.modules, file=sys.stderr)
"""
RETURN = "evaluator/return_mean"
COLOUR = r"\x1b\[(3|9)\d"


def on_terminal(environ: Mapping[str, str]) -> tuple[str, int]:
    """Runs the program with a pseudo terminal as stdout; returns what appeared, and its code."""
    parent, child = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=child, env={**os.environ, **environ}
        )
    finally:
        os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    return seen.decode(), process.wait(200)


def test_a_terminal_sees_a_bar_with_return_rate_and_title() -> None:
    text, code = on_terminal({"TERM": "xterm", "COLUMNS": "160"})
    assert code == 0
    for shown in (
        "runs/[x]",
        "1000/1000 env steps",
        "return 500.0",
        "best 500.0",
        "said in between",
    ):
        assert shown in text
    assert re.search(COLOUR, text)
    assert text.rstrip().endswith("end")


@pytest.mark.parametrize(
    ("environ", "shown", "left_out"),
    [
        ({"TERM": "xterm", "COLUMNS": "160", "NO_COLOR": "1"}, "1000/1000 env steps", COLOUR),
        ({"TERM": "dumb"}, "500/1000 env steps", "\x1b"),
    ],
)
def test_terminals_without_colour_or_control_codes(
    environ: dict[str, str], shown: str, left_out: str
) -> None:
    text, code = on_terminal(environ)
    assert code == 0
    assert shown in text
    assert not re.search(left_out, text)


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        (70, ["1000/1000 env steps", "return 500.0", "/s"], ["runs/[x]"]),
        (46, ["1000/1000 env steps", "return 500.0"], ["runs/[x]", "best"]),
        (33, ["1000/1000 env steps"], ["return", "best", "/s"]),
    ],
)
def test_a_narrow_terminal_sees_what_matters_whole(
    columns: int, shown: list[str], left_out: list[str]
) -> None:
    text, code = on_terminal({"TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1"})
    assert code == 0
    *_, last = (line for line in re.split(r"[\r\n]+", text) if "1000/1000" in line)
    assert "━" in last, "the bar is there"
    assert "…" not in text
    for words in shown:
        assert words in last
    for words in left_out:
        assert words not in last


def test_a_pipe_gets_plain_lines_and_no_rich() -> None:
    """R-F12."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stderr == "False\n"
    *progress, said, end = done.stdout.splitlines()
    assert (said, end) == ("said in between", "end")
    assert len(progress) == 4
    assert progress[1].startswith("250/1000 env steps  125 updates  return 125.0 (best 125.0)")
    assert "left" in progress[2]
    assert "left" not in progress[3]


def test_a_reader_that_leaves_is_no_error() -> None:
    """R-F12: `| head -1` ends the pipe, not the program."""
    loop = "import sys\n" + PROGRAM.replace("(0, 250, 500, 1000)", "range(0, 1000, 20)").replace(
        "0.12", "0.002"
    ).replace('print("end", flush=True)', "from dicore.console import say; say('end')")
    process = subprocess.Popen(
        [sys.executable, "-c", loop], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(200) == 0
        assert process.stderr.read() == "False\n"


def test_lines_come_at_most_every_interval_and_once_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = ConsoleLogger(interval=1000)
    assert isinstance(logger, ILogger)
    logger.open(LogTarget(Path()))
    for step in range(10):
        logger.log_scalars({"x": 1.0}, env_step=step, train_iter=0)
    logger.log_scalars({RETURN: 3.0}, env_step=10, train_iter=4)
    logger.log_scalars({RETURN: 2.0}, env_step=11, train_iter=5)
    logger.log_text("from a part", channel="learner")
    assert capsys.readouterr().out == ""
    logger.close()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("11 env steps  5 updates  return 2.0 (best 3.0)")


def test_a_training_without_metrics_is_not_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an env step takes a third of a second, and metrics come every 100 updates."""
    now = [100.0]
    monkeypatch.setattr("dicore_plugins.loggers.console.time.monotonic", lambda: now[0])
    logger = ConsoleLogger()
    assert isinstance(logger, SupportsProgress)
    logger.open(LogTarget(Path()))
    for step in range(1, 61):
        logger.log_progress(env_step=step, train_iter=0)
        now[0] += 0.5
    logger.log_scalars({RETURN: 3.0}, env_step=61, train_iter=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == [
        *(f"{step} env steps" for step in (17, 33, 49)), "61 env steps"
    ]  # fmt: skip
    assert lines[0].endswith("  2 env steps/s")
    logger.close()


def test_an_update_that_takes_long_is_not_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an on-policy algorithm on images."""
    now = [100.0]
    monkeypatch.setattr("dicore_plugins.loggers.console.time.monotonic", lambda: now[0])
    logger = ConsoleLogger(interval=2)
    logger.open(LogTarget(Path()))
    logger.log_progress(env_step=128, train_iter=0)
    for _ in range(20):
        now[0] += 1.0
        beat()
    now[0] += 1.0
    logger.log_scalars({RETURN: 3.0}, env_step=128, train_iter=20)
    beat()
    logger.close()
    beat()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  learning: ")[2].partition("  ")[0] for line in lines] == [
        "step 8", "step 16", ""
    ]  # fmt: skip


def test_a_resumed_run_knows_its_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("", "[1]\n", '{"step": 5}\n'):
        (tmp_path / "metrics.jsonl").write_text(text)
        ConsoleLogger().open(LogTarget(tmp_path, resumed_at=(20, 2)))
    numbers = MetricsFile(tmp_path / "metrics.jsonl")
    for step, value in ((10, 7.0), (20, 5.0), (30, 9.0)):  # the last came after the checkpoint
        numbers.log_scalars({RETURN: value}, env_step=step, train_iter=step // 10)
    numbers.close()
    logger = ConsoleLogger(interval=0)
    logger.open(LogTarget(tmp_path, resumed_at=(20, 2)))
    logger.log_scalars({RETURN: 6.0}, env_step=30, train_iter=3)
    logger.close()
    assert "return 6.0 (best 7.0)" in capsys.readouterr().out


def test_lines_of_several_runs_say_whose_they_are_and_come_less_often(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dicore.console import chatter, is_terminal, say

    now = [0.0]
    monkeypatch.setattr("dicore_plugins.loggers.console.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert is_terminal()
    with chatter("normal", "seed 3: "):
        assert not is_terminal(), "two bars in one line"
        logger = ConsoleLogger(interval=2)
        logger.open(LogTarget(Path(), max_env_step=100))
        for second in range(10, 31):
            now[0] = second
            logger.log_scalars({RETURN: 3.0}, env_step=second, train_iter=4)
    say("after it")
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("seed 3: 20/100 env steps")
    assert second.startswith("seed 3: 30/100 env steps")
    assert last == "after it"


def test_a_budget_in_updates_is_counted_in_updates(capsys: pytest.CaptureFixture[str]) -> None:
    logger = ConsoleLogger(interval=0)
    logger.open(LogTarget(Path(), max_train_iter=100))
    logger.log_scalars({"x": 1.0}, env_step=7, train_iter=50)
    logger.close()
    assert capsys.readouterr().out.startswith("50/100 updates")


def test_a_narrow_encoding_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore.console import say

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    say("runs/é")
    assert raw.getvalue() == b"runs/\\xe9\n"


def test_the_rate_and_the_time_left_follow_the_recent_past(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 random steps in ten seconds, then 100 per second for 20 s, then 50 per second."""
    now = [0.0]
    monkeypatch.setattr("dicore_plugins.loggers.console.time.monotonic", lambda: now[0])
    logger = ConsoleLogger(interval=1.0)
    logger.open(LogTarget(Path(), max_env_step=20_000))
    step = 0
    for second in range(61):
        now[0] = float(second)
        step += 1000 if 0 < second <= 10 else 100 if 10 < second <= 30 else 50 * (second > 30)
        updates = max(0, step - 10_000)
        logger.log_scalars({"x": 0.0}, env_step=step, train_iter=updates)
    lines = capsys.readouterr().out.splitlines()
    at = {int(line.partition("/")[0]): line for line in lines}
    assert "1000 env steps/s  at most 10 s left" in at[10_000]
    assert "/s" not in at[10_100], "what random steps took says nothing of what follows"
    assert "100 env steps/s  at most 2 min left" in at[10_200]
    assert "100 env steps/s  at most 80 s left" in at[12_000]
    assert "50 env steps/s  at most 2 min left" in at[13_500]


def test_the_time_left_of_a_budget_of_updates_leaves_out_what_was_before_the_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("dicore_plugins.loggers.console.time.monotonic", lambda: now[0])
    logger = ConsoleLogger(interval=1.0)
    logger.open(LogTarget(Path(), max_train_iter=60))
    for second in range(21):
        now[0] = float(second)
        logger.log_scalars({"x": 0.0}, env_step=second, train_iter=max(0, second - 10))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("10/60 updates  1 updates/s  at most 50 s left")


def test_return_and_loss_of_the_training_change_between_evaluations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = ConsoleLogger(interval=0.0)
    logger.open(LogTarget(Path("log")))
    steps = ({RETURN: 5}, {"collector/reward_mean": 12.25}, {"learner/total_loss": 0.00123})
    for step, scalars in enumerate(steps):
        logger.log_scalars(scalars, env_step=step, train_iter=0)
    logger.close()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "2 env steps  0 updates  return 5.0 (best 5.0)  train 12.2  loss 0.00123"
    )
