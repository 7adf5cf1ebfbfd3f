"""The sampler role: a unit of the chain that makes training batches of a memory of trajectories.

Shapes: B workers, T steps of a chunk, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

import numpy.typing as npt

from dicore_registry import Contract, Kind

__all__ = ["KIND", "Chunk", "ISampler", "Info"]

Chunk = Mapping[str, npt.NDArray[Any]]
"""Arrays [B, T + 1, ...] (later [rows, ...]) by flat key: `/observations`, `/agents/a/actions`."""
Info = MutableMapping[str, Any]
"""What units of a chain tell each other: `num_workers`, `num_steps`, `agent_name`, …."""

KIND = Kind(
    name="sampler",
    summary="does one step from a memory of trajectories to training batches",
    contract="dicore_compat.samplers.interface:ISampler",
    suite="dicore_compat.samplers.contract:SamplerContract",
)


class ISampler(Contract, Protocol):
    """A function of data and info; keyword parameters after them are its options.

    The first unit of a chain gets the memory, each other one what the one before it returned, and
    the last one returns a batch, or yields several.
    """

    def __call__(self, data: object, info: Info) -> object:
        """Returns the data for the next unit; arrays and dicts that it got stay as they are."""
