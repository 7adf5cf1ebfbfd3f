"""Where a training's time goes: per middleware, and inside of the parts of the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from dicore.interfaces.buffer import IBuffer
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.run.atomic import write_file
from dicore.run.run import Run
from dicore.task import task
from dicore_plugins.middleware.timer import StepTimer, SupportsProfile

__all__ = ["profiled"]

_log = logging.getLogger(__name__)

_BY_ROLE: Final[tuple[tuple[type, dict[str, str]], ...]] = (
    (IBuffer, {
        "sample": "sample", "sample_batch": "sample", "sample_batches": "sample",
        "push": "push", "update": "update priorities",
    }),
    (IEnvManager, {"step": "env step", "step_into": "env step", "reset": "env reset"}),
    (ISerialEvaluator, {"eval": "evaluate"}),
)  # fmt: skip
"""What of a part is timed by its role alone, and what the table calls it."""


@contextmanager
def profiled(run: Run) -> Iterator[StepTimer]:
    """Times a run from its first step on; at the end `log/profile.json` and `.txt` are written.

    Parts that say more of themselves (`SupportsProfile`) are looked into. What is timed is left
    as it was in the end.

    Args:
        run: A run that has not begun its first step.
    """
    timer = StepTimer()
    began: list[float] = []

    def begin() -> None:
        if task.running:
            task.use_wrapper(timer)
        for part in run.parts.values():
            _put_around(timer, part)
        began.append(perf_counter())

    run.at_first_step(begin)
    try:
        yield timer
    finally:
        whole = perf_counter() - began[0] if began else 0.0
        timer.end()
        timer.account_for(whole, "outside of middleware")
        _write(run, timer, whole)


def _put_around(timer: StepTimer, part: Any) -> None:
    """Times what a part does, as far as its role or the part itself tells."""
    for role, functions in _BY_ROLE:
        if isinstance(part, role):
            for function, name in functions.items():
                if hasattr(part, function):
                    timer.patch(part, function, name)
    if isinstance(part, SupportsProfile):
        part.profile(timer)


def _write(run: Run, timer: StepTimer, whole: float) -> None:
    rows = [
        {"path": list(row.path), "calls": row.calls, "seconds": round(row.seconds, 6)}
        for row in timer.rows()
    ]
    document = {
        "wall_s": round(whole, 6),
        "env_step": run.result.env_step,
        "train_iter": run.result.train_iter,
        "rows": rows,
    }
    try:
        run.folder.log.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=1)
        write_file(run.folder.log / "profile.json", f"{text}\n".encode())
        write_file(run.folder.log / "profile.txt", f"{timer.table()}\n".encode())
    except OSError as error:
        _log.warning("the profile is not written: %s", error)
