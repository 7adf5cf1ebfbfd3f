"""Infos of single environments from the columns of a vector env's info."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Info, Tree

__all__ = ["Infos", "row_of_info"]


class Infos(Sequence[Info]):
    """The infos of K environments, each made when it is first read.

    Args:
        columns: The vector env's info: columns [N, ...], with masks `_key` or without.
        env_ids: The environments.

    Attributes:
        made: Infos that were read or set, by row.
    """

    def __init__(self, columns: Mapping[str, Tree], env_ids: npt.NDArray[np.int64]) -> None:
        self._columns, self.env_ids = columns, env_ids
        self.made: dict[int, Info] = {}

    def __len__(self) -> int:
        return len(self.env_ids)

    def __getitem__(self, row: Tree) -> Tree:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        at = range(len(self))[row]
        if at not in self.made:
            self.made[at] = row_of_info(self._columns, int(self.env_ids[at]))
        return self.made[at]

    def abnormal(self) -> npt.NDArray[np.bool_] | None:
        """Returns which environments marked their step as abnormal; None: none can have."""
        if "abnormal" not in self._columns:
            return None
        return np.array([bool(np.any(each.get("abnormal", False))) for each in self])

    def __setitem__(self, row: int, info: dict[str, object]) -> None:
        self.made[range(len(self))[row]] = info


def row_of_info(info: Mapping[str, Tree], row: int) -> Info:
    """Returns the info of one environment from the columns of a vector env's info."""
    found: dict[str, Any] = {}
    for key, column in info.items():
        mask = info.get(f"_{key}")
        of_mask = isinstance(key, str) and key[:1] == "_" and key[1:] in info
        if of_mask or (mask is not None and not mask[row]):
            continue
        found[key] = row_of_info(column, row) if isinstance(column, Mapping) else column[row]
    return found
