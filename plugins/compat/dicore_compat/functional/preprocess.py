"""Preprocessing of sampled rows for a hand-written loss.

Shapes: B rows, n steps of reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from dicore.data import Batch, Tree
from dicore.errors import SchemaError, UsageError
from dicore_compat.functional.collate import default_collate

if TYPE_CHECKING:
    from dicore.data import Columns


def default_preprocess_learn(
    data: Sequence[Mapping[str, Tree]] | Batch,
    use_priority_IS_weight: bool = False,  # noqa: N803 - the documents' name for it
    use_priority: bool = False,
    use_nstep: bool = False,
    ignore_done: bool = False,
) -> Columns:
    """Collates rows to the columns of a loss; `data` is not changed.

    Args:
        data: Rows or a Batch.
        use_priority_IS_weight: Return the importance-sampling weight `IS` (or `priority_IS`, as
            deque buffers call it) as `weight`.
        use_priority: The rows were sampled by priority; required for the weight.
        use_nstep: Transpose rewards [B, n] to [n, B].
        ignore_done: Set `done` to zero, so that every row bootstraps.

    Returns:
        The columns as tensors: `done` float32 [B], `weight` float32 [B] (the rows' own, without
        importance sampling) or None, the others as collated.

    Raises:
        SchemaError: the weight is requested and the rows have neither `IS` nor `priority_IS`.
        UsageError: the weight is requested without `use_priority`.
    """
    if use_priority_IS_weight and not use_priority:
        raise UsageError("use_priority_IS_weight=True requires use_priority=True")
    columns = dict(data.to_torch().items()) if isinstance(data, Batch) else default_collate(data)
    done = columns["done"].float()
    columns["done"] = torch.zeros_like(done) if ignore_done else done
    columns["weight"] = _weight(columns, sampled=use_priority_IS_weight)
    if use_nstep and columns["reward"].dim() > 1:
        columns["reward"] = columns["reward"].transpose(0, 1).contiguous()
    return columns


def _weight(columns: Mapping[str, Tree], *, sampled: bool) -> Tree:
    """Returns the factors of the losses, float32 [B], or None."""
    names = ("IS", "priority_IS") if sampled else ("weight",)
    found = next((columns[name] for name in names if columns.get(name) is not None), None)
    if found is None and sampled:
        raise SchemaError(
            f"the rows have no IS or priority_IS; they have {', '.join(map(str, columns))}",
            hint="sample them from a buffer with priorities",
        )
    return None if found is None else found.float()
