"""Monitored results of training, kept as they come until somebody wants to see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dicore.errors import SchemaError

_NUMBERS = torch.Tensor | float | int | np.ndarray | np.number | np.bool_


class LogBuffer:
    """Keeps the named results of the updates since the last look.

    Results named `[scalars]x` are dicts of numbers, each a variable `x/key`; of those named
    `[histogram]x` the values of the last update are kept.

    Args:
        limit: Most updates kept; older ones go, so that nobody looking costs no memory.

    Attributes:
        names: The variables kept besides those two forms.
        histograms: Values by name.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.names: tuple[str, ...] = ()
        self.histograms: dict[str, Any] = {}
        self._limit = limit
        self._results: list[Mapping[str, Any]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Takes the results of one update; nothing is fetched from a device.

        Raises:
            SchemaError: what is named `[scalars]x` is no dict.
        """
        kept = {key: result[key] for key in self.names if key in result}
        for key in result:
            if key.startswith("["):
                self._add_form(key, result[key], kept)
        self._results.append(kept)
        if len(self._results) >= 2 * self._limit:
            del self._results[: -self._limit]

    def _add_form(self, key: str, value: Any, kept: dict[str, Any]) -> None:
        kept.pop(key, None)
        if key.startswith("[scalars]"):
            name = key.removeprefix("[scalars]")
            if not isinstance(value, Mapping):
                raise SchemaError(
                    f"'{key}' is a {type(value).__name__}, not a dict of numbers",
                    hint=f"call a single number '{name}', and name it in monitor_vars",
                )
            kept |= {f"{name}/{each}": number for each, number in value.items()}
        elif key.startswith("[histogram]"):
            self.histograms[key.removeprefix("[histogram]")] = value

    def _told(self) -> dict[str, list[Any]]:
        """Returns the values by variable: those of `names` first, then as they came."""
        told: dict[str, list[Any]] = {name: [] for name in self.names}
        for result in self._results:
            for name, value in result.items():
                if value is not None:  # as of an actor that is not updated every time
                    told.setdefault(name, []).append(value)
        return {name: values for name, values in told.items() if values}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns each variable's numbers, one per update that told it, fetched at once.

        A variable of several numbers per update counts as their mean; float64 [n].

        Raises:
            SchemaError: a variable is no number.
        """
        return {name: _array(name, values) for name, values in self._told().items()}

    def means(self) -> dict[str, float]:
        """Returns the mean of each variable over its finite values.

        An update that was left out, its loss being NaN, does not hide what the others were like.
        """
        return {name: finite_mean(numbers) for name, numbers in self.columns().items()}

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the numbers and tensors that wait to be shown, as `columns` does."""
        return {
            name: _array(name, values)
            for name, values in self._told().items()
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
        """Forgets the results."""
        self._results.clear()
        self.histograms = {}

    def __len__(self) -> int:
        return len(self._results)


def _array(name: str, values: list[Any]) -> npt.NDArray[np.float64]:
    """Returns one number per update; tensors are fetched from their device together."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) == len(values):
        return _fetched(tensors)
    if tensors:  # as after a resume: restored numbers, then tensors
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
    stacked = torch.stack(tensors).detach().cpu().double().numpy()  # numpy knows no bfloat16
    return stacked.reshape(len(tensors), -1).mean(1)


def _mean(name: str, value: Any) -> float:
    """Returns a number, or the mean of several."""
    try:
        return float(np.mean(np.asarray(value, np.float64)))
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"the monitored variable '{name}' is a {type(value).__name__}, not a number",
            hint="leave it out of monitor_vars",
        ) from error


def finite_mean(numbers: npt.NDArray[Any]) -> float:
    """Returns the mean of the finite ones of some numbers; NaN if there are none."""
    finite = numbers[np.isfinite(numbers)]
    return float(finite.mean()) if len(finite) else float("nan")
