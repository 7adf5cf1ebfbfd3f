"""R-C01, C02, C04, C05: signals set a flag, the run finishes its iteration, saves, and leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.signals import StopFlag, StopNow, stop_on_signals

LOOP = """
import signal, sys, time
from pathlib import Path
from dicore.testing.failpoints import armed
from dicore.run.signals import StopFlag, StopNow, stop_on_signals
from dicore.run.checkpoint_store import CheckpointStore

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever CI did to it
folder, slow = Path(sys.argv[1]), sys.argv[2] == "slow"
store, flag = CheckpointStore(folder), StopFlag()

def slow_disk(point):
    if slow and point == "fsync file":
        print("saving", flush=True)
        time.sleep(0.4)

def stuck():
    told = False
    for _ in range(6000):
        time.sleep(0.01)
        if flag and not told:
            told = print("asked", flush=True) is None

try:
    with stop_on_signals(flag), armed(slow_disk):
        n = 0
        while not flag:
            n += 1
            if slow:
                store.save("best", {"n": n})
            else:
                print("iteration", n, flush=True)
                time.sleep(0.3)
                if sys.argv[2] == "stuck":
                    stuck()
        store.save("final", {"n": n})
except StopNow as stop:
    print("now", flush=True)
    sys.exit(128 + stop.number)
sys.exit(flag.exit_code)
"""


@contextmanager
def loop(folder: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the loop, waits for its first line, and leaves no process behind."""
    command = [sys.executable, "-c", LOOP, str(folder), mode]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGUSR1, 75),
        (signal.SIGUSR2, 75),
    ],
)
def test_the_first_signal_lets_the_iteration_end_and_saves(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with loop(tmp_path, "fast") as process:
        process.send_signal(number)
        assert process.wait(200) == code
    assert CheckpointStore(tmp_path).latest() == "final"


def test_a_signal_during_a_save_waits_for_it(tmp_path: Path) -> None:
    with loop(tmp_path, "slow") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 143
    store = CheckpointStore(tmp_path)
    assert store.names() == ["best", "final"]
    assert store.load("best")["n"] == store.load("final")["n"] == 1


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    with loop(tmp_path, "stuck") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n", "the first signal only asks"
        assert process.stderr is not None
        assert process.stderr.readline().startswith("stopping when this iteration ends; once more")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, "its iteration takes 60 s"
    assert CheckpointStore(tmp_path).names() == []


def signal_twice(flag: StopFlag) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    assert flag
    assert flag.signal == signal.SIGTERM
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def test_the_signal_after_a_warning_does_not_break_the_save(tmp_path: Path) -> None:
    """R-C03: a cluster warns, and then means it."""
    with loop(tmp_path, "slow") as process:
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 75
    assert CheckpointStore(tmp_path).names() == ["best", "final"]


def test_preemption_signals_that_somebody_handles_are_left_alone() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with stop_on_signals(StopFlag()) as flag:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not flag
            os.kill(os.getpid(), signal.SIGUSR2)
            assert flag
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    flag = StopFlag()
    with pytest.raises(StopNow), stop_on_signals(flag):
        signal_twice(flag)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    assert flag.exit_code == 143, "the first signal is the reason"


def test_outside_of_the_main_thread_the_flag_works_alone() -> None:
    before, flag, seen = signal.getsignal(signal.SIGINT), StopFlag(), []

    def work() -> None:
        with stop_on_signals(flag):
            seen.append(signal.getsignal(signal.SIGINT) == before)
            while not flag:
                time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    flag.request()
    thread.join(60)
    assert seen == [True]
    assert not thread.is_alive()
    assert flag.exit_code == 0
