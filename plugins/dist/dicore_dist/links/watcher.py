"""A process beside a run that ends what Ray leaves when the process of the run is killed.

Ray's own helpers go on for a minute after such an end. This file is run as a script, which imports
nothing of dicore: `python watcher.py PARENT FOLDER [RECORD]`. Its standard input is a pipe: a byte
in it says that the parent has cleaned up; its end without one, that the parent was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import psutil

__all__ = ["Watcher"]

_LOOKS = (0.5, 1.0, 2.0, 4.0, 10.0)
"""Seconds between two looks at the processes of the parent; the last one repeats."""
_GRACE = 1.5
"""Seconds that processes have to end by themselves, with what they started."""
_KILLED = "the process of the run was killed"


class Watcher:
    """Starts the process that watches this one.

    Args:
        folder: Ray's temporary folder, which is removed.
        record: The run's `run.json`, which then says `failed`; None: there is none.
    """

    def __init__(self, folder: Path, record: Path | None = None) -> None:
        words = [str(os.getpid()), str(folder), *([] if record is None else [str(record)])]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", __file__, *words], stdin=subprocess.PIPE, start_new_session=True
        )

    def close(self) -> None:
        """Says that nothing is left, and ends the process; later calls do nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(b".")
            self._process.stdin.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _End(threading.Event):
    """Set when the pipe is closed, or the parent is gone although others hold the pipe."""

    clean = False

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        self.clean = bool(sys.stdin.buffer.read(1))
        self.set()


def _watch(parent: int, folder: str, record: str = "") -> None:
    end, known, turn = _End(), set[psutil.Process](), 0
    while not end.wait(_LOOKS[min(turn, len(_LOOKS) - 1)]):
        turn += 1
        if os.getppid() != parent:
            break
        known |= _below(parent)
    if not end.clean:
        _clean_up(known | _of_folder(folder), folder)
        if record:
            _note(Path(record), parent)


def _below(parent: int) -> set[psutil.Process]:
    """Returns the processes that the parent started, and theirs, without this one."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(parent).children(recursive=True)
        return {each for each in found if each.pid != os.getpid()}
    return set()


def _of_folder(folder: str) -> set[psutil.Process]:
    """Returns the processes whose command line names the folder, without this one."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and any(folder in word for word in process.cmdline()):
                found.add(process)
    return found


def _clean_up(left: set[psutil.Process], folder: str) -> None:
    for each in psutil.wait_procs([*left], _GRACE)[1]:
        with contextlib.suppress(psutil.Error):
            each.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _note(record: Path, parent: int) -> None:
    """Says in `run.json` that the run has failed, unless another process continues it."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        if (found["pid"], found["status"]) != (parent, "running"):
            return
        text = json.dumps({**found, "status": "failed", "error": _KILLED}, indent=2)
        part = record.with_name(".run.json.watcher")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(record)
    except (OSError, ValueError, KeyError, TypeError):
        return
    sys.stderr.write(f"{_KILLED}; continue: dicore train --resume {record.parent}\n")


if __name__ == "__main__":
    _watch(int(sys.argv[1]), *sys.argv[2:])
