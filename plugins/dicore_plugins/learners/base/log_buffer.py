"""Monitored results of training, kept as they come until somebody wants to see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


class LogBuffer:
    """Keeps the named results of the updates since the last look.

    Args:
        limit: Most updates kept; older ones go, so that nobody looking costs no memory.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.names: tuple[str, ...] = ()
        self._limit = limit
        self._results: list[Mapping[str, Any]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Takes the results of one update; nothing is fetched from a device."""
        self._results.append({key: result[key] for key in self.names if key in result})
        if len(self._results) >= 2 * self._limit:
            del self._results[: -self._limit]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns each variable's numbers, one per update that told it, fetched at once.

        A variable of several numbers per update counts as their mean; float64 [n].
        """
        told = {
            name: [result[name] for result in self._results if name in result]
            for name in self.names
        }
        return {name: _array(values) for name, values in told.items() if values}

    def means(self) -> dict[str, float]:
        """Returns the mean of each variable over its finite values.

        An update that was left out, its loss being NaN, does not hide what the others were like.
        """
        return {name: finite_mean(numbers) for name, numbers in self.columns().items()}

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the numbers and tensors that wait to be shown, as `columns` does."""
        plain = torch.Tensor | float | int | np.ndarray
        told = {
            name: [result[name] for result in self._results if name in result]
            for name in self.names
        }
        return {
            name: _array(values)
            for name, values in told.items()
            if values and isinstance(values[0], plain)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        length = max(map(len, state.values()), default=0)
        self._results = [
            {name: float(column[i]) for name, column in state.items() if i < len(column)}
            for i in range(length)
        ]

    def clear(self) -> None:
        """Forgets the results."""
        self._results.clear()

    def __len__(self) -> int:
        return len(self._results)


def _array(values: list[Any]) -> npt.NDArray[Any]:
    """Returns one number per update; tensors are fetched from their device together."""
    kinds = {value.__class__ for value in values}
    if kinds <= {float, int, np.ndarray}:
        return np.asarray(values, np.float64).reshape(len(values), -1).mean(1)
    if kinds != {torch.Tensor}:  # restored numbers before tensors
        restored = [value for value in values if isinstance(value, float)]
        return np.concatenate([np.array(restored), _array(values[len(restored) :])])
    if any(value.shape != values[0].shape for value in values):
        values = [value.float().mean() for value in values]
    stacked = torch.stack(values).detach().cpu().numpy()
    return stacked.reshape(len(values), -1).mean(1, dtype=np.float64)


def finite_mean(numbers: npt.NDArray[Any]) -> float:
    """Returns the mean of the finite ones of some numbers; NaN if there are none."""
    finite = numbers[np.isfinite(numbers)]
    return float(finite.mean()) if len(finite) else float("nan")
