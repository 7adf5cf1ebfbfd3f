"""Minibatches of one pass over the samples of a collect, and the weights of their losses.

Shapes: B samples, T steps, N environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.data import Batch, Columns, Tree, tree_map
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.samples import as_rows

Array = npt.NDArray[np.float32]


def minibatches(columns: Columns, order: Tensor, size: int) -> Iterator[Batch]:
    """Yields samples in a given order, in minibatches of equal size or one less.

    Args:
        columns: Tensors [B, ...], or trees of them.
        order: int64 [B]; a permutation, on the device of the columns.
        size: Most samples of a minibatch.
    """
    count = len(order)
    parts = -(-count // size)
    sizes = [count * (part + 1) // parts - count * part // parts for part in range(parts)]
    pieces = {key: _split(each, order, sizes) for key, each in columns.items()}
    for at, number in enumerate(sizes):
        yield Batch({key: each[at] for key, each in pieces.items()}, number)


def _split(column: Tree, order: Tensor, sizes: list[int]) -> Tree:
    """Returns the minibatches of a column."""
    if isinstance(column, Tensor):
        return column.index_select(0, order).split(sizes)
    mixed = tree_map(lambda leaf: leaf.index_select(0, order), column)
    return [
        tree_map(lambda leaf, s=stop - size, e=stop: leaf[s:e], mixed)
        for size, stop in zip(sizes, accumulate(sizes), strict=True)
    ]


def with_scaled_advantages(batch: Batch) -> Batch:
    """Returns the samples with advantages of mean 0 and standard deviation 1."""
    std, mean = torch.std_mean(batch["advantage"])
    scaled = (batch["advantage"] - mean).div_(std + 1e-8)
    return Batch({**batch.columns, "advantage": scaled}, len(batch))


def in_chunks(function: Callable[[Any], Tensor], obs: Tree, size: int) -> Array:
    """Computes a number for each observation [B, ...], `size` at once: float32 [B], an array."""
    tensors = Batch({"obs": obs}).to_torch()
    with torch.inference_mode():
        starts = range(0, len(tensors), size)
        pieces = [function(tensors[start : start + size]["obs"]) for start in starts]
    found: Array = torch.cat(pieces).float().cpu().numpy()
    return found


def log_prob_of(block: Batch, index_of: Callable[[Batch], Any]) -> Array:
    """Computes the log-probabilities of actions that were taken: float32 [T * N], an array.

    Args:
        block: Columns [T, N, ...]: the distribution, the action, and obs if it may have a mask.
        index_of: Returns the actions of a batch as the distribution has them.
    """
    batch = Batch(tree_map(as_rows, dict(block.columns))).to_torch()
    with torch.inference_mode():
        log_prob, _ = log_prob_entropy(batch.columns, index_of(batch), mask_of(batch.get("obs")))
    found: Array = log_prob.float().numpy()
    return found


class Weights(NamedTuple):
    """Weights of the losses.

    Args:
        entropy: Of the entropy.
        unit: Factor of the value loss, a scalar: it is in units of the normalised returns.
    """

    entropy: float
    unit: Any

    @classmethod
    def of(cls, model: Any, learn: Any, settings: Mapping[str, float]) -> Weights:
        """Returns the weights for a network, by the options of learning and annealed settings."""
        norm = getattr(model, "value_norm", None)
        unit = 1.0 if norm is None else norm.std[0].square().reciprocal()
        return cls(settings.get("entropy_weight", learn.entropy_weight), unit)
