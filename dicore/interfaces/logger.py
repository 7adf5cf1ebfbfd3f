"""The logger role: receives the metrics of a run, besides `log/metrics.jsonl`.

Loggers get plain floats: tensors are converted once, before any logger is called. A logger that
raises is disabled with one warning; training never stops because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["KIND", "ILogger", "LogTarget", "SupportsHistograms", "SupportsProgress"]

KIND = Kind(
    name="logger",
    summary="prints or stores the metrics of a run",
    contract="dicore.interfaces.logger:ILogger",
    section="pipeline.logger",
    suite="dicore.testing.logger:LoggerContract",
    use="dicore train -e cartpole -p dqn 'pipeline.logger=[console,tensorboard,{item}]'",
)


@dataclass(frozen=True, slots=True)
class LogTarget:
    """The logged run.

    Args:
        folder: The run's `log` folder, for files.
        title: The run's folder, for display.
        max_env_step: Budget in env steps; None: unlimited.
        max_train_iter: Budget in updates; None: unlimited.
        stop_value: Mean return at which training stops; inf: never.
        resumed_at: Env step and update of the checkpoint of a resumed run, -1 if there is none;
            later entries of the log are invalid.
    """

    folder: Path
    title: str = ""
    max_env_step: int | None = None
    max_train_iter: int | None = None
    stop_value: float = float("inf")
    resumed_at: tuple[int, int] | None = None


@runtime_checkable
class ILogger(Contract, Protocol):
    """Receives the metrics and texts of one run, in order."""

    def open(self, target: LogTarget) -> None:
        """Starts a log; called once, first. Defer heavy imports and files to first use."""

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Logs metrics, which may be nan or inf.

        Args:
            scalars: Values by tag, which begins with its source (`evaluator/return_mean`).
            env_step: Env steps collected so far.
            train_iter: Updates so far.
        """

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Logs a text from a part of the run (`learner`, `evaluator`, `run`)."""

    def flush(self) -> None:
        """Writes buffered entries."""

    def close(self) -> None:
        """Flushes and frees resources; later calls do nothing."""


@runtime_checkable
class SupportsHistograms(Protocol):
    """A logger of histograms."""

    def log_histogram(
        self, tag: str, values: npt.NDArray[np.floating], *, env_step: int, train_iter: int
    ) -> None:
        """Logs the distribution of values, float [...]."""


@runtime_checkable
class SupportsProgress(Protocol):
    """A logger that is told how far the training is also while nothing is logged."""

    def log_progress(self, *, env_step: int, train_iter: int) -> None:
        """Takes note of the counters, at most twice a second."""
