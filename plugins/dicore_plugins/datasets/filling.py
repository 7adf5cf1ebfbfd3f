"""Fills replay buffers with recorded steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch
from dicore.errors import ReplayCapacityError, UsageError
from dicore.interfaces.policy import Tail

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer, IDataset

__all__ = ["fill_buffer"]

_SOME = 16_384
"""Samples that are pushed together."""


def fill_buffer(
    buffer: IBuffer,
    dataset: Any,
    get_train_sample: Callable[[Batch, Tail], Batch] | None = None,
    *,
    by_episode: bool = False,
) -> range:
    """Pushes all samples of a data set, by episode and time, and returns their ids.

    Args:
        buffer: Replay buffer (`IBuffer`). One with `keeps_origin` = True gets single steps with
            `end` and `env_id`.
        dataset: See `IDataset`.
        get_train_sample: That of a policy's collect mode: it makes the samples from whole episodes,
            as it does from collected ones. None: the samples are those of the data set.
        by_episode: The capacity of the buffer is a number of episodes.

    Raises:
        ReplayCapacityError: there are more samples than fit; nothing is pushed.
        UsageError: the samples are sequences, which the buffer makes itself, or the data set does
            not know the ends of its episodes.
    """
    whole, first = bool(getattr(buffer, "keeps_origin", False)), buffer.push_count
    if get_train_sample is None:
        ends = _ends(dataset) if whole else None
        count, parts = len(dataset), _parts(dataset, ends)
    else:
        made = [_made(get_train_sample, *each, whole=whole) for each in dataset.blocks()]
        count, parts = sum(map(len, made)), iter(made)
    if by_episode:
        count = int(dataset.end.sum())
    if count > buffer.replay_buffer_size:
        what = "episodes" if by_episode else "samples"
        raise ReplayCapacityError(
            f"the data set has {count} {what}, the buffer's capacity is"
            f" {buffer.replay_buffer_size}",
            hint=f"set replay_buffer_size={count}, or use a part of it (fraction, episodes)",
        )
    for part in parts:
        buffer.push(part)
    return range(first, buffer.push_count)


def _ends(dataset: IDataset) -> Any:
    ends = getattr(dataset, "end", None)
    if ends is None:
        raise UsageError(
            f"{type(dataset).__name__} does not know the ends of its episodes (`end`)",
            hint="use a buffer of single samples, or a data set of dicore",
        )
    if len(ends) != len(dataset):
        raise UsageError(
            "the samples of the data set are sequences, and this buffer makes them from steps",
            hint="set unroll_len=1 for the data set",
        )
    return ends


def _parts(dataset: IDataset, ends: Any) -> Iterator[Batch]:
    for start in range(0, len(dataset), _SOME):
        rows = np.arange(start, min(start + _SOME, len(dataset)))
        batch = dataset.take(rows)
        if ends is not None:
            batch.columns["end"] = ends[rows]
            batch.columns["env_id"] = np.zeros(len(rows), np.int64)
        yield batch


def _made(
    get_train_sample: Callable[[Batch, Tail], Batch], block: Batch, tail: Tail, *, whole: bool
) -> Batch:
    from dicore_plugins.middleware.learn import without_origin

    samples: Batch = get_train_sample(block, tail)
    return samples if whole else without_origin(samples)
