"""What the processes of a run are doing, as a file that other processes read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.run.atomic import read_json
from dicore.task import OnlineRLContext, middleware

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore.interfaces.learner import ILearner
    from dicore.task.middleware import Middleware
    from dicore_dist.coordinator.crew import Worker

__all__ = ["StatusFile", "read_wishes", "status_writer", "write_status"]

FORMAT = 1
_EVERY = 1.0
"""Seconds between two writes."""


def write_status(folder: Path, facts: Mapping[str, Any]) -> None:
    """Replaces `status.json` at once, so that nobody reads half of it."""
    made = folder / ".status.json"
    made.write_text(json.dumps(facts), encoding="utf-8")
    made.replace(folder / "status.json")


class StatusFile:
    """Writes `log/status.json`, and reads the wishes in `log/wishes.json`.

    A wish is the number of collectors: `{"collector_num": 4}`.

    Args:
        folder: Folder of the run's logs.
        group: The collector processes, see `CollectorGroup`.
        evaluator: See `RemoteEvaluator`; None: there is none.
        learner: The learner.
        buffer: The replay buffer; None: there is none.
    """

    def __init__(
        self, folder: Path, group: Any, *, evaluator: Any, learner: ILearner, buffer: IBuffer
    ) -> None:
        self._folder, self._group, self._evaluator = folder, group, evaluator
        self._learner, self._buffer = learner, buffer
        self._due = 0.0
        self._before: dict[str, float] = {}
        self._waits = ""

    def tick(self, waits: str = "") -> None:
        """Writes the file, and follows the wishes between two collects, once a second.

        Args:
            waits: What the learner waits for; empty: it is training.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY
        self._waits = waits
        with suppress(OSError):  # a full disk must not end the training
            write_status(self._folder, self.facts(now))
        wishes = {} if waits else read_wishes(self._folder)
        if (count := wishes.get("collector_num", 0)) and count != len(self._group.crew.workers):
            self._group.crew.resize(count)

    def facts(self, now: float) -> dict[str, Any]:
        """Returns what is written."""
        group, learner, evaluator = self._group, self._learner, self._evaluator
        rates = self._rates(now)
        facts = {
            "format": FORMAT,
            "ended": False,
            "learner": {
                "pid": os.getpid(),
                "state": f"waits for {self._waits}" if self._waits else "trains",
                "train_iter": learner.train_iter,
                "env_step": group.envstep,
                "updates_per_s": rates.get("train_iter", 0.0),
                "waited": min(1.0, rates.get("waited", 0.0)),
                "samples": None if self._buffer is None else self._buffer.count(),
            },
            "collectors": [self._collector(each, now, rates) for each in group.crew.workers],
        }
        if evaluator is not None:
            state = "evaluates" if evaluator.busy else "waits for the next evaluation"
            pid = 0 if evaluator.process is None else evaluator.process.pid
            if evaluator.process is not None and not pid:
                state = "is starting"
            facts["evaluator"] = {"pid": pid, "state": state, "missing": evaluator.missing}
        return facts

    def _rates(self, now: float) -> dict[str, float]:
        """Returns the changes per second since the last call."""
        group = self._group
        counts = {"now": now, "train_iter": self._learner.train_iter, "waited": group.waited}
        counts |= {f"collector {each.index}": each.env_step for each in group.crew.workers}
        before, self._before = self._before, counts
        seconds = max(now - before.get("now", now), 1e-9)
        return {name: (counts[name] - before[name]) / seconds for name in counts if name in before}

    def _collector(self, worker: Any, now: float, rates: Mapping[str, float]) -> dict[str, object]:
        process = worker.process
        ready = process is not None and bool(process.pid)
        return {
            "index": worker.index,
            "pid": process.pid if ready else 0,
            "state": _state(worker, ready),
            "version": worker.version,
            "lag": max(self._learner.train_iter - worker.version, 0) if worker.version >= 0 else 0,
            "env_step": worker.env_step,
            "env_steps_per_s": rates.get(f"collector {worker.index}", 0.0),
            "queue": len(worker.calls),
            "restarts": worker.restarts,
            "seen": round(now - process.seen, 3) if ready else None,
        }

    def end(self) -> None:
        """Records that the run has ended."""
        facts = {**self.facts(time.monotonic()), "ended": True}
        with suppress(OSError):
            write_status(self._folder, facts)
            (self._folder / "wishes.json").unlink(missing_ok=True)


def _state(worker: Worker, ready: bool) -> str:
    if worker.process is None:
        return "is to be started again"
    if not ready:
        return "is starting"
    return "collects" if worker.calls else "waits for the learner"


def read_wishes(folder: Path) -> dict[str, int]:
    """Returns the wishes of `log/wishes.json`; none if there are none, or not a valid file."""
    try:
        found = read_json(folder / "wishes.json")
    except (OSError, ValueError):
        return {}
    count = found.get("collector_num") if isinstance(found, dict) else None
    valid = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 4096
    return {"collector_num": count} if valid and count is not None else {}


def status_writer(status: StatusFile) -> Middleware:
    """Writes the status at the end of a step, once a second.

    Args:
        status: Writes the file.

    Returns:
        A middleware that changes nothing in the context.
    """

    @middleware(reads=["train_iter"], uses=[])
    def write_status(ctx: OnlineRLContext) -> None:
        status.tick()

    return write_status
