"""The one place where the core touches torch, and only when something else has imported it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dicore.errors import NonFiniteError, UsageError


def loaded_torch() -> Any | None:
    """Returns the torch module if this process has imported it already, else None."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    """Says whether `value` is a torch tensor, without importing torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def to_tensor(column: Any) -> Any:
    """Turns one column into a tensor that shares its memory on the CPU; tensors pass through.

    Raises:
        UsageError: torch has not been imported by the caller.
    """
    torch = loaded_torch()
    if torch is None:
        raise UsageError("torch is not imported", hint="write 'import torch' before to_torch()")
    return column if isinstance(column, torch.Tensor) else torch.from_numpy(np.asarray(column))


def stack(values: list[Any]) -> Any:
    """Stacks equal leaves on a new first axis: tensors to a tensor, all else to an array.

    Python and numpy floats of double precision become float32, as every column of dicore does.

    Raises:
        NonFiniteError: a number is finite but too large for float32.
    """
    if is_tensor(values[0]):
        torch = loaded_torch()
        assert torch is not None
        return torch.stack(values)
    out = np.stack([np.asarray(value) for value in values])
    return _single(out) if out.dtype == np.float64 else out


def _single(array: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    try:
        with np.errstate(over="raise"):
            return array.astype(np.float32)
    except FloatingPointError:
        finite = array[np.isfinite(array)]
        worst = finite[np.argmax(np.abs(finite))]
        raise NonFiniteError(f"{worst:g} is too large for float32") from None
