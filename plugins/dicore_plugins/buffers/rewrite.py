"""Replacing columns of stored samples: reanalysed targets, refreshed recurrent states.

Shapes: B samples, L steps of a sequence, `...` one sample or step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Tree
from dicore.errors import SchemaError
from dicore_plugins.buffers.base import as_array, stored
from dicore_plugins.buffers.memory import check_range
from dicore_plugins.buffers.ring import IntArray, Schema

__all__ = ["SupportsRewrite", "last_of_each", "values_of"]

Values = dict[str, npt.NDArray[Any]]


@runtime_checkable
class SupportsRewrite(Protocol):
    """A buffer whose samples can be changed after they were pushed."""

    def write(self, ids: Tree, columns: Mapping[str, Tree]) -> int:
        """Replaces columns of samples; samples that are no longer stored are skipped.

        Args:
            ids: int64 [B], as `push` returned them, or the column `replay_unique_id` of a draw; of
                samples that are there twice, the last values stay.
            columns: Some of the columns, with the dtypes and shapes of the stored ones: [B, ...].
                Of sequences, their first k steps [B, k, ...]; those after the end are not used.

        Returns:
            The number of samples that are changed.

        Raises:
            SchemaError: there is no such column, or it has another dtype or shape; nothing is
                changed.
            UsageError: an id was never pushed; nothing is changed.
        """


def values_of(schema: Schema, columns: Mapping[str, Tree], lead: tuple[int, ...]) -> Values:
    """Returns the values of columns by their dotted paths, in the dtypes that are stored.

    Args:
        schema: Keys, dtypes and shapes of what is stored.
        columns: The columns.
        lead: Their first axes, [B] or [B, k].

    Raises:
        SchemaError: there is no such column, or it has another dtype or shape.
    """
    forms = dict(zip(schema.paths, schema.forms, strict=True))
    paths, leaves, _ = optree.tree_flatten_with_path(dict(columns))
    found: Values = {}
    for path, leaf in zip(paths, leaves, strict=True):
        name, given = ".".join(map(str, path)), as_array(leaf)
        if name not in forms:
            raise SchemaError(f"there is no column '{name}'; there are {', '.join(forms)}")
        check_range([name], [given])
        array, (shape, dtype) = stored(given), forms[name]
        if array.dtype != dtype or array.shape != (*lead, *shape):
            raise SchemaError(
                f"column '{name}': expected {dtype}{[*lead, *shape]} as stored,"
                f" got {given.dtype}{[*given.shape]}"
            )
        found[name] = array
    return found


def last_of_each(slots: IntArray) -> IntArray:
    """Returns where slots of 0 and above are given for the last time: int64 [n]."""
    unique, places = np.unique(slots[::-1], return_index=True)
    found: IntArray = len(slots) - 1 - places[unique >= 0]
    return found
