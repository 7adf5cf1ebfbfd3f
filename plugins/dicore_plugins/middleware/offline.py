"""Middleware that learns from a recorded data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import OfflineRLContext, Task, middleware
from dicore.task.middleware import Role
from dicore_plugins.datasets.order import shuffled
from dicore_plugins.functional.samples import to_batch

if TYPE_CHECKING:
    from dicore.config.sections import RunConfig
    from dicore.interfaces.buffer import IDataset


def offline_data_fetcher(cfg: RunConfig, dataset: IDataset) -> Callable[[OfflineRLContext], None]:
    """Fetches the next batch of a dataset; every sample once per epoch, in random order.

    Args:
        cfg: The whole compiled config; the batch size is `policy.learn.batch_size`.
        dataset: See `IDataset`; or one of torch (`len`, and samples as dicts by index).

    Returns:
        A middleware: -> train_data, train_epoch. The last batch of an epoch may be smaller.

    Raises:
        UsageError: the dataset is empty.
    """
    if not len(dataset):
        raise UsageError("the dataset is empty", hint="set pipeline.dataset to one with samples")
    size, count = cfg.policy.learn.batch_size, len(dataset)
    per_epoch, upcoming, recycled = math.ceil(count / size), -1, True
    batches: Iterator[Batch] = iter(())

    def join_task(task: Task) -> None:
        nonlocal recycled  # memory of a batch is used again for the one after the next
        recycled = task.executor is None or task.executor.max_lag < 2

    @middleware(
        reads=["total_step"],
        writes=["train_data", "train_epoch"],
        uses=[dataset],
        role=Role.FETCHER,
    )
    def fetch(ctx: OfflineRLContext) -> None:
        nonlocal batches, upcoming
        epoch, batch = divmod(ctx.total_step, per_epoch)
        if batch == 0 or ctx.total_step != upcoming:  # an epoch begins, or a run is resumed in one
            order = shuffled(count, np.random.default_rng((cfg.seed, epoch)))
            batches = _taken(dataset, order[batch * size :], size, recycled=recycled)
        ctx.train_data, ctx.train_epoch = next(batches), epoch
        upcoming = ctx.total_step + 1

    vars(fetch)["join_task"] = join_task
    return fetch


def _taken(
    dataset: Any, index: npt.NDArray[np.int64], size: int, *, recycled: bool
) -> Iterator[Batch]:
    """Yields samples of a dataset by index, as batches; of recycled memory if it can."""
    if recycled and hasattr(dataset, "take_batches"):
        yield from dataset.take_batches(index, size)
        return
    take = getattr(dataset, "take", None)
    for start in range(0, len(index), size):
        chosen = index[start : start + size]
        yield take(chosen) if take else to_batch([dataset[each] for each in chosen.tolist()])
