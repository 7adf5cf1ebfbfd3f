"""Statistics of values that any code reports by name, over windows of updates."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError
from dicore.interfaces.hook import LearnerHook
from dicore.values import Tree
from dicore_plugins.hooks.hook_config import Interval

if TYPE_CHECKING:
    from dicore_plugins.learners.base.learner import BaseLearner


__all__ = ["MonitorHook", "Window", "monitor"]

_LOCK: Final = threading.Lock()
_OPEN: dict[str, Window] = {}


class Window:
    """Number, mean, standard deviation and range of the values since the window was opened."""

    __slots__ = ("_squares", "high", "low", "mean", "num")

    def __init__(self) -> None:
        self.num = 0
        self.mean = self._squares = 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, array: npt.NDArray[np.float64]) -> None:
        """Adds values; one that is NaN makes all statistics NaN.

        Args:
            array: float64 [B], at least one.
        """
        num = self.num + array.size
        with np.errstate(all="ignore"):  # infinite values have no deviation
            mean = array.mean()
            shift = mean - self.mean
            # Chan, Golub and LeVeque 1983: two samples are joined without loss of precision.
            self._squares += float(((array - mean) ** 2).sum())
            self._squares += float(shift * shift * self.num * array.size / num)
            step = shift * array.size / num if np.isfinite(shift) else mean
            self.mean += float(step)
        self.num = num
        self.low = float(np.minimum(self.low, array.min()))
        self.high = float(np.maximum(self.high, array.max()))

    def statistics(self) -> dict[str, float]:
        """Returns `num`, `mean`, `std` (of the population), `min` and `max`."""
        std = math.sqrt(self._squares / self.num) if self.num else math.nan
        values = (float(self.num), self.mean, std, self.low, self.high)
        return dict(zip(("num", "mean", "std", "min", "max"), values, strict=True))


def monitor(name: str, values: Tree) -> None:
    """Reports values, which the learner hook `monitor` summarises and logs.

    Any code of the process may call it: policies, models, wrappers, environments that are not in
    a worker. Without the hook the values are only added up.

    Args:
        name: Name of the window (`actor/entropy`); a leading slash is dropped.
        values: A number, or an array or tensor of them: float [...]; none at all add nothing.

    Raises:
        UsageError: the values are not real numbers.
    """
    array = _numbers(name, values)
    if array.size:
        with _LOCK:
            _OPEN.setdefault(name.lstrip("/"), Window()).add(array)


def _numbers(name: str, values: Tree) -> npt.NDArray[np.float64]:
    """Returns values as float64 [B]."""
    given = values.detach().cpu() if hasattr(values, "detach") else values
    if getattr(given, "is_floating_point", bool)():
        given = given.double()  # NumPy has no bfloat16
    try:
        array = np.asarray(given)
        if array.dtype.kind in "biuf" or not array.size:
            return array.astype(np.float64).reshape(-1)
    except (TypeError, ValueError):
        pass
    shown = f"{values!r:.60}"
    raise UsageError(
        f"monitor('{name}'): {shown} is not a number, or an array of numbers",
        hint="pass a float, an int, an array or a tensor",
    )


def _taken() -> dict[str, Window]:
    """Returns the windows that are open, and closes them."""
    with _LOCK:
        found = dict(_OPEN)
        _OPEN.clear()
    return found


class MonitorHook(LearnerHook):
    """Logs the windows of `monitor(name, values)` as `monitor/<name>/mean`, `std`, `min` and so on.

    They are in `log/metrics.jsonl` and all loggers: `dicore plot RUN -y monitor/<name>/mean`.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first.
        position: When the hook runs: `after_iter` or `after_run`.
        freq: Updates in a window.
    """

    def __init__(
        self,
        name: str = "monitor",
        *,
        priority: int = 20,
        position: str = "after_iter",
        freq: int = 100,
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self._interval = Interval(freq)
        _taken()  # of a training before this one

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Creates the hook from the simple form; the value is the number of updates."""
        return cls(position=position, freq=int(value)) if value else None

    def resume(self, engine: BaseLearner) -> None:
        """Continues from the learner's counter."""
        self._interval.pass_over(engine.last_iter)

    def __call__(self, engine: BaseLearner) -> None:
        """Logs and closes the windows when due."""
        last = self.position == "after_run"
        if engine.rank != 0 or not (last or self._interval.due(engine.last_iter)):
            return
        scalars = {
            f"monitor/{name}/{key}": value
            for name, window in _taken().items()
            for key, value in window.statistics().items()
        }
        if scalars and engine.run is not None:
            steps = {"env_step": max(engine.envstep, 0), "train_iter": engine.last_iter}
            engine.run.log.log_scalars(scalars, **steps)
