"""Limits of a buffer on use, staleness and throughput, and the log of what passes through it.

Shapes: N samples pushed.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from dicore.data import State, StateDict, Tree
from dicore.errors import SchemaError
from dicore.interfaces.buffer import Refused
from dicore_plugins.buffers.base import as_array
from dicore_plugins.buffers.ring import IntArray

__all__ = ["BufferLog", "ThruputControl", "checked_stamps", "too_few_left"]

_LATEST = 2**31 - 1
"""Largest `collect_iter`."""
_LOG = logging.getLogger("dicore.buffer")


class LimitOptions(Protocol):
    """Options that limit how often and how long a sample is used."""

    @property
    def max_use(self) -> float: ...
    @property
    def max_staleness(self) -> float: ...


def too_few_left(size: int, count: int, cfg: LimitOptions, *, replace: bool) -> Refused | None:
    """Returns why a draw is refused from a buffer whose limits left too few samples, or None.

    Args:
        size: B.
        count: Samples that are left.
        cfg: Section with `max_use` and `max_staleness`.
        replace: B may exceed `count`.
    """
    limited = cfg.max_use < math.inf or cfg.max_staleness < math.inf
    if not limited or size < 1 or (count and (replace or size <= count)):
        return None
    return Refused(
        f"drawing {size} samples: max_use={cfg.max_use:g} and max_staleness={cfg.max_staleness:g}"
        f" leave {count}"
    )


def checked_stamps(given: Any, count: int) -> IntArray:
    """Returns the column `collect_iter` as int64 [N].

    Raises:
        SchemaError: there is not one whole number for each of the `count` samples.
    """
    stamps, found = as_array(given), ""
    if stamps.size == count and stamps.dtype.kind in "iuf":
        small = stamps.min() >= -_LATEST and stamps.max() <= _LATEST  # not if one is NaN
        if small and (stamps.dtype.kind != "f" or (stamps == np.floor(stamps)).all()):
            return stamps.astype(np.int64, copy=False).reshape(count)
        found = f" from {stamps.min()} to {stamps.max()}"
    raise SchemaError(
        f"collect_iter: expected whole numbers [{count}] up to {_LATEST}, got"
        f" {stamps.dtype}{[*stamps.shape]}{found}",
        hint="push the number of updates at which each sample was collected",
    )


class ThruputControl:
    """Refuses pushes or draws, so that the ratio of pushed to drawn samples keeps its limits.

    Both counts fade: one of `window_seconds` ago counts 1 %.

    Args:
        cfg: `ThruputConfig`.
        clock: Returns the time in seconds.
    """

    def __init__(self, cfg: Any, clock: Callable[[], float]) -> None:
        limit = cfg.push_sample_rate_limit
        self._most, self._least = limit.max, limit.min
        self._ratio = cfg.sample_min_limit_ratio
        self._window = cfg.window_seconds
        self._clock = clock
        self._since = clock()
        self.limited = limit.max < math.inf or limit.min > 0
        self.pushed = self.drawn = 0.0

    def refuses_push(self, count: int) -> Refused | None:
        """Returns why a push of `count` samples is refused, or None."""
        if not self.limited:
            return None
        self._fade()
        if self.drawn > 0 and (self.pushed + count) / self.drawn > self._most:
            return Refused(
                f"pushing {count} samples would make {self.pushed + count:.1f} pushed to"
                f" {self.drawn:.1f} drawn; the limit is {self._most:g}"
            )
        return None

    def refuses_draw(self, count: int, stored: float) -> Refused | None:
        """Returns why a draw of `count` of the `stored` samples is refused, or None."""
        if stored < count * self._ratio:
            return Refused(
                f"drawing {count} samples needs {math.ceil(count * self._ratio)} stored, have"
                f" {stored} (sample_min_limit_ratio={self._ratio:g})"
            )
        if not self.limited:
            return None
        self._fade()
        if self.pushed / (self.drawn + count) < self._least:
            return Refused(
                f"drawing {count} samples would make {self.pushed:.1f} pushed to"
                f" {self.drawn + count:.1f} drawn; the limit is {self._least:g}"
            )
        return None

    def _fade(self) -> None:
        now = self._clock()
        kept = 0.01 ** ((now - self._since) / self._window)
        self._since = now
        self.pushed *= kept
        self.drawn *= kept

    def state_dict(self) -> StateDict:
        """Returns the two counts."""
        return {"pushed": self.pushed, "drawn": self.drawn}

    def load_state_dict(self, state: State) -> None:
        """Restores them; they fade from now on."""
        self.pushed, self.drawn = float(state["pushed"]), float(state["drawn"])
        self._since = self._clock()


class BufferLog:
    """Logs numbers of samples by time, and use, priority and staleness of drawn ones by draws.

    Args:
        cfg: `MonitorConfig`.
        log: The run's log; None: only a text, by `logging`.
        clock: Returns the time in seconds.

    Attributes:
        removed: Samples removed because the buffer was full, by `max_use` and `max_staleness`.
    """

    def __init__(self, cfg: Any, log: Any, clock: Callable[[], float]) -> None:
        self._seconds = cfg.periodic_thruput.seconds
        self._every = cfg.sampled_data_attr.print_freq
        self._recent: deque[dict[str, float]] = deque(maxlen=cfg.sampled_data_attr.average_range)
        self._first = self._every - cfg.sampled_data_attr.average_range
        self._log = log
        self._clock = clock
        self._since = clock()
        self.env_step = -1
        self.removed = {"full": 0, "use": 0, "stale": 0}
        self._pushed = self._drawn = self._removed = self._draws = 0

    def state_dict(self) -> StateDict:
        """Returns the number of draws, and what the next line by draws averages over."""
        return {"draws": self._draws, "recent": list(self._recent)}

    def load_state_dict(self, state: State) -> None:
        """Restores them; numbers by time count from now on. Call it once `removed` is restored."""
        self._draws = int(state.get("draws", 0))
        self._recent.clear()
        self._recent.extend(dict(each) for each in state.get("recent", ()))
        self._pushed = self._drawn = 0
        self._removed = sum(self.removed.values())

    def pushed(self, count: int, env_step: int | None) -> None:
        """Counts a push."""
        self._pushed += count
        self.env_step = self.env_step if env_step is None else env_step

    def drawn(self, columns: Mapping[str, Tree], count: int, stored: int, train_iter: int) -> None:
        """Counts a draw of `count` samples with these columns; writes what is due."""
        self._drawn += count
        self._draws += 1
        if self._every and (self._draws - 1) % self._every >= self._first:
            self._describe(columns, train_iter)
        if self._seconds is not None and self._clock() - self._since >= self._seconds:
            self._write_numbers(stored, train_iter)

    def _describe(self, columns: Mapping[str, Tree], train_iter: int) -> None:
        found: dict[str, float] = {}
        for key, functions in (
            ("use", (np.mean, np.max)),
            ("priority", (np.mean, np.max, np.min)),
            ("staleness", (np.mean, np.max)),
        ):
            for function in functions:
                name = {"mean": "avg"}.get(function.__name__, function.__name__)
                found[f"buffer/{key}_{name}"] = float(function(columns[key]))
        self._recent.append(found)
        if self._draws % self._every == 0:
            keys = self._recent[0]
            mean = {k: float(np.mean([each[k] for each in self._recent])) for k in keys}
            self._write(mean, train_iter)
            self._recent.clear()

    def _write_numbers(self, stored: int, train_iter: int) -> None:
        removed = sum(self.removed.values())
        numbers = {
            "buffer/pushed_in": self._pushed,
            "buffer/sampled_out": self._drawn,
            "buffer/removed": removed - self._removed,
            "buffer/current_have": stored,
        }
        self._since = self._clock()
        self._pushed = self._drawn = 0
        self._removed = removed
        self._write(numbers, train_iter)

    def _write(self, scalars: Mapping[str, float], train_iter: int) -> None:
        text = ", ".join(f"{key.removeprefix('buffer/')} {scalars[key]:.4g}" for key in scalars)
        _LOG.info("%s", text)
        if self._log is not None:
            self._log.log_text(text, channel="buffer")
            step = max(self.env_step, 0)
            self._log.log_scalars(scalars, env_step=step, train_iter=train_iter)
