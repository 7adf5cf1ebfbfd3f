"""Stacking a list of samples to a batch of tensors, and splitting a batch into samples.

Use it for rows of any nesting; columns (`dicore.data.Batch`) need neither.

Shapes: B samples, T steps, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dicore.data import Timestep, Tree
from dicore.errors import SchemaError

if TYPE_CHECKING:
    from dicore.data import Batch, Columns


__all__ = ["default_collate", "default_decollate", "diff_shape_collate", "timestep_collate"]

IGNORE_PREFIX = ("collate_ignore",)
IGNORE = ("prev_state", "prev_actor_state", "prev_critic_state")


def default_collate(
    batch: Iterable[Tree],
    cat_1dim: bool = True,
    ignore_prefix: Sequence[str] = IGNORE_PREFIX,
) -> Any:
    """Stacks B samples of equal structure to one structure of tensors [B, ...].

    Tensors and arrays keep their dtype; Python floats become float32, ints int64, bools bool;
    strings stay a list. Dicts are stacked by the keys of the first sample, named tuples by field,
    sequences by position.

    Args:
        batch: The samples.
        cat_1dim: Concatenate items of shape (1,) to [B] instead of [B, 1].
        ignore_prefix: Values of dict keys with this prefix stay a list of B.

    Raises:
        SchemaError: there is no sample, a key is missing, or lengths or shapes differ; the message
            names the path.
        TypeError: the type of a value is not supported.
    """
    return _collate(list(batch), cat_1dim, tuple(ignore_prefix), "")


def _collate(batch: list[Tree], cat_1dim: bool, prefix: tuple[str, ...], path: str) -> Any:
    if not batch:
        raise SchemaError("cannot collate an empty list")
    first = batch[0]
    if isinstance(first, torch.Tensor | np.ndarray | np.generic):
        return _stack(batch, cat_1dim, path)
    if isinstance(first, bool | int | float):
        return _scalars(batch, path)
    if isinstance(first, str):
        return list(batch)
    if isinstance(first, Mapping):

        def column_of(column: list[Tree], key: Any, below: str) -> Any:
            ignored = isinstance(key, str) and prefix and key.startswith(prefix)
            return column if ignored else _collate(column, cat_1dim, prefix, below)

        return _mapping(batch, path, column_of)
    if isinstance(first, Sequence):
        return _sequences(batch, path, lambda item, at: _collate(item, cat_1dim, prefix, at))
    raise TypeError(f"cannot collate{_at(path)} values of type {type(first).__name__}")


def _stack(batch: list[Tree], cat_1dim: bool, path: str) -> torch.Tensor:
    if not all(isinstance(item, torch.Tensor | np.ndarray | np.generic) for item in batch):
        raise SchemaError(f"samples to collate differ in type{_at(path)}: {_types(batch)}")
    shapes = {tuple(item.shape) for item in batch}
    if len(shapes) > 1:
        raise SchemaError(f"samples to collate differ in shape{_at(path)}: {sorted(shapes)}")
    join = cat_1dim and shapes == {(1,)}
    if all(isinstance(item, torch.Tensor) for item in batch):
        return torch.cat(batch) if join else torch.stack(batch)
    arrays = [np.asarray(item) for item in batch]
    if arrays[0].dtype.kind not in "biufc":
        raise TypeError(f"cannot collate{_at(path)} arrays of dtype {arrays[0].dtype}")
    return torch.from_numpy(np.concatenate(arrays) if join else np.stack(arrays))


def _scalars(batch: list[Tree], path: str) -> torch.Tensor:
    kinds = {type(item) for item in batch}
    if not kinds <= {bool, int, float} or (bool in kinds and len(kinds) > 1):
        raise SchemaError(f"samples to collate differ in type{_at(path)}: {_types(batch)}")
    if float in kinds:
        return torch.tensor(batch, dtype=torch.float32)
    return torch.tensor(batch, dtype=torch.bool if bool in kinds else torch.int64)


def _mapping(
    batch: list[Tree], path: str, column_of: Callable[[list[Tree], Any, str], Any]
) -> dict[Any, Any]:
    for position, sample in enumerate(batch):
        missing = [key for key in batch[0] if key not in sample]
        if missing:
            raise SchemaError(
                f"sample {position} has no key {missing[0]!r}{_at(path)}; sample 0 has"
            )
    return {
        key: column_of(
            [sample[key] for sample in batch], key, f"{path}.{key}" if path else str(key)
        )
        for key in batch[0]
    }


def _sequences(batch: list[Tree], path: str, column_of: Callable[[list[Tree], str], Any]) -> Any:
    _same_length(batch, path)
    columns = [
        column_of(list(column), f"{path}[{position}]")
        for position, column in enumerate(zip(*batch, strict=True))
    ]
    first = batch[0]
    if isinstance(first, Timestep):
        flags = ([vars(step)[name] for step in batch] for name in ("truncated", "terminated"))
        truncated, terminated = (_scalars(column, path) for column in flags)
        collated: Any = Timestep  # with columns in place of values
        return collated(*columns, truncated=truncated, terminated=terminated)
    return type(first)(*columns) if hasattr(first, "_fields") else columns


def _same_length(batch: list[Tree], path: str) -> None:
    for position, sample in enumerate(batch):
        if len(sample) != len(batch[0]):
            raise SchemaError(
                f"sample {position} has {len(sample)} items{_at(path)}; sample 0 has"
                f" {len(batch[0])}"
            )


def _types(batch: list[Tree]) -> str:
    return ", ".join(sorted({type(item).__name__ for item in batch}))


def _at(path: str) -> str:
    return f" at '{path}'" if path else ""


def timestep_collate(batch: Iterable[Tree]) -> Columns:
    """Stacks B sequences of T steps to columns [T, B, ...].

    Args:
        batch: B sequences, each a dict of lists of T values (as of `get_train_sample`) or of
            tensors [T, ...], nested or not, or a list of T dicts.

    Returns:
        Tensors [T, B, ...] and lists of T lists of B strings. The recurrent states `prev_state`
        stay lists: T lists of B.

    Raises:
        SchemaError: there is no sample, a key is missing, or lengths or shapes differ.
        TypeError: the type of a value is not supported.
    """
    samples = [_columns_of(sample, position) for position, sample in enumerate(batch)]
    if not samples:
        raise SchemaError("cannot collate an empty list")
    states = [sample.pop("prev_state") for sample in samples if "prev_state" in sample]
    if states and len(states) != len(samples):
        raise SchemaError(f"{len(states)} of {len(samples)} samples have the key 'prev_state'")
    found: Columns = _time_first(default_collate(samples, ignore_prefix=()))
    if states:
        _same_length(states, "prev_state")
        found["prev_state"] = [list(step) for step in zip(*states, strict=True)]
    return found


def _columns_of(sample: Any, position: int) -> Columns:
    """Returns a sequence as a new dict of lists."""
    if isinstance(sample, Mapping):
        return {key: each if key == "prev_state" else _listed(each) for key, each in sample.items()}
    if not isinstance(sample, Sequence) or not all(isinstance(step, Mapping) for step in sample):
        raise SchemaError(
            f"sample {position} is neither a dict of lists nor a list of dicts:"
            f" {type(sample).__name__}"
        )
    if not sample:
        raise SchemaError(f"sample {position} has no steps")
    for step in sample:
        if step.keys() != sample[0].keys():
            raise SchemaError(f"the steps of sample {position} differ in their keys")
    columns = {key: [step[key] for step in sample] for key in sample[0]}
    return {key: each if key == "prev_state" else _steps(each) for key, each in columns.items()}


def _listed(tree: Tree) -> Any:
    """Converts tensors and arrays [T, ...] in nested dicts to lists of T."""
    if isinstance(tree, Mapping):
        return {key: _listed(value) for key, value in tree.items()}
    return list(tree) if isinstance(tree, torch.Tensor | np.ndarray) and tree.ndim else tree


def _steps(values: list[Tree]) -> Tree:
    """Converts a list of (nested) dicts to a dict of lists."""
    if not all(isinstance(value, Mapping) for value in values):
        return values
    return {key: _steps([value[key] for value in values]) for key in values[0]}


def _time_first(tree: Tree) -> Any:
    """Stacks the lists of T tensors [B, ...] in nested dicts."""
    if isinstance(tree, Mapping):
        return {key: _time_first(value) for key, value in tree.items()}
    if isinstance(tree, list) and tree and all(isinstance(each, torch.Tensor) for each in tree):
        return torch.stack(tree)
    return tree


def diff_shape_collate(batch: Iterable[Tree]) -> Any:
    """Stacks B samples like `default_collate`; values that differ in shape stay a list of B.

    So does a column with None. Items of shape (1,) are stacked to [B, 1].

    Args:
        batch: The samples, of equal keys and lengths.

    Raises:
        SchemaError: there is no sample, a key is missing, or lengths or types differ.
        TypeError: the type of a value is not supported.
    """
    return _collate_any(list(batch), "")


def _collate_any(batch: list[Tree], path: str) -> Any:
    if any(item is None for item in batch):
        return batch
    if batch and all(isinstance(item, torch.Tensor | np.ndarray | np.generic) for item in batch):
        if len({tuple(item.shape) for item in batch}) > 1:
            return [
                item if isinstance(item, torch.Tensor) else torch.from_numpy(np.array(item))
                for item in batch
            ]
        return _stack(batch, False, path)
    if batch and isinstance(batch[0], Mapping):
        return _mapping(batch, path, lambda column, key, below: _collate_any(column, below))
    if batch and isinstance(batch[0], Sequence) and not isinstance(batch[0], str):
        return _sequences(batch, path, _collate_any)
    return _collate(batch, False, (), path)


def default_decollate(batch: Batch, ignore: Sequence[str] = IGNORE) -> list[Tree]:
    """Splits a batch into B samples; the inverse of `default_collate`.

    Sample i holds item i of a tensor [B, ...] as a view [...]. Columns [B, 1] therefore need
    `cat_1dim=False` to be collated again.

    Args:
        batch: A structure of dicts, sequences and tensors or arrays [B, ...]; a list of strings is
            one column. A distribution becomes None in every sample of its structure; an empty dict
            or sequence is in every sample.
        ignore: Dict keys whose value is a sequence of B entries that are not split further, like
            keys with the prefix `collate_ignore`.

    Raises:
        SchemaError: the columns differ in B.
        TypeError: the type of a value is not supported.
    """
    samples = _decollate(batch, frozenset(ignore), "")
    if not isinstance(samples, _Same):
        return samples
    if samples.value is None:
        raise TypeError("cannot decollate a bare distribution")
    raise SchemaError("cannot decollate a batch without columns")


class _Same:
    """What is the same in every sample: None for a distribution, or an empty container."""

    def __init__(self, value: Tree) -> None:
        self.value = value

    def __getitem__(self, _: int) -> Tree:
        return copy(self.value)


def _decollate(batch: Any, ignore: frozenset[str], path: str) -> list[Tree] | _Same:
    """Returns the B samples, or one value for all."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        if batch.ndim == 0:
            raise SchemaError(f"cannot decollate a scalar{_at(path)}: it has no leading axis")
        return list(batch)
    if isinstance(batch, torch.distributions.Distribution):
        return _Same(None)
    if isinstance(batch, Mapping):
        columns = {
            key: _handed_on(value)
            if str(key) in ignore or str(key).startswith(IGNORE_PREFIX)
            else _decollate(value, ignore, f"{path}.{key}" if path else str(key))
            for key, value in batch.items()
        }
        same = {key: each.value for key, each in columns.items() if isinstance(each, _Same)}
        if len(same) == len(columns):
            return _Same(same)
        return [
            {key: column[i] for key, column in columns.items()}
            for i in range(_count(columns, path))
        ]
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return _sequence(batch, ignore, path) if len(batch) else _Same(batch)
    raise TypeError(f"cannot decollate{_at(path)} values of type {type(batch).__name__}")


