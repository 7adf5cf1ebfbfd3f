"""Samples in a store: a block is what one call of a collector returned.

Metadata of samples: `{"file_path", "row"}`; the rows of a block are read by number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from dicore.data import Batch, tree_map
from dicore.errors import UsageError
from dicore_dist.links.exchange import Store

if TYPE_CHECKING:
    from dicore.data import Columns
    from dicore.data.tree import Array

__all__ = ["BlockCache"]


class BlockMeta(TypedDict, total=False):
    """What a collector tells of a block of samples; `row`, `at`: see `BlockCache.gather`."""

    data_id: str
    file_path: str
    task_id: str
    buffer_id: str
    count: int
    env_step: int
    policy_iter: int
    collector_done: bool
    returns: list[float]
    lengths: list[int]
    row: Array
    at: Array
    columns: Columns


class BlockCache:
    """Reads blocks, and keeps those used last in memory.

    Args:
        store: Where the blocks are.
        size: Maximum number of bytes in memory.
    """

    def __init__(self, store: Store, size: int) -> None:
        self._store, self._size = store, size
        self._blocks: OrderedDict[str, tuple[Batch, int]] = OrderedDict()
        self._used = 0

    def clear(self) -> None:
        """Forgets all blocks."""
        self._blocks.clear()
        self._used = 0

    def gather(self, metas: Sequence[BlockMeta]) -> Batch:
        """Returns the samples of metadata as one batch.

        Args:
            metas: Per block `file_path`, `row` int64 [n] and `at` int64 [n]: where in the batch
                each row belongs; the first may have `columns`, further columns of the batch.
        """
        parts, places = [], []
        for meta in metas:
            block = self.read(str(meta["file_path"]))
            parts.append(block[np.asarray(meta["row"])])
            places.append(np.asarray(meta["at"]))
        order = np.argsort(np.concatenate(places), kind="stable")
        joined = Batch.concat(parts)[order]
        return Batch({**joined.columns, **(metas[0].get("columns") or {})}, len(joined))

    def read(self, name: str) -> Batch:
        """Returns a whole block."""
        if name in self._blocks:
            self._blocks.move_to_end(name)
            return self._blocks[name][0]
        block = self._store.load(name)
        if not isinstance(block, Batch):
            raise UsageError(f"{name} holds no samples")
        sizes: list[int] = []
        tree_map(lambda leaf: sizes.append(leaf.nbytes), block.columns)
        self._blocks[name] = block, sum(sizes)
        self._used += sum(sizes)
        while self._used > self._size and len(self._blocks) > 1:
            self._used -= self._blocks.popitem(last=False)[1][1]
        return block
