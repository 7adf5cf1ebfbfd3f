"""EnvBatch: `{env_id: value}` over stacked arrays; the seed's dict and the fast form in one object.

Shapes: K environments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dicore.data.timestep import Timestep, TimestepBatch
from dicore.data.tree import tree_row, tree_stack
from dicore.errors import SchemaError

V = TypeVar("V")


class EnvBatch(Mapping[int, Any], Generic[V]):
    """A mapping from environment id to value whose values are rows of stacked arrays.

    Args:
        env_id: int64 [K], each id once.
        value: A tree of arrays [K, ...], or a `TimestepBatch` of K.
        position: `{env_id: row}` where the maker has it; else made on first need.
    """

    __slots__ = ("_position", "env_id", "value")

    def __init__(
        self,
        env_id: npt.NDArray[np.int64],
        value: V,
        position: dict[int, int] | None = None,
    ) -> None:
        self.env_id = env_id
        self.value = value
        self._position = position

    @classmethod
    def of(cls, mapping: Mapping[int, Any]) -> EnvBatch[Any]:
        """Returns an EnvBatch as it is and stacks a plain dict, in the order of its keys.

        Raises:
            SchemaError: it is no mapping, or the values of a plain dict cannot be stacked.
        """
        return mapping if isinstance(mapping, EnvBatch) else cls.stack(mapping)

    @classmethod
    def stack(cls, mapping: Mapping[int, Any]) -> EnvBatch[Any]:
        """Stacks the values of a mapping; timesteps become a `TimestepBatch`.

        Raises:
            SchemaError: it is no mapping, or its values cannot be stacked.
        """
        if mapping.__class__ is not dict and not isinstance(mapping, Mapping):
            raise SchemaError(
                f"expected values by environment, got a {type(mapping).__name__}",
                hint="{env_id: value}, or an EnvBatch",
            )
        ids = np.fromiter(mapping.keys(), np.int64, len(mapping))
        values = list(mapping.values())
        if values and isinstance(values[0], Timestep):
            return EnvBatch(ids, TimestepBatch.stack(values))
        return EnvBatch(ids, tree_stack(values) if values else {})

    def with_value(self, value: Any) -> EnvBatch[Any]:
        """Returns other values [K, ...] for the same environments, in the same order."""
        return EnvBatch(self.env_id, value, self._position)

    @property
    def position(self) -> dict[int, int]:
        """The row of each environment id."""
        if self._position is None:
            self._position = {int(env_id): row for row, env_id in enumerate(self.env_id)}
        return self._position

    def __getitem__(self, env_id: int) -> Any:
        return tree_row(self.value, self.position[env_id])

    def __iter__(self) -> Iterator[int]:
        return iter(self.position)

    def __len__(self) -> int:
        return len(self.env_id)

    def __repr__(self) -> str:
        return f"EnvBatch(env_id={self.env_id.tolist()}, value={self.value!r})"
