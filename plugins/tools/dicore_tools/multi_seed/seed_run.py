"""How the run of one seed of several ended."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dicore.errors import DicoreError

if TYPE_CHECKING:
    from dicore.run.launch import Outcome

__all__ = ["SeedRun"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """How the run of one seed ended.

    Args:
        seed: Its seed.
        folder: Its folder; None where it failed before or within.
        status: `done`, `interrupted` or `failed`.
        error: What went wrong, if something did.
        exit_code: As of the command.
        result: `stop`, `train_iter`, `env_step`, `best_return`, `wall_s`.
    """

    seed: int
    folder: str | None = None
    status: str = "failed"
    error: str = ""
    exit_code: int = 0
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, outcome: Outcome) -> SeedRun:
        """Notes what a training came to."""
        code = outcome.exit_code
        return cls(
            seed=seed,
            folder=str(outcome.run.folder),
            status="interrupted" if code else "done",
            exit_code=code,
            result=asdict(outcome.run.result),
        )

    @classmethod
    def failed(cls, seed: int, error: BaseException) -> SeedRun:
        """Notes what a training failed by; its traceback goes to the log."""
        _log.debug("seed %d failed", seed, exc_info=error)
        text = error.message if isinstance(error, DicoreError) else str(error)
        code = error.exit_code if isinstance(error, DicoreError) else 1
        return cls(seed=seed, error=f"{type(error).__name__}: {text}", exit_code=code)
