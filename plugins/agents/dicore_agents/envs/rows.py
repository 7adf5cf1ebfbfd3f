"""Spaces of single agents as one space of all, whose values have a row for each agent.

Shapes: A agents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dicore.data import Tree
    from dicore.interfaces.env import Space

__all__ = ["ActionRows", "ObservationRows"]

Row: TypeAlias = npt.NDArray[np.generic]


class ObservationRows:
    """What agents see, as one array [A, ...].

    Arrays stay arrays, float32 or uint8; of what PettingZoo gives with masks,
    `{observation, action_mask}`, the first is meant, and other spaces become vectors (numbers of a
    choice one-hot). The row of an agent that is absent is zeros, which the bounds allow.

    Args:
        parts: What each agent sees.
        names: Its name, for errors.
        pad: Vectors of different lengths end with zeros; False: they are an error.
        turn: Append a last number (to arrays: a last channel) that is 1 if it is the agent's turn.

    Attributes:
        space: Box [A, ...].
        masked: Observations have masks.

    Raises:
        ConfigError: they are no arrays, or have different shapes.
    """

    def __init__(
        self, parts: Sequence[Space], names: Sequence[str], *, pad: bool, turn: bool = False
    ) -> None:
        self._parts = [_observed(part) for part in parts]
        self.masked = any("action_mask" in (getattr(each, "spaces", None) or ()) for each in parts)
        boxes = [
            _flat(part, name, turn) for part, name in zip(self._parts, names, strict=True)
        ]  # fmt: skip
        self._turn, self._shape = turn, _common_shape([box.shape for box in boxes], names, pad)
        self._nested = [*parts] != self._parts
        arrays = all(isinstance(part, spaces.Box) for part in self._parts)
        self._stacks = arrays and not turn and all(box.shape == self._shape for box in boxes)
        self._dtype: Any = np.float32
        if all(box.dtype == np.uint8 for box in boxes):
            self._dtype = np.uint8
        low, high = (np.zeros((len(boxes), *self._shape), self._dtype) for _ in "lh")
        with np.errstate(over="ignore"):  # bounds of float64 are infinite as float32
            for row, box in enumerate(boxes):
                inside = _inside(row, box.shape)
                low[inside], high[inside] = np.minimum(box.low, 0), np.maximum(box.high, 0)
        self.space = spaces.Box(low, high, dtype=self._dtype)

    def join(self, values: Sequence[Tree], to_play: int | None = None) -> Row:
        """Returns the rows of all agents; those whose value is None are zeros.

        Args:
            values: What each agent sees.
            to_play: Number of the agent whose turn it is.
        """
        if self._stacks and not any(value is None for value in values):
            plain = map(_observed_value, values) if self._nested else values
            return np.array([*plain], self._dtype)
        rows: Row = np.zeros((len(self._parts), *self._shape), self._dtype)
        for number, (part, value) in enumerate(zip(self._parts, values, strict=True)):
            if value is None:
                continue
            seen = _observed_value(value)
            if not isinstance(part, spaces.Box):
                seen = spaces.flatten(part, seen)
            seen = np.asarray(seen)
            if self._turn:
                rows[(*_inside(number, seen.shape[:-1]), seen.shape[-1])] = number == to_play
            rows[_inside(number, seen.shape)] = seen
        return rows


class ActionRows:
    """Actions of agents as one array: int64 [A] of choices, or float [A, ...].

    Args:
        parts: Action space of each agent.
        names: Its name, for errors.
        pad: Agents with fewer choices have a mask, and vectors of different lengths end with
            numbers that are ignored; False: both are errors.

    Attributes:
        space: MultiDiscrete [A], or Box [A, ...].
        sizes: Numbers of choices of the agents; None for a Box.

    Raises:
        ConfigError: actions are of other kinds, or differ.
    """

    def __init__(self, parts: Sequence[Space], names: Sequence[str], *, pad: bool) -> None:
        self.sizes: list[int] | None = None
        self._parts: list[Any] = [*parts]
        if all(isinstance(each, spaces.Discrete) for each in parts):
            self.sizes = [int(each.n) for each in self._parts]
            (most,) = _common_shape([(each,) for each in self.sizes], names, pad, "choices")
            self.space: Space = spaces.MultiDiscrete([most] * len(parts))
        elif all(isinstance(each, spaces.Box) for each in parts):
            shape = _common_shape([each.shape for each in self._parts], names, pad, "actions")
            low, high = (np.full((len(parts), *shape), end, np.float32) for end in (-1, 1))
            for row, each in enumerate(self._parts):
                inside = _inside(row, each.shape)
                low[inside], high[inside] = each.low, each.high
            self.space = spaces.Box(low, high, dtype=np.float32)
        else:
            told = {name: str(each) for name, each in zip(names, parts, strict=True)}
            raise ConfigError(
                f"env.env_id: the action of an agent is one choice (Discrete) or a Box, got {told}",
                hint="flatten the actions in the environment",
            )

        self._direct = not self.unequal and not any(getattr(each, "start", 0) for each in parts)

    @property
    def unequal(self) -> bool:
        """Agents have different numbers of choices."""
        return self.sizes is not None and len({*self.sizes}) > 1

    def split(self, action: Tree) -> list[Tree]:
        """Returns the action of each agent; a choice that it lacks counts as its last one."""
        if self.sizes is not None:
            if self._direct:
                return list(np.asarray(action).tolist())
            pairs = zip(action, self._parts, strict=True)
            return [min(int(each), int(part.n) - 1) + int(part.start) for each, part in pairs]
        return [
            np.asarray(action[_inside(row, part.shape)], part.dtype)
            for row, part in enumerate(self._parts)
        ]


def _inside(row: int, shape: Sequence[int]) -> Any:
    """Returns the index of an agent's values within its row."""
    return (row, *(slice(0, size) for size in shape))


