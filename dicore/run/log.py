"""The run's log: numbers and texts go in here and come out in every sink.

Values may be tensors until they arrive here; this is the one place that converts them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np

from dicore.interfaces.logger import ILogger, LogTarget, SupportsHistograms
from dicore.run.metrics import RESERVED, MetricsFile

__all__ = ["LogHub"]

_log = logging.getLogger(__name__)


class LogHub:
    """Fans out to `metrics.jsonl`, the texts, and the configured loggers; itself an `ILogger`.

    Args:
        target: The run, as loggers see it.
        loggers: What is told besides; one that raises is switched off with one warning.
    """

    def __init__(self, target: LogTarget, loggers: Iterable[ILogger] = ()) -> None:
        self.target = target
        self._metrics: MetricsFile | None = MetricsFile(target.folder / "metrics.jsonl")
        self._loggers: list[ILogger] = []
        self._warned: set[str] = set()
        self._texts: dict[str, Any] | None = {}
        for each in loggers:
            self.add(each)

    def add(self, logger: ILogger) -> None:
        """Tells one more logger from now on."""
        self._loggers.append(logger)
        self._call(logger, "open", self.target)

    def log_scalars(self, scalars: Mapping[str, Any], *, env_step: int, train_iter: int) -> None:
        """Takes numbers by tag.

        Args:
            scalars: Plain numbers, numpy scalars, or arrays and tensors of one element. What is
                none of these is left out, with one warning for each tag; None is left out quietly.
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
        """
        numbers = {tag: number for tag, value in scalars.items()
                   if (number := self._number(tag, value)) is not None}  # fmt: skip
        if not numbers:
            return
        if self._metrics is not None:
            try:
                self._metrics.log_scalars(numbers, env_step=env_step, train_iter=train_iter)
            except OSError as error:
                self._metrics = None
                _log.warning("%s is not written any more: %s", self.target.folder, error)
        for each in tuple(self._loggers):
            self._call(each, "log_scalars", numbers, env_step=env_step, train_iter=train_iter)

    def log_histogram(self, tag: str, values: Any, *, env_step: int, train_iter: int) -> None:
        """Takes the values of one quantity; shown by the loggers that can."""
        able = [each for each in self._loggers if isinstance(each, SupportsHistograms)]
        if not able:
            return
        detached = values.detach().cpu() if hasattr(values, "detach") else values
        array = np.asarray(detached, np.float64).reshape(-1)
        for each in able:
            self._call(each, "log_histogram", tag, array, env_step=env_step, train_iter=train_iter)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Takes a text; it is appended to `log/<channel>/<channel>.txt` with the time."""
        if self._texts is not None:
            try:
                self._append(self._texts, channel, text)
            except OSError as error:
                self._close_texts()
                _log.warning("texts are not written any more: %s", error)
        for each in tuple(self._loggers):
            self._call(each, "log_text", text, channel=channel)

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the metrics file is."""
        return {} if self._metrics is None else dict(self._metrics.position())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cuts off the numbers that were written after the state was taken."""
        if self._metrics is not None and state:
            self._metrics.rewind(state)

    def flush(self) -> None:
        """Makes every logger hand on what it holds back."""
        for each in tuple(self._loggers):
            self._call(each, "flush")

    def close(self) -> None:
        """Closes every sink; harmless when repeated."""
        for each in tuple(self._loggers):
            self._call(each, "close")
        self._loggers.clear()
        self._close_texts()
        if self._metrics is not None:
            self._metrics.close()

    def _append(self, texts: dict[str, Any], channel: str, text: str) -> None:
        if channel not in texts:
            file = self.target.folder / channel / f"{channel}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            texts[channel] = file.open("ab", buffering=0)
        line = f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {text.rstrip()}\n"
        texts[channel].write(line.encode("utf-8", "replace"))

    def _close_texts(self) -> None:
        for file in (self._texts or {}).values():
            file.close()
        self._texts = None

    def _call(self, logger: ILogger, method: str, *args: Any, **kwargs: Any) -> None:
        try:  # whatever a logger does, training goes on
            getattr(logger, method)(*args, **kwargs)
        except Exception as error:
            if logger in self._loggers:
                self._loggers.remove(logger)
                with suppress(Exception):
                    logger.close()  # its files and threads
            name = type(logger).__name__
            _log.warning("logger %s is switched off: %s: %s", name, type(error).__name__, error)

    def _number(self, tag: str, value: Any) -> float | None:
        if value is None:
            return None
        if tag in RESERVED:
            self._warn(tag, "its name is reserved")
            return None
        try:
            return float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            self._warn(tag, f"not one number: {error}")
            return None

    def _warn(self, tag: str, reason: str) -> None:
        if tag not in self._warned:
            self._warned.add(tag)
            _log.warning("'%s' is not logged: %s", tag, reason)
