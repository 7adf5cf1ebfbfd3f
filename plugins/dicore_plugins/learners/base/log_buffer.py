"""Monitored results of updates, stored without conversion until they are logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dicore.errors import SchemaError

_NUMBERS = torch.Tensor | float | int | np.ndarray | np.number | np.bool_


class LogBuffer:
    """Stores the monitored results of the updates since the last log line.

    A result `[scalars]x` is a dict of numbers, each stored as variable `x/key`. Of a result
    `[histogram]x`, the values of the last update are stored.

    Args:
        limit: Number of updates to store; older ones are dropped, which bounds the memory.

    Attributes:
        names: Variables to store besides `[scalars]` and `[histogram]` results.
        histograms: Values of the last update by name.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.names: tuple[str, ...] = ()
        self.histograms: dict[str, Any] = {}
        self._limit = limit
        self._results: list[Mapping[str, Any]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Stores the results of one update; nothing is copied from a device.

        Raises:
            SchemaError: a result `[scalars]x` is not a dict.
        """
        values = {key: result[key] for key in self.names if key in result}
        for key in result:
            if key.startswith("["):
                self._add_form(key, result[key], values)
        self._results.append(values)
        if len(self._results) >= 2 * self._limit:
            del self._results[: -self._limit]

    def _add_form(self, key: str, value: Any, values: dict[str, Any]) -> None:
        values.pop(key, None)
        if key.startswith("[scalars]"):
            name = key.removeprefix("[scalars]")
            if not isinstance(value, Mapping):
                raise SchemaError(
                    f"'{key}' is a {type(value).__name__}, not a dict of numbers",
                    hint=f"return a single number as '{name}' and add it to monitor_vars",
                )
            values |= {f"{name}/{each}": number for each, number in value.items()}
        elif key.startswith("[histogram]"):
            self.histograms[key.removeprefix("[histogram]")] = value

    def _by_variable(self) -> dict[str, list[Any]]:
        """Returns the values by variable: those of `names` first."""
        columns: dict[str, list[Any]] = {name: [] for name in self.names}
        for result in self._results:
            for name, value in result.items():
                if value is not None:  # e.g. an actor loss of delayed policy updates
                    columns.setdefault(name, []).append(value)
        return {name: values for name, values in columns.items() if values}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns each variable's numbers, one per update that has it: float64 [n].

        Several numbers per update are averaged. Tensors are copied from their device together.

        Raises:
            SchemaError: a variable is not a number.
        """
        return {name: _array(name, values) for name, values in self._by_variable().items()}

    def means(self, columns: Mapping[str, npt.NDArray[Any]] | None = None) -> dict[str, float]:
        """Returns the mean of each variable over its finite values, without skipped updates.

        Args:
            columns: The result of `columns`, if it was called before.
        """
        columns = self.columns() if columns is None else columns
        return {name: _finite_mean(numbers) for name, numbers in columns.items()}

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the numbers and tensors that are not logged yet, in the form of `columns`."""
        return {
            name: _array(name, values)
            for name, values in self._by_variable().items()
            if all(isinstance(value, _NUMBERS) for value in values)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        length = max(map(len, state.values()), default=0)
        self._results = [
            {name: float(column[i]) for name, column in state.items() if i < len(column)}
            for i in range(length)
        ]

    def clear(self) -> None:
        """Drops the results."""
        self._results.clear()
        self.histograms = {}

    def __len__(self) -> int:
        return len(self._results)


def _array(name: str, values: list[Any]) -> npt.NDArray[np.float64]:
    """Returns one number per update; tensors are copied from their device together."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) == len(values):
        return _fetched(tensors)
    if tensors:  # after a resume: restored numbers, then tensors
        fetched = iter(_fetched(tensors))
        return np.array([
            next(fetched) if isinstance(value, torch.Tensor) else _mean(name, value)
            for value in values
        ])  # fmt: skip
    if {value.__class__ for value in values} <= {float, int}:
        return np.array(values, np.float64)
    return np.array([_mean(name, value) for value in values])


def _fetched(tensors: list[torch.Tensor]) -> npt.NDArray[np.float64]:
    """Returns the mean of each tensor."""
    first = tensors[0]
    if any(each.shape != first.shape or each.device != first.device for each in tensors):
        tensors = [each.float().mean().cpu() for each in tensors]
    stacked = torch.stack(tensors).detach().cpu().double().numpy()  # NumPy has no bfloat16
    return stacked.reshape(len(tensors), -1).mean(1)


def _mean(name: str, value: Any) -> float:
    """Returns a number as float, or the mean of several."""
    try:
        return float(np.mean(np.asarray(value, np.float64)))
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"the monitored variable '{name}' is a {type(value).__name__}, not a number",
            hint="remove it from monitor_vars",
        ) from error


def _finite_mean(numbers: npt.NDArray[Any]) -> float:
    """Returns the mean of the finite numbers; NaN if there are none."""
    finite = numbers[np.isfinite(numbers)]
    return float(finite.mean()) if len(finite) else float("nan")
