"""Actions on their way to environments: legal or refused, before any environment moves.

Shapes: K environments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dicore.errors import ActionError


class Discrete:
    """Checks actions of a Discrete space."""

    def __init__(self, space: Any) -> None:
        self._low = int(space.start)
        self._high = self._low + int(space.n) - 1

    def __call__(self, actions: Any, env_ids: Sequence[int]) -> Iterable[Any]:
        """Returns the actions one by one.

        Raises:
            ActionError: one is not an integer of the space.
        """
        array = actions if actions.__class__ is np.ndarray else np.asarray(actions)
        if array.dtype.kind not in "iu" or array.ndim != 1:
            array = self._convert(array, env_ids)
        values = array.tolist()
        if values and (min(values) < self._low or max(values) > self._high):
            row = next(i for i, v in enumerate(values) if not self._low <= v <= self._high)
            raise ActionError(
                f"env {env_ids[row]}: action {values[row]} is not in {self._low}..{self._high}",
                context={"env_id": env_ids[row], "action": values[row]},
            )
        iterable: Iterable[Any] = array  # of np.int64: gymnasium takes them quicker than ints
        return iterable

    def _convert(self, array: Any, env_ids: Sequence[int]) -> Any:
        if array.shape == (len(env_ids), 1) and array.dtype.kind in "iu":
            return array[:, 0]
        raise ActionError(
            f"actions {array.dtype}{list(array.shape)} for {len(env_ids)} environments with"
            f" discrete actions; wanted int64[{len(env_ids)}]"
        )


class Shaped:
    """Checks actions of Box and other spaces of arrays; boxes are clipped and counted.

    Attributes:
        clipped: Actions so far that lay outside of their box.
    """

    def __init__(self, space: Any) -> None:
        self._shape = tuple(space.shape)
        self._dtype = np.dtype(space.dtype)
        self._box = type(space).__name__ == "Box"
        if self._box:
            self._low, self._high = space.low, space.high
        elif type(space).__name__ == "MultiDiscrete":
            self._low, self._high = space.start, space.start + space.nvec - 1
        else:
            self._low, self._high = np.zeros(self._shape), np.ones(self._shape)
        self.clipped = 0

    def __call__(self, actions: Any, env_ids: Sequence[int]) -> Iterable[Any]:
        """Returns the actions one by one.

        Raises:
            ActionError: one is not finite, has another shape, or is outside of a discrete space.
        """
        array = np.asarray(actions)
        if array.shape != (len(env_ids), *self._shape):
            raise ActionError(
                f"actions {array.dtype}{list(array.shape)} for {len(env_ids)} environments;"
                f" wanted {self._dtype}[{len(env_ids)}, {', '.join(map(str, self._shape))}]"
            )
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            raise ActionError(
                f"env {env_ids[row]}: action {array[row]} is not finite",
                context={"env_id": env_ids[row]},
            )
        outside = ((array < self._low) | (array > self._high)).reshape(len(array), -1).any(1)
        if outside.any():
            if not self._box:
                row = int(np.flatnonzero(outside)[0])
                raise ActionError(
                    f"env {env_ids[row]}: action {array[row]} is outside of its space",
                    context={"env_id": env_ids[row]},
                )
            self.clipped += int(outside.sum())
            array = np.clip(array, self._low, self._high)
        return list(array.astype(self._dtype, copy=False))


def checker_of(space: Any) -> Any:
    """Returns the check of a space's actions; spaces without arrays are left to the env."""
    if type(space).__name__ == "Discrete":
        return Discrete(space)
    if getattr(space, "shape", None) is not None and getattr(space, "dtype", None) is not None:
        return Shaped(space)
    return lambda actions, env_ids: list(actions)