def _observed(space: Space) -> Space:
    """Returns the part of an agent's observation space that is no mask."""
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping) and "observation" in parts:
        return _observed(parts["observation"])
    return space


def _observed_value(value: Tree) -> Tree:
    while isinstance(value, Mapping) and "observation" in value:
        value = value["observation"]
    return value


def _flat(space: Space, name: str, turn: bool) -> spaces.Box:
    """Returns a space as Box [..., channels], with a channel more that tells the turn."""
    box: Any = space
    if not isinstance(space, spaces.Box):
        with contextlib.suppress(NotImplementedError, ValueError, TypeError):
            box = spaces.flatten_space(space)
    if not isinstance(box, spaces.Box) or not box.shape:
        raise ConfigError(
            f"env.env_id: {name} sees {space}; expected arrays, or what gymnasium can flatten",
            hint="flatten it in the environment",
        )
    if not turn:
        return box
    ends = (np.full((*box.shape[:-1], 1), end, box.dtype) for end in (0, 1))
    low, high = (
        np.concatenate([bound, end], -1)
        for bound, end in zip((box.low, box.high), ends, strict=True)
    )  # fmt: skip
    return spaces.Box(low, high, dtype=box.dtype.type)


def _common_shape(
    shapes: Sequence[tuple[int, ...]], names: Sequence[str], pad: bool, what: str = "observations"
) -> tuple[int, ...]:
    """Returns the shape of a row, that of the largest agent."""
    if len({*shapes}) == 1:
        return shapes[0]
    flat = all(len(shape) == 1 for shape in shapes)
    if pad and flat:
        return (max(size for (size,) in shapes),)
    told = ", ".join(
        f"{name} {[*shape]}" for name, shape in zip(names, shapes, strict=True)
    )  # fmt: skip
    raise ConfigError(
        f"env.env_id: agents have {what} of different sizes: {told}",
        hint="set env.pad=true"
        if flat
        else "flatten them in the environment, then set env.pad=true",
    )
