"""Batch: samples stored as columns; EnvBatch: values of several environments; Timestep: a step's.

Shapes: B samples, K environments, `...` the shape of one item.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Self, SupportsIndex, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt
import optree

from dicore.data.tree import (
    Array,
    Index,
    is_tensor,
    loaded_torch,
    to_tensor,
    tree_len,
    tree_map,
    tree_row,
    tree_stack,
)
from dicore.errors import SchemaError
from dicore.values import Info, Row, Tree

V = TypeVar("V")


class Batch:
    """Samples as columns: arrays, array-likes or tensors [B, ...], or nested dicts of them.

    `len(batch)` is B, `batch[3]` a row (a dict of views), `batch[2:5]` a Batch, `batch["obs"]` a
    column; iteration yields rows.

    Args:
        columns: The columns by name; not copied.
        length: B if the caller knows it; None: read off the columns, which are checked.
        schema: Any object that a producer shares among its batches of equal keys, dtypes and row
            shapes; consumers need to check only one of them.

    Attributes:
        columns: The columns by name; the dict of the batch itself.

    Raises:
        SchemaError: the columns do not share a leading axis.
    """

    __slots__ = ("_length", "columns", "schema")

    def __init__(
        self, columns: dict[str, Tree], length: int | None = None, schema: object = None
    ) -> None:
        self.columns = columns
        self.schema = schema
        self._length = tree_len(columns) if length is None else length

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Tree]]) -> Self:
        """Stacks rows into columns; float64 becomes float32, other dtypes are kept.

        Raises:
            SchemaError: there are no rows, or a row differs from the first in keys or shapes.
        """
        return cls(tree_stack([dict(row) for row in rows]) if rows else {})

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Self:
        """Concatenates batches with the same columns; a single batch is returned as it is."""
        if len(batches) == 1 and isinstance(batches[0], cls):
            return batches[0]
        if not batches:
            raise SchemaError("no batches to concatenate")
        first, *rest = (batch.columns for batch in batches)
        try:
            columns = tree_map(lambda *leaves: _join(leaves), first, *rest)
        except ValueError as error:
            raise SchemaError(f"cannot concatenate batches: {error}") from error
        return cls(columns, sum(len(batch) for batch in batches))

    def keys(self) -> KeysView[str]:
        return self.columns.keys()

    def items(self) -> ItemsView[str, Tree]:
        return self.columns.items()

    def get(self, key: str, default: Tree = None) -> Tree:
        return self.columns.get(key, default)

    def rows(self) -> list[Row]:
        """Returns all rows as dicts of views, in order."""
        columns = self.columns
        if any(isinstance(column, dict | list | tuple) for column in columns.values()):
            return [tree_row(columns, index) for index in range(self._length)]
        keys = tuple(columns)
        return [
            dict(zip(keys, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]

    def map(self, fn: Callable[[Tree], Tree]) -> Batch:
        """Applies `fn` to every leaf of every column; `fn` must keep the leading axis."""
        return Batch(tree_map(fn, self.columns), self._length)

    def to_torch(self) -> Batch:
        """Returns the batch as tensors, which share memory on the CPU; torch must be imported."""
        return self.map(to_tensor)

    def to(self, device: object, *, non_blocking: bool = False) -> Batch:
        """Returns the batch as tensors on `device`."""
        return self.map(lambda leaf: to_tensor(leaf).to(device, non_blocking=non_blocking))

    def copy(self) -> Batch:
        """Returns a copy with memory of its own."""
        return self.map(lambda leaf: leaf.clone() if hasattr(leaf, "clone") else leaf.copy())

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: str) -> Tree: ...
    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Row: ...
    @overload
    def __getitem__(self, index: slice | Array) -> Batch: ...
    def __getitem__(self, index: str | Index) -> Tree:
        if isinstance(index, str):
            try:
                return self.columns[index]
            except KeyError:
                has = ", ".join(self.columns)
                raise SchemaError(
                    f"a batch has no column '{index}'", hint=f"it has {has}"
                ) from None
        if isinstance(index, int | np.integer):
            if not -self._length <= index < self._length:
                raise IndexError(f"row {index} of a batch of {self._length}")
            return tree_row(self.columns, index)
        if isinstance(index, slice):
            length = len(range(*index.indices(self._length)))
            return Batch(tree_row(self.columns, index), length)
        return Batch(tree_row(self.columns, index))

    def __contains__(self, key: object) -> bool:
        return key in self.columns

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __repr__(self) -> str:
        shapes = tree_map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", self.columns)
        return f"Batch({self._length} rows, {shapes})"


def _join(leaves: Sequence[Tree]) -> Tree:
    if not is_tensor(leaves[0]):
        return np.concatenate(leaves)
    torch = loaded_torch()
    assert torch is not None, "columns are arrays or tensors"
    return torch.cat(tuple(leaves))


class _Fields(NamedTuple):
    obs: Tree
    reward: Tree
    done: bool
    info: Info


class Timestep(_Fields):
    """A tuple `(obs, reward, done, info)` of length 4; `done = terminated | truncated`.

    Args:
        obs: The observation after the step, also at the end of an episode.
        reward: The unscaled reward.
        done: The episode ended.
        info: The info dict of the environment.
        truncated: A time limit ended the episode; its last state is not terminal.
        terminated: The last state is terminal; None: `done` and not truncated.

    `_replace`, `_make`, pickling and tree operations keep `truncated` and `terminated`.
    """

    truncated: bool
    terminated: bool

    def __new__(
        cls,
        obs: Tree,
        reward: Tree,
        done: bool,
        info: Info,
        *,
        truncated: bool = False,
        terminated: bool | None = None,
    ) -> Self:
        self = super().__new__(cls, obs, reward, done, info)
        self.truncated = _flag(truncated)
        self.terminated = _flag(done and not truncated if terminated is None else terminated)
        return self

    @classmethod
    def _make(cls, iterable: Iterable[Tree]) -> Self:  # type: ignore[override]
        flags = vars(iterable) if isinstance(iterable, Timestep) else {}
        return cls(*iterable, **flags)

    def _replace(self, **values: Any) -> Self:
        """Returns a copy with other fields; `truncated` and `terminated` are fields too."""
        fields = {**dict(zip(self._fields, self, strict=True)), **vars(self), **values}
        return type(self)(**fields)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (vars(self), *self)


def _flag(value: Tree) -> Tree:
    return value if getattr(value, "ndim", 0) else bool(value)  # a column of collated timesteps


def _rebuild(flags: Mapping[str, Tree], *fields: Tree) -> Timestep:
    return Timestep(*fields, **flags)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # optree knows all named tuples, but not the flags of this one
    optree.register_pytree_node(
        Timestep,
        lambda step: (tuple(step), tuple(vars(step).items())),
        lambda flags, fields: _rebuild(dict(cast("Any", flags)), *fields),
        namespace=optree.registry.__GLOBAL_NAMESPACE,  # noqa: SLF001 - documented for this use
    )


@dataclass(slots=True, eq=False, repr=False)
class TimestepBatch:
    """The timesteps of K environments as arrays.

    Args:
        obs: Observations after the step, [K, ...] or a dict of arrays.
        reward: float32 [K].
        terminated: bool [K]: the new state is terminal.
        truncated: bool [K]: a time limit ended the episode; bootstrap from its last state.
        info: One dict per environment.
        abnormal: bool [K]: steps to exclude from training; None: no such steps.
    """

    obs: Tree
    reward: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    info: list[Info]
    abnormal: npt.NDArray[np.bool_] | None = None

    @classmethod
    def stack(cls, steps: list[Timestep]) -> Self:
        """Stacks single timesteps, for managers that step one environment at a time."""
        abnormal = np.array([bool(step.info.get("abnormal")) for step in steps])
        return cls(
            tree_stack([step.obs for step in steps]),
            np.array([step.reward for step in steps], np.float32),
            np.array([getattr(step, "terminated", step.done) for step in steps], np.bool_),
            np.array([getattr(step, "truncated", False) for step in steps], np.bool_),
            [step.info for step in steps],
            abnormal if abnormal.any() else None,
        )

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Bool [K]: terminated or truncated."""
        return self.terminated | self.truncated

    def row(self, index: SupportsIndex) -> Timestep:
        """Returns the timestep of one environment; the observation is a view."""
        terminated, truncated = bool(self.terminated[index]), bool(self.truncated[index])
        return Timestep(
            tree_row(self.obs, index),
            self.reward[index],
            terminated or truncated,
            self.info[index],
            truncated=truncated,
            terminated=terminated,
        )

    def __len__(self) -> int:
        return len(self.reward)

    def __iter__(self) -> Iterator[Tree]:
        yield from (self.obs, self.reward, self.done, self.info)


