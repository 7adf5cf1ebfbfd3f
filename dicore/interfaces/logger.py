"""The logger role: shows or keeps the numbers of a run, besides `log/metrics.jsonl`.

Loggers get plain floats: tensors are converted once, before any logger is called. A logger that
raises is disabled with one warning; training never stops because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["KIND", "ILogger", "LogTarget", "SupportsHistograms"]

KIND = Kind(
    name="logger",
    summary="shows or keeps the numbers of a run",
    contract="dicore.interfaces.logger:ILogger",
    section="pipeline.logger",
    suite="dicore.testing.logger:LoggerContract",
)


@dataclass(frozen=True, slots=True)
class LogTarget:
    """What a logger may know about the run that it logs.

    Args:
        folder: The run's `log` folder, where files go.
        title: The run's folder, for people.
        max_env_step: Budget in env steps, if there is one.
        max_train_iter: Budget in updates, if there is one.
        stop_value: Mean return at which training stops; inf: never.
        resumed_at: Env step and update from which a resumed run goes on; what was logged later is
            void.
    """

    folder: Path
    title: str = ""
    max_env_step: int | None = None
    max_train_iter: int | None = None
    stop_value: float = float("inf")
    resumed_at: tuple[int, int] | None = None


@runtime_checkable
class ILogger(Protocol):
    """Takes the numbers and texts of one run, in the order in which they arise."""

    def open(self, target: LogTarget) -> None:
        """Called once before everything else; heavy imports and files may wait for first use."""

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Takes numbers by tag (`evaluator/return_mean`); nan and inf may be among them.

        Args:
            scalars: Values by tag; the part before the first slash says who speaks.
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
        """

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Takes a text for people, from a part of the run (`learner`, `evaluator`, `run`)."""

    def flush(self) -> None:
        """Hands on what is held back."""

    def close(self) -> None:
        """Flushes and lets go; harmless when repeated."""


@runtime_checkable
class SupportsHistograms(Protocol):
    """A logger that can show how values are distributed."""

    def log_histogram(
        self, tag: str, values: npt.NDArray[np.floating], *, env_step: int, train_iter: int
    ) -> None:
        """Takes the values of one quantity, float [...]."""
