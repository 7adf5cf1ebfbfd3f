"""Runs a command when a training ends, in whatever way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers.child import ChildLogger
from dicore_registry import code_paths

_LOG = logging.getLogger("dicore.alert")
_LONGEST_END_S: Final = 120.0
"""Time that a run may take to write its result after it closed its log."""
_COMMAND_S: Final = 300
_VARIABLE: Final = "DICORE_ON_FINISH"
_POLL_S: Final = 0.05
_FIELDS: Final = ("best_return", "env_step", "train_iter", "wall_s", "stop")


class AlertLogger(ChildLogger):
    """Runs the command in the environment variable `DICORE_ON_FINISH` when the run ends.

    A process beside the training waits for its end, so it also tells of a run that was killed. The
    command gets `DICORE_RUN` (the folder), `DICORE_STATUS` (`done`, `interrupted`, `failed` or
    `killed`), `DICORE_ERROR`, `DICORE_BEST_RETURN`, `DICORE_ENV_STEP`, `DICORE_TRAIN_ITER`,
    `DICORE_WALL_S` and `DICORE_STOP` (whether the stop value was reached). Its output is in
    `log/alert/alert.txt`. Commands are not options, so a config from elsewhere runs none.

    Args:
        variable: The environment variable that holds the command.
    """

    writer = "dicore_plugins.loggers.alert:AlertWriter"

    def __init__(self, *, variable: str = _VARIABLE) -> None:
        super().__init__()
        self._variable = variable

    def open(self, target: LogTarget) -> None:
        """Starts the process that waits for the end."""
        if self._variable != _VARIABLE:  # a saved config does not choose what is run
            code_paths.check(self._variable, "pipeline.logger.variable")
        super().open(target)
        command = os.environ.get(self._variable, "").strip()
        if not command:
            _LOG.warning("no alert at the end of the run: %s is not set", self._variable)
            return
        self.send("watch", command=command, pid=os.getpid())

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Ignores metrics."""

    def flush(self) -> None:
        """Does nothing."""


class AlertWriter:
    """Starts, when the run has ended, a process that runs the command."""

    def __init__(self) -> None:
        self._job: dict[str, Any] = {}

    def open(self, *, folder: str, title: str, **_: object) -> None:
        """Stores the run."""
        self._job |= {"run": str(Path(folder).parent), "title": title}

    def watch(self, *, command: str, pid: int) -> None:
        """Stores command and process of the training."""
        self._job |= {"command": command, "pid": pid}

    def close(self) -> None:
        """Starts a process that waits for the result and runs the command; does not wait for it."""
        if "command" not in self._job:
            return
        program = f"from {__name__} import alert; alert({self._job!r})"
        words = [sys.executable, "-P", "-c", program]
        subprocess.Popen(words, start_new_session=True)  # noqa: S603 - our own program


def alert(job: Mapping[str, Any]) -> None:
    """Waits for the result of a run that ends, and runs the command.

    Args:
        job: `run` (folder), `title`, `command`, `pid` of the training.
    """
    document = _result(Path(job["run"]) / "run.json", job["pid"])
    result = document.get("result") or {}
    values = {name: result.get(name, document.get(name)) for name in _FIELDS}
    told = {"run": job["run"], "status": document["status"], "error": document.get("error"),
            **values}  # fmt: skip
    texts = {f"DICORE_{name.upper()}": "" if value is None else str(value)
             for name, value in told.items()}  # fmt: skip
    sys.stdout.write(f"{told['status']}: {job['command']}\n")
    sys.stdout.flush()
    done = subprocess.run(  # noqa: S602 - the command is the user's own, from the environment
        job["command"],
        shell=True,
        env={**os.environ, **texts},
        stdin=subprocess.DEVNULL,
        timeout=_COMMAND_S,
        check=False,
    )
    sys.stdout.write(f"exit code {done.returncode}\n")


def _result(path: Path, pid: int) -> dict[str, Any]:
    """Returns `run.json` when it holds the end of the run; `killed` if it never will."""
    import psutil

    until = time.monotonic() + _LONGEST_END_S
    document: dict[str, Any] = {}
    while True:
        alive = psutil.pid_exists(pid)  # before reading: the last act of the process is to write
        with suppress(OSError, ValueError):
            document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("status", "running") != "running":
            return document
        if not alive or time.monotonic() > until:
            return {**document, "status": "running" if alive else "killed"}
        time.sleep(_POLL_S)
