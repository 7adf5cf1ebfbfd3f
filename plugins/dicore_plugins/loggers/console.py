"""Progress: a bar on a terminal, one line that is renewed in a notebook, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.console import is_quiet, is_shared, is_terminal, number, printable, say
from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers.heartbeat import listeners

_BAR_WIDTH = 12
"""Characters of a line that are reserved for the bar and its gaps."""
_SHARED_FACTOR = 5
"""Factor on the interval when several runs share the output."""
_REDRAW_S = 0.1
"""Shortest time between two drawings of the bar."""
_RENEW_S = 0.5
"""Shortest time between two lines in a notebook, each a message to the browser."""
_BARE_FACTOR = 4
"""Factor on the interval of lines in which only the counters are new."""
_MARKS = 20
_TOO_SHORT_S = 2.0
"""Seconds of which most may be the last evaluation, so that they tell no rate."""
"""Marks kept per window of a rate: the resolution of its beginning."""


class ConsoleLogger:
    """Prints progress: steps, last and best return, rate of the last 20 s and time left.

    Args:
        interval: Seconds between progress lines if stdout is neither a terminal nor a notebook.
        return_tag: Metric to print as the return.
        train_tag: Metric to print as the return while training; "": none.
        loss_tag: Metric to print as the loss; "": none.
    """

    def __init__(
        self,
        *,
        interval: float = 2.0,
        return_tag: str = "evaluator/return_mean",
        train_tag: str = "collector/reward_mean",
        loss_tag: str = "learner/total_loss",
    ) -> None:
        self._interval = interval
        self._return_tag = return_tag
        self._training = {train_tag: "train", loss_tag: "loss"}
        self._shown_training: dict[str, float] = {}
        self._target = LogTarget(Path())
        self._shown = 0.0
        self._recent = RecentRate()
        self._done = 0
        self._updates = 0
        self._beats, self._counted = 0, 0.0
        self._last = self._best = math.nan
        self._bar: Any = None
        self._cell: Any = None
        self._on_terminal = False
        self._stale = self._ends = False

    def open(self, target: LogTarget) -> None:
        """Stores the budgets; nothing is printed before the first metric."""
        self._target = target
        self._on_terminal = is_terminal()
        self._cell = _notebook_line()
        if is_shared():
            self._interval *= _SHARED_FACTOR
        listeners.append(self._beat)
        if target.resumed_at is not None:
            self._best = _best_before(target, self._return_tag)

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Updates counters and return; prints them if enough time has passed."""
        value = scalars.get(self._return_tag)
        if value is not None:
            self._last = value
            self._best = value if math.isnan(self._best) else max(self._best, value)
        for tag, name in self._training.items():
            if tag in scalars:
                self._shown_training[name] = scalars[tag]
        self._count(env_step, train_iter, self._pause)

    def log_progress(self, *, env_step: int, train_iter: int) -> None:
        """Updates the counters; a plain line of nothing else comes later than one of metrics."""
        bar = self._on_terminal or self._cell is not None
        self._count(env_step, train_iter, self._pause * (1 if bar else _BARE_FACTOR))

    def _count(self, env_step: int, train_iter: int, pause: float) -> None:
        """Updates the counters, and shows the state if the last one is `pause` seconds old."""
        first_update = self._updates == 0 < train_iter
        self._done = max(self._done, env_step)
        self._updates = max(self._updates, train_iter)
        if first_update:  # random steps before it are faster than any later
            self._recent.forget()
        now = time.monotonic()
        self._recent.mark(now, self._progress[0])
        self._beats, self._counted = 0, now
        self._stale = True
        self._shown = self._shown or now  # intervals begin with the first metric or report
        if now - self._shown >= pause:
            self._show()

    def _beat(self) -> None:
        """Shows that an update goes on, as often as counters alone."""
        self._beats += 1
        since = max(self._shown, self._counted)
        if self._shown and time.monotonic() - since >= self._pause * _BARE_FACTOR:
            self._stale = True
            self._show()

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Prints texts of the run itself; those of its parts are written to files only."""
        if channel == "run":
            say(text)

    def flush(self) -> None:
        """Does nothing: lines are printed at once."""

    def _show(self) -> None:
        """Prints the current state, if it changed."""
        if not self._stale:
            return
        self._stale = False
        self._shown = time.monotonic()
        if self._on_terminal:
            self._draw()
        elif self._cell is not None:
            self._cell.update({"text/plain": printable(self._line())}, raw=True)
        else:
            say(self._line())

    def close(self) -> None:
        """Prints the last state and removes the bar."""
        if self._beat in listeners:
            listeners.remove(self._beat)
        self._ends = True
        self._show()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._on_terminal = False

    @property
    def _pause(self) -> float:
        """Shortest time in seconds between two states that are shown."""
        if self._on_terminal:
            return _REDRAW_S
        return self._interval if self._cell is None else min(_RENEW_S, self._interval)

    @property
    def _progress(self) -> tuple[int, int | None, str]:
        """Done, total and unit of the relevant budget."""
        target = self._target
        if target.max_env_step is None and target.max_train_iter is not None:
            return self._updates, target.max_train_iter, "updates"
        return self._done, target.max_env_step, "env steps"

    def _rate_and_time_left(self) -> tuple[float, float | None]:
        """Returns units per second, and the seconds left; None if unknown."""
        done, total, _ = self._progress
        now = time.monotonic()
        if self._ends and self._recent.seconds(now) < _TOO_SHORT_S:
            return 0.0, None
        rate = self._recent.per_second(now, done)
        return rate, (total - done) / rate if total and rate > 0 else None

    def _line(self) -> str:
        done, total, unit = self._progress
        rate, left = self._rate_and_time_left()
        parts = [f"{done}/{total} {unit}" if total else f"{done} {unit}"]
        parts += [f"{self._updates} updates"] if unit != "updates" else []
        if not math.isnan(self._last):
            parts.append(f"return {number(self._last)} (best {number(self._best)})")
        parts += self._training_parts()
        if rate > 0:
            parts.append(f"{_rate(rate)} {unit}/s")
        if left is not None and left > 0:
            parts.append(f"at most {_duration(left)} left")
        return "  ".join(parts)

    def _training_parts(self) -> list[str]:
        """Returns return and loss of the training, which change between evaluations."""
        shown = self._shown_training
        parts = [f"train {number(shown['train'])}"] if "train" in shown else []
        parts += [f"loss {shown['loss']:.3g}"] if "loss" in shown else []
        return [*parts, f"learning: step {self._beats}"] if self._beats else parts

    def _draw(self) -> None:
        done, total, unit = self._progress
        rate, left = self._rate_and_time_left()
        if self._bar is None:
            self._bar = _make_bar()
        amount = f"{done}/{total} {unit}" if total else f"{done} {unit}"
        returns = best = ""
        if not math.isnan(self._last):
            returns, best = f"return {number(self._last)}", f"best {number(self._best)}"
        texts = [
            ("amount", amount),
            ("returns", returns),
            ("training", "  ".join(self._training_parts())),
            ("rate", f"{_rate(rate)}/s" if rate > 0 else ""),
            ("left", f"{_duration(left)} left" if left else ""),
            ("best", best),
            ("title", self._target.title),
        ]
        room = self._bar.console.width - _BAR_WIDTH
        fields = {name: "" for name, _ in texts}
        for name, text in texts:  # by importance: what does not fit is left out
            room -= len(text) + 1 if text else 0
            fields[name] = text if room >= 0 else ""
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, **fields)
        self._bar.refresh()


class RecentRate:
    """Units per second over the last seconds, so that a fast beginning is soon forgotten.

    Args:
        window: Seconds that the rate looks back; more if nothing was counted for longer.
    """

    def __init__(self, window: float = 20.0) -> None:
        self._window = window
        self._marks: deque[tuple[float, int]] = deque()

    def forget(self) -> None:
        """Begins anew at the next mark."""
        self._marks.clear()

    def mark(self, now: float, count: int) -> None:
        """Takes note of `count` units in all at `now`, in seconds of any clock that only rises."""
        marks = self._marks
        if not marks or now - marks[-1][0] >= self._window / _MARKS:
            marks.append((now, count))
        while len(marks) > 1 and marks[1][0] <= now - self._window:
            marks.popleft()

    def per_second(self, now: float, count: int) -> float:
        """Returns the units per second up to `count` units at `now`; 0 if nothing was noted."""
        if not self._marks:
            return 0.0
        began, before = self._marks[0]
        return (count - before) / max(now - began, 1e-9)

    def seconds(self, now: float) -> float:
        """Returns how far the rate looks back at `now`."""
        return now - self._marks[0][0] if self._marks else 0.0


def _notebook_line() -> Any:
    """Returns a handle of a line in the output of a notebook's cell; None outside of notebooks."""
    in_cell = type(sys.stdout).__module__.partition(".")[0] == "ipykernel"
    if not in_cell or is_quiet() or is_shared():
        return None
    from IPython.display import DisplayHandle

    line = DisplayHandle()
    line.display({"text/plain": ""}, raw=True)
    return line


