"""Units that look at the data of a sampler and pass it on; they can stand anywhere in a chain."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dicore.errors import NonFiniteError
from dicore_compat.samplers.interface import Info

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["check_nan", "check_shape", "check_stats", "print_line"]

_LOG = logging.getLogger("dicore.sampler")


def _columns(data: object) -> Iterator[tuple[str, Tree]]:
    """Yields key and array of each column; nothing of a memory or of an iterator."""
    if isinstance(data, Mapping):
        yield from data.items()


def check_shape(data: object, info: Info) -> object:
    """Logs dtype and shape of each key, once per call."""
    columns = [(key, np.asarray(column)) for key, column in _columns(data)]
    lines = [f"{key} {column.dtype}{[*column.shape]}" for key, column in columns]
    _LOG.info("shapes: %s", "; ".join(lines) or type(data).__name__)
    return data


def check_nan(data: object, info: Info) -> object:
    """Raises an error if a value is NaN or infinite.

    Raises:
        NonFiniteError: the message has the key and the index of the first one.
    """
    for key, column in _columns(data):
        array = np.asarray(column)
        if not np.issubdtype(array.dtype, np.floating) or np.isfinite(array).all():
            continue
        wrong = np.argwhere(~np.isfinite(array))
        first = tuple(int(at) for at in wrong[0])
        raise NonFiniteError(
            f"{key}: {array[first]} at index {list(first)} ({len(wrong)} of {array.size} values)",
            hint="check_nan further up the chain tells where it comes from",
            context={"key": key, "index": first},
        )
    return data


def check_stats(data: object, info: Info) -> object:
    """Logs mean, standard deviation, minimum and maximum of each key; NaN is left out."""
    for key, column in _columns(data):
        array = np.asarray(column, np.float64)
        known = array[~np.isnan(array)]
        if not known.size:
            _LOG.info("%s: no values", key)
            continue
        _LOG.info(
            "%s: mean %.6g, std %.6g, min %.6g, max %.6g",
            key, known.mean(), known.std(), known.min(), known.max(),
        )  # fmt: skip
    return data


def print_line(data: object, info: Info) -> object:
    """Logs a line, to tell the calls of a chain apart."""
    _LOG.info("=" * 40)
    return data
