"""The trainings that a server has started: none outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio

from dicore.errors import UsageError
from dicore_tools.import_probe import MARK, kill_group, marked
from dicore_tools.json_output.runs import StartedTraining, StoppedTraining
from dicore_tools.mcp.calls import config_words
from dicore_tools.mcp.places import below, name_of, target_of

__all__ = ["PYTHON", "Trainings"]

PYTHON: Final = (
    sys.executable, "-P", "-c", "import sys; from dicore.cli import main; sys.exit(main())",
)  # fmt: skip
"""Runs dicore; -P, so that no file of the working directory is imported."""
_MOST: Final = 4
_STARTS_S, _STOPS_S, _ENDS_S = 120.0, 120.0, 20.0
"""Most seconds until a training has its folder; until it was saved; until all were, at the end."""
_TAIL: Final = 4000


class Trainings:
    """Starts and stops trainings below a folder.

    Args:
        root: The folder, resolved.
        place: Where processes run: an empty folder, so that no project of the root is read.
    """

    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        self._env = {**marked(), "DICORE_NAMES_ONLY": "1"}
        self._started: dict[Path, subprocess.Popen[str]] = {}
        self._numbers = count()

    async def start(self, given: Mapping[str, Any]) -> StartedTraining:
        """Starts a training, and returns when it has its folder.

        Raises:
            UsageError: the folder exists, too many trainings run, or it ended with an error.
        """
        runs = target_of(self._root, self._root / "runs")
        if runs is None:
            raise UsageError("runs: a link out of the root of this server")
        folder = runs / name_of(given["name"])
        known = self._started.get(folder)
        if os.path.lexists(folder) or (known is not None and known.poll() is None):
            raise UsageError(f"runs/{folder.name} exists", hint="choose another name")
        if sum(each.poll() is None for each in self._started.values()) >= _MOST:
            raise UsageError(f"{_MOST} trainings of this server run already", hint="stop one")
        limits = [
            f"--max-env-step={given['max_env_step']}",
            f"--exp-name={folder}",
            "--exist=error",
        ]
        process, said = self._open(["train", "-q", *limits, *config_words(given, self._root)])
        self._started[folder] = process
        with anyio.move_on_after(_STARTS_S):
            while not (folder / "run.json").is_file() and process.poll() is None:
                await anyio.sleep(0.05)
        if process.poll():
            if self._started.get(folder) is process:  # its name was free as soon as it had ended
                del self._started[folder]
            text = said.read_text("utf-8", "replace")[-_TAIL:].strip()
            raise UsageError(text or f"the training ended with exit code {process.returncode}")
        return {"run": f"runs/{folder.name}", "pid": process.pid}

    async def stop(self, given: Mapping[str, Any]) -> StoppedTraining:
        """Stops a training and returns when it has ended.

        Raises:
            UsageError: this server has not started it, or it does not end.
        """
        folder = below(self._root, given["run"])
        process = self._started.get(folder)
        if process is None:
            raise UsageError(f"{given['run']}: not started by this server, so it is left alone")
        process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(_STOPS_S):
            while process.poll() is None:
                await anyio.sleep(0.05)
        if process.poll() is None:
            raise UsageError(f"{given['run']}: it is still saving", hint="ask for its status")
        return {"run": f"runs/{folder.name}", "exit_code": process.returncode}

    def end(self) -> None:
        """Stops all trainings: they save; those that do not end in time are killed."""
        running = [each for each in self._started.values() if each.poll() is None]
        for each in running:
            each.send_signal(signal.SIGTERM)
        for each in running:
            try:
                each.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                kill_group(each, self._env[MARK])

    def _open(self, words: Sequence[str]) -> tuple[subprocess.Popen[str], Path]:
        """Starts a process in a group of its own; returns it, and what it writes to stderr."""
        said = self._place / f"stderr_{next(self._numbers)}.txt"
        with said.open("w") as errors:
            process = subprocess.Popen(  # noqa: S603 - this interpreter
                [*PYTHON, *words], cwd=self._place, env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        return process, said
