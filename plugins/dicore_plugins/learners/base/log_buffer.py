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

    def means(self) -> dict[str, float]:
        """Returns the mean of each monitored variable, fetched at once; over the finite values.

        An update that was left out, its loss being NaN, does not hide what the others were like.
        """
        means = {}
        for name in self.names:
            values = [result[name] for result in self._results if name in result]
            if values:
                means[name] = _mean(values)
        return means

    def values(self, name: str) -> npt.NDArray[Any]:
        """Returns one number per update that told `name`, in order; float64 [n]."""
        values = [result[name] for result in self._results if name in result]
        return _array(values) if values else np.empty(0)

    def clear(self) -> None:
        """Forgets the results."""
        self._results.clear()

    def __len__(self) -> int:
        return len(self._results)


def _array(values: list[Any]) -> npt.NDArray[Any]:
    """Returns one number per update; tensors are fetched from their device together."""
    if isinstance(values[0], torch.Tensor):
        stacked = torch.stack([value.detach().float().mean() for value in values])
        return stacked.cpu().numpy().astype(np.float64)
    return np.array([np.mean(value) for value in values], np.float64)


def _mean(values: list[Any]) -> float:
    numbers = _array(values)
    finite = numbers[np.isfinite(numbers)]
    return float(finite.mean()) if len(finite) else float("nan")
