"""Runs fault cases in a child process, which is ended if a case takes too long."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from dicore_tools.import_probe import MARK, kill_group, marked

__all__ = ["run_cases"]


def run_cases(manager: str, names: Sequence[str], limit_s: float) -> Iterator[dict[str, object]]:
    """Yields the result of each case of a manager; see `dicore_tools.selftest.cases`.

    Args:
        manager: Name of the env manager.
        names: The cases.
        limit_s: Seconds after which a case is ended and has failed.
    """
    left = list(names)
    while left:
        with _Child(manager, left) as child:
            while left:
                begun = time.monotonic()
                found = child.next(limit_s)
                if found is None:
                    text = child.why_not(limit_s)
                    seconds = round(time.monotonic() - begun, 2)
                    found = {"manager": manager, "fault": left[0], "status": "failed",
                             "text": text, "seconds": seconds}  # fmt: skip
                    yield found
                    left.pop(0)
                    break
                yield found
                left.pop(0)
                if found["status"] == "skipped" and found["fault"] == "":
                    return  # the manager steps no environments of this kind


class _Child:
    """A process that prints one line per case."""

    def __init__(self, manager: str, names: Sequence[str]) -> None:
        env = marked()
        self._mark = env[MARK]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-m", "dicore_tools.selftest.cases", manager, *names], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._said: list[str] = []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        kill_group(self._process, self._mark)
        for thread in self._threads:
            thread.join(5.0)

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if line.startswith("{"):
                    self._lines.put(line)
        self._lines.put(None)

    def _listen(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._said = [*self._said[-20:], line]

    def next(self, limit_s: float) -> dict[str, object] | None:
        """Returns the next result; None: there is none within the limit, or the process ended."""
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            return None
        found: dict[str, Any] | None = None if line is None else json.loads(line)
        return found

    def why_not(self, limit_s: float) -> str:
        """Returns why there is no result."""
        code = self._process.poll()
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(0.5)
        if code is None:
            return f"no result within {limit_s:g} s: the manager hangs"
        last = self._said[-1].strip() if self._said else ""
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the process of the manager ended ({how}) {last}".rstrip()
