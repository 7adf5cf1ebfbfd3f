"""What learning needs of drawn rows, in the form that losses written by hand take.

Shapes: B rows, n steps of reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dicore.data import Batch
from dicore_plugins.functional.collate import default_collate


def default_preprocess_learn(
    data: Sequence[Mapping[str, Any]] | Batch,
    use_priority_IS_weight: bool = False,  # noqa: N803 - the documents' name for it
    use_priority: bool = False,
    use_nstep: bool = False,
    ignore_done: bool = False,
) -> dict[str, Any]:
    """Collates rows; nothing given is changed.

    Args:
        data: Rows, or a Batch of them.
        use_priority_IS_weight: Take the importance-sampling weight `IS` as `weight`.
        use_priority: The rows were drawn by priority; without it there is no such weight.
        use_nstep: Turn rewards [B, n] into [n, B].
        ignore_done: Bootstrap everywhere: `done` is zero.

    Returns:
        The columns as tensors: `done` float32 [B], `weight` float32 [B] or None, the others as they
        were collated.

    Raises:
        KeyError: the weight is asked for and the rows have no `IS`.
        ValueError: a weight is asked for without priorities.
    """
    if use_priority_IS_weight and not use_priority:
        raise ValueError("use_priority_IS_weight needs use_priority: there is no weight without it")
    columns = dict(data.to_torch().items()) if isinstance(data, Batch) else default_collate(data)
    done = columns["done"].float()
    columns["done"] = torch.zeros_like(done) if ignore_done else done
    columns["weight"] = columns["IS"].float() if use_priority_IS_weight else None
    if use_nstep and columns["reward"].dim() > 1:
        columns["reward"] = columns["reward"].transpose(0, 1).contiguous()
    return columns