def _make_bar() -> Any:
    """Creates and starts a bar without auto-refresh: no thread, no timer."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    def text(name: str, style: str = "{}") -> TextColumn:
        field = style.format(f"{{task.fields[{name}]}}")
        return TextColumn(field, markup=name != "title", table_column=Column(no_wrap=True))

    bar = Progress(
        text("title"),
        BarColumn(bar_width=None),
        text("amount"),
        text("returns", "[bold]{}"),
        text("best"),
        text("training"),
        text("rate"),
        text("left"),
        console=Console(highlight=False),
        auto_refresh=False,
    )
    bar.add_task("", title="", amount="", returns="", best="", training="", rate="", left="")
    bar.start()
    return bar


def _best_before(target: LogTarget, tag: str) -> float:
    """Returns the best return of a resumed run up to its checkpoint; NaN if there is none."""
    from dicore.run.log import read_metrics

    until = (target.resumed_at or (0, 0))[0]
    try:
        lines = read_metrics(target.folder / "metrics.jsonl")
        return float(max(line[tag] for line in lines if tag in line and line["step"] <= until))
    except (AttributeError, KeyError, OSError, TypeError, UsageError, ValueError):
        return math.nan


def _rate(per_second: float) -> str:
    return f"{per_second:.0f}" if per_second >= 10 else f"{per_second:.2g}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
