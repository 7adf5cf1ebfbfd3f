"""What is forked from a process with torch is a process like any other."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

SAYS = """
import json, os, sys
import torch
words = sys.argv, os.getcwd(), os.environ.get("WORD"), os.getppid(), sys.stdin.read()
print(json.dumps([*words, getattr(torch, "dicore_test", None), __name__]), flush=True)
torch.dicore_test = "set"
print("told", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def forks() -> None:
    if not warm.forks():
        pytest.skip("processes start as always")


@pytest.mark.parametrize("how", ["code", "file", "module"])
def test_arguments_streams_and_folder_are_its_own(how: str, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    words = {"code": ["-c", SAYS], "file": ["says.py"], "module": ["-m", "says"]}[how]
    first = {"code": "-c", "file": "says.py", "module": str(tmp_path / "says.py")}[how]
    for word in ("one", "two"):
        done = subprocess.run(
            [sys.executable, *words, "-a", word], cwd=tmp_path, env={**os.environ, "WORD": word},
            input=word * 2, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 7
        expected = [[first, "-a", word], str(tmp_path), word, os.getpid(), word * 2]
        assert json.loads(done.stdout) == [*expected, None, "__main__"]
        assert done.stderr == "told\n"


def test_its_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-c", "1"], check=True)  # a server begins elsewhere
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    code = [sys.executable, "-c", "import os; print(os.getcwd())"]
    told = subprocess.run(code, cwd="here", capture_output=True, text=True, check=True).stdout
    assert told == f"{tmp_path / 'here'}\n"


def test_signals_and_errors_end_it() -> None:
    waits = "import time; print(1, flush=True); time.sleep(60)"
    for number in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(200) == -number
    done = subprocess.run([sys.executable, "-c", "1 / 0"], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"ZeroDivisionError" in done.stderr


ENDS = """
import atexit, os, sys, threading, time
print("begun")
atexit.register(print, "exit")
def late():
    time.sleep(0.1)
    print("thread")
threading.Thread(target=late).start()
open("left.txt", "w").write("all")
left = open("open.txt", "w")
left.write("all")
"""


@pytest.mark.parametrize(
    ("last", "code", "says"),
    [("", 0, ""), ("sys.exit(258)", 2, ""), ("sys.exit('wrong')", 1, "wrong\n"),
     ("os.kill(os.getpid(), 2)", -2, "KeyboardInterrupt\n")],
)  # fmt: skip
def test_it_ends_as_python_does(tmp_path: Path, last: str, code: int, says: str) -> None:
    """Threads are waited for, functions called, and what was written is in its files."""
    words = [sys.executable, "-c", ENDS + last]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "begun\nthread\nexit\n")
    assert (done.stderr[-len(says) :] if says else done.stderr) == says
    assert (tmp_path / "left.txt").read_text() == (tmp_path / "open.txt").read_text() == "all"


SPAWNED = """
import os, sys
end.send(("torch" in sys.modules, "dicore" in sys.modules, os.getppid(), os.getcwd()))
end.recv()
sys.exit(7)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_spawned_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=exec, args=(SPAWNED, {"end": theirs}))
    process.start()
    theirs.close()
    assert ours.recv() == (True, True, os.getpid(), str(tmp_path))
    if killed:
        process.kill()
    else:
        ours.send("end")
    process.join(200)
    assert process.exitcode == (-signal.SIGKILL if killed else 7)
    ours.close()
    process.close()


def test_it_begins_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after other tests have imported Ray, OpenCV and compilers, which set these variables."""
    monkeypatch.setenv("PYTHONBREAKPOINT", "ray.util.rpdb.set_trace")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/nowhere")
    code = [sys.executable, "-c", "import torch, time; print(time.process_time())"]
    subprocess.run(code, check=True)  # starts a server in place of one that was ended
    forked = float(subprocess.check_output(code))
    with warm.cold():  # seconds of CPU, not of the clock
        assert forked < float(subprocess.check_output(code)) / 2, warm.unlike()


def test_a_server_that_was_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    code = [sys.executable, "-c", "print(5)"]
    subprocess.run(code, check=True)
    for number in warm.pids():
        os.kill(number, signal.SIGKILL)
    for _ in range(2):
        assert subprocess.run(code, check=True, capture_output=True).stdout == b"5\n"
    monkeypatch.setenv("PYTHONWARNINGS", "error")  # which a new process reads as it begins
    warns = [sys.executable, "-c", "import warnings; warnings.warn('x')"]
    assert subprocess.run(warns, check=False, capture_output=True).returncode == 1
