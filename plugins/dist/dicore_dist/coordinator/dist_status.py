"""What the processes of `-m dist` do, as their coordinator sees it; see `dicore status`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore_dist.coordinator.status import FORMAT, write_status

if TYPE_CHECKING:
    from dicore_dist.coordinator.coordinator import Coordinator

__all__ = ["DistStatus", "Doing"]


class Doing:
    """States and counts of processes, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, Any]] = {}
        self._waited, self._waits_since = 0.0, 0.0

    @property
    def waited(self) -> float:
        """Seconds that the learner has waited, with the wait that goes on."""
        with self._lock:
            now = time.monotonic()
            return self._waited + (now - self._waits_since if self._waits_since else 0.0)

    def note(self, name: str, state: str, *, env_step: int = 0, **facts: Any) -> None:
        """Notes what a process does now; `env_step` are further ones."""
        with self._lock:
            known = self._found.setdefault(name, {"env_step": 0, "version": -1, "restarts": 0})
            known["restarts"] += state == "does not answer" != known.get("state")
            known["env_step"] += env_step
            known.update(facts, state=state, seen=time.monotonic())

    @contextmanager
    def waiting(self, name: str, what: str) -> Iterator[None]:
        """Notes that a process waits within the block; the time of the learner is summed."""
        self.note(name, f"waits for {what}")
        learns, begin = name.startswith("learner"), time.monotonic()
        if learns:
            self._waits_since = begin
        try:
            yield
        finally:
            if learns:
                with self._lock:
                    self._waited += time.monotonic() - begin
                    self._waits_since = 0.0

    def all(self) -> dict[str, dict[str, Any]]:
        """Returns what was noted."""
        with self._lock:
            return {name: dict(found) for name, found in self._found.items()}


class DistStatus:
    """Writes `log/status.json` of a run.

    Args:
        folder: Folder of the run's logs.
        addresses: Folder of the files with the addresses of the processes.
        coordinator: The coordinator.
    """

    def __init__(self, folder: Path, addresses: Path, coordinator: Coordinator) -> None:
        self._folder, self._addresses, self._coordinator = folder, addresses, coordinator
        self._before: dict[str, float] = {}

    def write(self, *, ended: bool = False) -> None:
        """Writes the file; a full disk does not end the training."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_status(self._folder, {**self.facts(), "ended": ended})

    def facts(self) -> dict[str, Any]:
        """Returns what is written."""
        whole = self._coordinator
        found = whole.doing.all()
        learner = found.pop("learner0", {"state": "is starting"})
        rates = self._rates(found)
        return {
            "format": FORMAT,
            "started_by": "commands",
            "learner": {
                "pid": self._pid("learner0"),
                "state": learner["state"],
                "train_iter": whole.train_iter,
                "env_step": whole.env_step,
                "updates_per_s": rates.get("train_iter", 0.0),
                "waited": min(1.0, rates.get("waited", 0.0)),
                "samples": whole.flow.stored,
            },
            "collectors": [self._collector(name, found[name], rates) for name in sorted(found)],
        }

    def _rates(self, found: dict[str, dict[str, Any]]) -> dict[str, float]:
        """Returns the changes per second since the last call."""
        whole = self._coordinator
        counts: dict[str, float] = {name: each["env_step"] for name, each in found.items()}
        counts |= {"train_iter": whole.train_iter, "waited": whole.doing.waited}
        counts["now"] = time.monotonic()
        before, self._before = self._before, counts
        seconds = max(counts["now"] - before.get("now", counts["now"]), 1e-9)
        return {name: (counts[name] - before[name]) / seconds for name in counts if name in before}

    def _collector(
        self, name: str, known: dict[str, Any], rates: dict[str, float]
    ) -> dict[str, object]:
        version = int(known["version"])
        return {
            "index": int(name.removeprefix("collector")),
            "pid": self._pid(name),
            "state": known["state"],
            "version": version,
            "lag": max(self._coordinator.train_iter - version, 0) if version >= 0 else 0,
            "env_step": known["env_step"],
            "env_steps_per_s": rates.get(name, 0.0),
            "queue": int(known["state"] == "collects"),
            "restarts": known["restarts"],
            "seen": round(time.monotonic() - known["seen"], 3),
        }

    def _pid(self, name: str) -> int:
        """Returns the process id that a process wrote beside its address; 0: none."""
        with suppress(OSError, IndexError, ValueError):
            text = (self._addresses / f"{name}.address").read_text(encoding="utf-8")
            return int(text.split()[1])
        return 0
