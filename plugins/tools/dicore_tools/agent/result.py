"""What a training of an agent says and returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dicore.console import say
from dicore.errors import UsageError
from dicore.run.atomic import read_json

if TYPE_CHECKING:
    from dicore.run.folder import RunFolder
    from dicore.run.run import Run

__all__ = ["Spoken", "TrainResult", "result_of"]


@dataclass(frozen=True, slots=True)
class TrainResult:
    """Result of a training.

    Args:
        stop: Whether the stop value was reached.
        train_iter: Gradient updates in total.
        env_step: Env steps in total.
        best_return: Best mean return of an evaluation; None before the first.
        wall_s: Training time in seconds.
        folder: The run folder.
    """

    stop: bool
    train_iter: int
    env_step: int
    best_return: float | None
    wall_s: float
    folder: Path


class Spoken:
    """Says why a training is not resumed, or ended before its budget.

    Args:
        step: Env steps that were asked for.
    """

    def __init__(self, step: int | None) -> None:
        self._step = step

    def started(self, *_: object) -> None: ...

    def ended(self, run: Run, *_: object) -> None:
        result = run.result
        if result.stop and self._step is not None:
            say(
                f"stop value reached after {result.env_step} env steps: mean return"
                f" {result.best_return:g}; Agent(…, env__stop_value=math.inf) trains on"
            )

    def nothing_to_do(self, run: Run, reason: str) -> None:
        say(f"nothing to do in {run.folder}: {reason} (dicore train --resume {run.folder} …)")


def result_of(folder: RunFolder) -> TrainResult:
    """Reads the result from `run.json`."""
    try:
        result = read_json(folder.metadata).get("result") or {}
    except (AttributeError, OSError, ValueError) as error:
        raise UsageError(f"cannot read {folder.metadata}: {error}") from None
    return TrainResult(
        stop=bool(result.get("stop")),
        train_iter=int(result.get("train_iter", 0)),
        env_step=int(result.get("env_step", 0)),
        best_return=result.get("best_return"),
        wall_s=float(result.get("wall_s", 0.0)),
        folder=Path(str(folder)),
    )
