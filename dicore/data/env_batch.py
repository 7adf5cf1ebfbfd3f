"""EnvBatch: values of several environments as stacked arrays; Timestep: the result of a step.

Shapes: K environments, `...` the shape of one observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dicore.data.tree import Tree, tree_row, tree_stack
from dicore.errors import SchemaError

V = TypeVar("V")


class _Fields(NamedTuple):
    obs: Any
    reward: Any
    done: bool
    info: dict[str, Any]


class Timestep(_Fields):
    """A tuple `(obs, reward, done, info)` of length 4; `done = terminated | truncated`.

    Args:
        obs: The observation after the step, also at the end of an episode.
        reward: The unscaled reward.
        done: The episode ended.
        info: The info dict of the environment.
        truncated: A time limit ended the episode; its last state is not terminal.
    """

    truncated: bool
    terminated: bool

    def __new__(
        cls,
        obs: Any,
        reward: Any,
        done: bool,
        info: dict[str, Any],
        *,
        truncated: bool = False,
        terminated: bool | None = None,
    ) -> Self:
        self = super().__new__(cls, obs, reward, done, info)
        self.truncated = bool(truncated)
        self.terminated = bool(done and not truncated) if terminated is None else bool(terminated)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (*self, self.truncated, self.terminated)


def _rebuild(
    obs: Any, reward: Any, done: bool, info: dict[str, Any], truncated: bool, terminated: bool
) -> Timestep:
    return Timestep(obs, reward, done, info, truncated=truncated, terminated=terminated)


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

    __slots__ = ("abnormal", "info", "obs", "reward", "terminated", "truncated")

    def __init__(
        self,
        obs: Tree,
        reward: npt.NDArray[np.float32],
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        info: list[dict[str, Any]],
        abnormal: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.obs = obs
        self.reward = reward
        self.terminated = terminated
        self.truncated = truncated
        self.info = info
        self.abnormal = abnormal

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

    def row(self, index: Any) -> Timestep:
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

    def __iter__(self) -> Iterator[Any]:
        yield from (self.obs, self.reward, self.done, self.info)


class EnvBatch(Mapping[int, Any], Generic[V]):
    """A mapping from env id to value, stored as stacked arrays.

    Args:
        env_id: int64 [K], unique.
        value: A tree of arrays [K, ...], or a `TimestepBatch`.
        position: `{env_id: row}` if the caller has it; None: made when it is first needed.
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
        """Returns an EnvBatch unchanged; stacks the values of another mapping, in its order."""
        return mapping if isinstance(mapping, EnvBatch) else cls.stack(mapping)

    @classmethod
    def stack(cls, mapping: Mapping[int, Any]) -> EnvBatch[Any]:
        """Stacks the values of a mapping; timesteps become a `TimestepBatch`."""
        if mapping.__class__ is not dict and not isinstance(mapping, Mapping):
            raise SchemaError(
                f"expected a mapping from env id to value, got a {type(mapping).__name__}",
                hint="pass {env_id: value} or an EnvBatch",
            )
        ids = np.fromiter(mapping.keys(), np.int64, len(mapping))
        values = list(mapping.values())
        if values and isinstance(values[0], Timestep):
            return EnvBatch(ids, TimestepBatch.stack(values))
        return EnvBatch(ids, tree_stack(values) if values else {})

    def with_value(self, value: Any) -> EnvBatch[Any]:
        """Returns a batch of other values [K, ...] for the same environments."""
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
