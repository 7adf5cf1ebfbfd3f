"""Progress for people: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.console import is_shared, is_terminal, number, say
from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget

_BAR = 12
"""Characters of a terminal's line that are left to the bar and its gaps."""
_SHARED = 5
"""How many times rarer lines come where several runs share the output."""
_REDRAW = 0.1
"""Shortest time in seconds between two drawings of the bar."""


class ConsoleLogger:
    """Shows how far the training is, the last and best return, the rate and the time left.

    Args:
        interval: Seconds between plain lines, where stdout is no terminal.
        return_tag: The number shown as return.
    """

    def __init__(self, *, interval: float = 2.0, return_tag: str = "evaluator/return_mean") -> None:
        self._interval = interval
        self._return_tag = return_tag
        self._target = LogTarget(Path())
        self._shown = 0.0
        self._since: tuple[float, int] | None = None
        self._done = 0
        self._updates = 0
        self._last = self._best = math.nan
        self._bar: Any = None
        self._on_terminal = False
        self._stale = False

    def open(self, target: LogTarget) -> None:
        """Notes the budgets; nothing is drawn before the first number."""
        self._target = target
        self._on_terminal = is_terminal()
        if is_shared():
            self._interval *= _SHARED
        if target.resumed_at is not None:
            self._best = _best_before(target, self._return_tag)
        self._shown = time.monotonic()

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Takes counters and the return, and shows them if enough time has passed."""
        self._done = max(self._done, env_step)
        self._updates = max(self._updates, train_iter)
        if self._since is None:  # what came before was building
            self._since = (time.monotonic(), self._progress[0])
        value = scalars.get(self._return_tag)
        if value is not None:
            self._last = value
            self._best = value if math.isnan(self._best) else max(self._best, value)
        self._stale = True
        if time.monotonic() - self._shown >= (_REDRAW if self._on_terminal else self._interval):
            self.flush()

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Prints what the run itself has to say; what its parts say goes to files only."""
        if channel == "run":
            say(text)

    def flush(self) -> None:
        """Shows how things stand."""
        if not self._stale:
            return
        self._stale = False
        self._shown = time.monotonic()
        if self._on_terminal:
            self._draw()
        else:
            say(self._line())

    def close(self) -> None:
        """Shows the last state and leaves the terminal as it was."""
        self.flush()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._on_terminal = False

    @property
    def _progress(self) -> tuple[int, int | None, str]:
        """Done, total and unit of the budget that is counted."""
        target = self._target
        if target.max_env_step is None and target.max_train_iter is not None:
            return self._updates, target.max_train_iter, "updates"
        return self._done, target.max_env_step, "env steps"

    def _facts(self) -> tuple[float, float | None]:
        """Rate of the counted unit per second, and seconds left; None where nobody knows."""
        done, total, _ = self._progress
        now = time.monotonic()
        began, before = self._since or (now, done)
        rate = (done - before) / max(now - began, 1e-9)
        return rate, (total - done) / rate if total and rate > 0 else None

    def _line(self) -> str:
        done, total, unit = self._progress
        rate, left = self._facts()
        parts = [f"{done}/{total} {unit}" if total else f"{done} {unit}"]
        parts.append(f"{self._updates} updates")
        if not math.isnan(self._last):
            parts.append(f"return {number(self._last)} (best {number(self._best)})")
        if rate > 0:
            parts.append(f"{rate:.0f} {unit}/s")
        if left is not None and left > 0:
            parts.append(f"at most {_duration(left)} left")
        return "  ".join(parts)

    def _draw(self) -> None:
        done, total, unit = self._progress
        rate, left = self._facts()
        if self._bar is None:
            self._bar = _make_bar()
        amount = f"{done}/{total} {unit}" if total else f"{done} {unit}"
        returns = best = ""
        if not math.isnan(self._last):
            returns, best = f"return {number(self._last)}", f"best {number(self._best)}"
        texts = [
            ("amount", amount),
            ("returns", returns),
            ("rate", f"{rate:.0f}/s" if rate > 0 else ""),
            ("left", f"{_duration(left)} left" if left else ""),
            ("best", best),
            ("title", self._target.title),
        ]
        room = self._bar.console.width - _BAR
        fields = dict.fromkeys(("title", "amount", "returns", "best", "rate", "left"), "")
        for name, text in texts:  # what matters most comes first; the rest is left out
            room -= len(text) + 1 if text else 0
            fields[name] = text if room >= 0 else ""
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, **fields)
        self._bar.refresh()


def _make_bar() -> Any:
    """Makes and starts a bar that is redrawn only when told to: no thread, no timer."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    def text(name: str, look: str = "{}") -> TextColumn:
        what = look.format(f"{{task.fields[{name}]}}")
        return TextColumn(what, markup=name != "title", table_column=Column(no_wrap=True))

    bar = Progress(
        text("title"),
        BarColumn(bar_width=None),
        text("amount"),
        text("returns", "[bold]{}"),
        text("best"),
        text("rate"),
        text("left"),
        console=Console(highlight=False),
        auto_refresh=False,
    )
    bar.add_task("", title="", amount="", returns="", best="", rate="", left="")
    bar.start()
    return bar


def _best_before(target: LogTarget, tag: str) -> float:
    """Returns the best that a resumed run had reached where it goes on; NaN if nothing."""
    from dicore.run.log import read_metrics

    until = (target.resumed_at or (0, 0))[0]
    try:
        lines = read_metrics(target.folder / "metrics.jsonl")
        return max(line[tag] for line in lines if tag in line and line["step"] <= until)
    except (AttributeError, KeyError, OSError, TypeError, UsageError, ValueError):
        return math.nan


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