def _handed_on(value: Tree) -> Any:
    if value is None:
        return _Same(None)
    return value if hasattr(value, "__len__") else list(value)


def _sequence(batch: Sequence[Tree], ignore: frozenset[str], path: str) -> list[Tree]:
    if all(isinstance(item, str) for item in batch):
        return list(batch)
    columns = {
        position: _decollate(item, ignore, f"{path}[{position}]")
        for position, item in enumerate(batch)
    }
    rows = [[column[i] for column in columns.values()] for i in range(_count(columns, path))]
    if isinstance(batch, Timestep):
        stacked: Any = batch  # with columns in place of values
        return [
            Timestep(obs, reward, done, info or {}, truncated=truncated, terminated=terminated)
            for (obs, reward, done, info), truncated, terminated in zip(
                rows, stacked.truncated, stacked.terminated, strict=True
            )
        ]
    return [type(batch)(*row) for row in rows] if hasattr(batch, "_fields") else rows


def _count(columns: Mapping[Any, Any], path: str) -> int:
    counted = {key: each for key, each in columns.items() if not isinstance(each, _Same)}
    lengths = {str(key): len(column) for key, column in counted.items()}
    if len(set(lengths.values())) != 1:
        raise SchemaError(f"columns must have the same length{_at(path)}: {lengths}")
    return next(iter(lengths.values()))