class EnvBatch(Mapping[int, Tree], Generic[V]):
    """A mapping from env id to value, stored as stacked arrays.

    Args:
        env_id: int64 [K], unique.
        value: A tree of arrays [K, ...], or a `TimestepBatch`.
        position: `{env_id: row}` if the caller has it; None: made when it is first needed.
    """

    __slots__ = ("_position", "env_id", "value")

    def __init__(
        self, env_id: npt.NDArray[np.int64], value: V, position: dict[int, int] | None = None
    ) -> None:
        self.env_id = env_id
        self.value = value
        self._position = position

    @classmethod
    def of(cls, mapping: Mapping[int, Tree]) -> EnvBatch[Tree]:
        """Returns an EnvBatch unchanged; stacks the values of another mapping, in its order."""
        return mapping if isinstance(mapping, EnvBatch) else cls.stack(mapping)

    @classmethod
    def stack(cls, mapping: Mapping[int, Tree]) -> EnvBatch[Tree]:
        """Stacks a mapping's values, else `SchemaError`; timesteps become a `TimestepBatch`."""
        if mapping.__class__ is not dict and not isinstance(mapping, Mapping):
            raise SchemaError(
                f"expected a mapping from env id to value, got {type(mapping).__name__}",
                hint="pass {env_id: value} or an EnvBatch",
            )
        ids = np.fromiter(mapping.keys(), np.int64, len(mapping))
        values = list(mapping.values())
        if values and isinstance(values[0], Timestep):
            return EnvBatch(ids, TimestepBatch.stack(values))
        return EnvBatch(ids, tree_stack(values) if values else {})

    def with_value(self, value: Tree) -> EnvBatch[Tree]:
        """Returns a batch of other values [K, ...] for the same environments."""
        return EnvBatch(self.env_id, value, self._position)

    @property
    def position(self) -> dict[int, int]:
        """The row of each environment id."""
        if self._position is None:
            self._position = {int(env_id): row for row, env_id in enumerate(self.env_id)}
        return self._position

    def __getitem__(self, env_id: int) -> Tree:
        return tree_row(self.value, self.position[env_id])

    def __iter__(self) -> Iterator[int]:
        return iter(self.position)

    def __len__(self) -> int:
        return len(self.env_id)

    def __repr__(self) -> str:
        return f"EnvBatch(env_id={self.env_id.tolist()}, value={self.value!r})"
