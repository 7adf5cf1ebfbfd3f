"""Recorded episodes and the log-probabilities of their actions.

Shapes: N steps, E episodes; `...` one item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.buffer import IDataset
from dicore.run.env_factory import BuildContext
from dicore_tools.components import build

__all__ = ["LOG_PROB", "Recorded", "log_prob_of", "recorded"]

LOG_PROB = "log_prob"
"""Column of a data set: log-probability of the action when it was taken."""
_SOME = 4096
"""Steps that are read at once."""


@dataclass(frozen=True)
class Recorded:
    """Episodes of a data set.

    Args:
        path: Where it is.
        dataset: Its single steps.
        end: bool [N]; the last step of each episode.
        reward: float64 [N].
        terminated: bool [N].
        log_prob: float64 [N]; of the actions when they were taken; None: not recorded.
    """

    path: str
    dataset: IDataset
    end: npt.NDArray[np.bool_]
    reward: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    log_prob: npt.NDArray[np.float64] | None

    def parts(self) -> Iterator[Batch]:
        """Yields the steps in order, some at a time."""
        count = len(self.end)
        for at in range(0, count, _SOME):
            yield self.dataset.take(np.arange(at, min(at + _SOME, count)))


def recorded(path: str, context: BuildContext, discount_factor: float) -> Recorded:
    """Opens a data set of single steps.

    Args:
        path: File, folder or id; see the component `dataset/auto`.
        context: Spaces that the steps must fit.
        discount_factor: Discount of the estimates.

    Raises:
        SchemaError: it cannot be read, lacks columns, or is of another environment.
        NonFiniteError: it holds a NaN or an infinity.
        UsageError: there is nothing, or nothing in it ends an episode.
    """
    options = {"type": "auto", "path": path, "nstep": 1, "discount_factor": discount_factor}
    dataset = _opened(options, context)
    some = dataset.take(np.arange(1))
    if "value_gamma" in some:
        raise UsageError(
            f"{path}: n-step samples; single steps are needed",
            hint="collect to a file: dicore collect RUN -o demo.npz",
        )
    end: object = getattr(dataset, "end", None)
    if not isinstance(end, np.ndarray):
        raise UsageError(f"{path}: it does not tell where episodes end", hint="write an .npz file")
    found = Recorded(path, dataset, end, np.empty(0), np.empty(0, np.bool_), None)
    names = ["reward", "done", *([LOG_PROB] if LOG_PROB in some else [])]
    columns = {
        name: np.concatenate([np.asarray(part[name]) for part in found.parts()]) for name in names
    }
    terminated = columns["done"] > 0
    if len(end) > 1 and end.sum() == 1 and not terminated.any():
        raise UsageError(
            f"{path}: {len(end)} steps of one episode without a terminal flag: either no end is"
            " marked, or it was cut off",
            hint="record several episodes, and mark ends in `terminated` (the task is over) or"
            " `truncated` (a time limit)",
        )
    log_prob = _checked(path, columns[LOG_PROB], end) if LOG_PROB in columns else None
    return Recorded(path, dataset, end, columns["reward"].astype(np.float64), terminated, log_prob)


def log_prob_of(data: Recorded, *, discrete: bool) -> npt.NDArray[np.float64]:
    """Returns the log-probabilities of the recorded actions: float64 [N].

    Args:
        data: The steps.
        discrete: Whether they are probabilities, and no densities.

    Raises:
        SchemaError: they were not recorded, or are no logarithms.
    """
    values = data.log_prob
    if values is None:
        raise SchemaError(
            f"{data.path}: no column {LOG_PROB}: the log-probability of each action when it was"
            " taken",
            hint="dicore collect RUN --log-prob -o demo.npz writes it; or --estimator fqe",
        )
    if discrete and values.max() > 1e-4:
        raise SchemaError(
            f"{data.path}: {LOG_PROB}: {values.max():.4g} is above 0, so it is no logarithm of a"
            " probability",
            hint="write the natural logarithms of the probabilities",
        )
    return values


def _opened(options: dict[str, object], context: BuildContext) -> IDataset:
    """Opens a data set with its log-probabilities, if it has any."""
    with_column = options
    if Path(str(options["path"])).is_file():
        with_column = {**options, "extra": [LOG_PROB]}
    try:
        return _built(with_column, context)
    except SchemaError as error:
        if error.context.get("missing") != [LOG_PROB]:
            raise
        return _built(options, context)


def _built(options: dict[str, object], context: BuildContext) -> IDataset:
    dataset: IDataset = build("dataset", options, context)
    return dataset


def _checked(
    path: str, column: npt.NDArray[np.generic], end: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Returns log-probabilities as float64 [N]; data sets have checked that they are finite."""
    if column.size != len(end):
        raise SchemaError(
            f"{path}: {LOG_PROB}: expected one number per step, got {[*column.shape[1:]]}",
            hint="sum the log-probabilities of the dimensions of an action",
        )
    return column.reshape(-1).astype(np.float64)
