"""Storage of a collector: a time-major block of transitions, and episode statistics.

Shapes: T steps, N environments, `...` one item.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Batch
from dicore.data.tree import is_tensor
from dicore.errors import SchemaError

__all__ = ["Block", "EpisodeStatistics"]


class Block:
    """Columns [T, N, ...] of transitions, with the masks `end` and `valid`.

    Args:
        steps: T.
        num_envs: N.

    Attributes:
        end: bool [T, N]; the last step of an episode, terminated or truncated.
        valid: bool [T, N]; False for the dropped steps of abnormal episodes.
    """

    def __init__(self, steps: int, num_envs: int) -> None:
        self.steps = steps
        self.num_envs = num_envs
        self.end: npt.NDArray[np.bool_] = np.zeros((steps, num_envs), np.bool_)
        self.valid: npt.NDArray[np.bool_] = np.ones((steps, num_envs), np.bool_)
        self.all_valid = True
        self._spec: Any = None
        self._leaves: list[npt.NDArray[Any]] = []
        self._items: list[tuple[str, npt.NDArray[Any]]] | None = None

    def write(self, t: int, row: dict[str, Any]) -> None:
        """Writes the columns [N, ...] of step `t`; the first call fixes keys, dtypes and shapes.

        Raises:
            SchemaError: the columns differ from those of the first call.
        """
        if self._spec is None:
            self._allocate(row)
        try:
            if self._items is not None:
                for key, column in self._items:
                    column[t] = row[key]
                return
            leaves, spec = optree.tree_flatten(row)
            if spec != self._spec:
                raise SchemaError(f"step {t}: the transition columns changed to {sorted(row)}")
            for column, leaf in zip(self._leaves, leaves, strict=True):
                column[t] = leaf
        except (ValueError, KeyError) as error:
            raise SchemaError(f"step {t}: the transition columns changed: {error!r}") from error

    def _allocate(self, row: dict[str, Any]) -> None:
        if not isinstance(row, dict):
            raise SchemaError(
                f"process_transition must return a dict of columns; got {type(row).__name__}"
            )
        leaves, self._spec = optree.tree_flatten(row)
        arrays = [leaf.cpu().numpy() if is_tensor(leaf) else np.asarray(leaf) for leaf in leaves]
        for array in arrays:
            if array.ndim == 0 or len(array) != self.num_envs or array.dtype == object:
                raise SchemaError(
                    "process_transition must return columns of numbers with one entry per"
                    f" environment ({self.num_envs}); got {array.dtype}{list(array.shape)}"
                )
        self._leaves = [
            np.empty(
                (self.steps, *array.shape),
                np.float32 if array.dtype == np.float64 else array.dtype,
            )
            for array in arrays
        ]
        self._items = self._flat_columns(row)

    def _flat_columns(self, row: dict[str, Any]) -> list[tuple[str, npt.NDArray[Any]]] | None:
        """Returns the columns by key, in the order of `row`; None where some are nested."""
        if any(isinstance(value, dict | list | tuple) for value in row.values()):
            return None
        by_key = optree.tree_unflatten(self._spec, self._leaves)
        return [(key, by_key[key]) for key in row]

    def carry(self, previous: Block, rows: int) -> None:
        """Copies the last `rows` rows of `previous` to the start of this block."""
        self._spec = previous._spec
        self._leaves = [
            np.empty((self.steps, *leaf.shape[1:]), leaf.dtype) for leaf in previous._leaves
        ]
        if previous._items is not None:
            self._items = self._flat_columns(dict(previous._items))
        if rows:
            for target, source in zip(self._leaves, previous._leaves, strict=True):
                target[:rows] = source[-rows:]
            self.end[:rows] = previous.end[-rows:]
            self.valid[:rows] = previous.valid[-rows:]
            self.all_valid = bool(self.valid[:rows].all())

    def drop(self, t: int, env: int) -> None:
        """Marks the current episode of an environment, up to step `t`, as invalid.

        The step itself becomes an end, so that no n-step sample spans it.
        """
        ends = np.flatnonzero(self.end[:t, env])
        start = int(ends[-1]) + 1 if len(ends) else 0
        self.valid[start : t + 1, env] = False
        self.end[t, env] = True
        self.all_valid = False

    def batch(self) -> Batch:
        """Returns the columns [T, N, ...] and `end`, as views."""
        columns: dict[str, Any] = optree.tree_unflatten(self._spec, self._leaves)
        return Batch({**columns, "end": self.end}, self.steps)

    def state_dict(self, rows: int) -> dict[str, Any]:
        """Returns the last `rows` rows."""
        columns = optree.tree_unflatten(self._spec, [leaf[-rows:].copy() for leaf in self._leaves])
        return {"columns": columns, "end": self.end[-rows:], "valid": self.valid[-rows:]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Block:
        """Returns a block with the rows that `state_dict` returned."""
        end = np.asarray(state["end"])
        block = cls(*end.shape)
        leaves, block._spec = optree.tree_flatten(dict(state["columns"]))
        block._leaves = [np.asarray(leaf) for leaf in leaves]
        block._items = block._flat_columns(state["columns"])
        block.end, block.valid = end.copy(), np.asarray(state["valid"]).copy()
        block.all_valid = bool(block.valid.all())
        return block


class EpisodeStatistics:
    """Returns and lengths of finished episodes, and the number of samples collected meanwhile.

    Attributes:
        train_sample_count: Samples in this window.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Starts a new window."""
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self.train_sample_count = 0
        self._start = time.perf_counter()

    @property
    def episode_count(self) -> int:
        """Episodes in this window."""
        return len(self._returns)

    def add(self, info: Mapping[str, Any]) -> None:
        """Adds the last info of an episode.

        Args:
            info: `eval_episode_return` and `episode_length` of dicore's managers, or `episode`
                with `r` and `l` of gymnasium's `RecordEpisodeStatistics`; an unknown length counts
                as 0.
        """
        episode = info.get("episode")
        recorded = episode if isinstance(episode, Mapping) else {}
        self._returns.append(float(info.get("eval_episode_return", recorded.get("r", np.nan))))
        self._lengths.append(int(info.get("episode_length", recorded.get("l", 0))))

    def state_dict(self) -> dict[str, Any]:
        """Returns the episodes and the number of samples in this window."""
        return {
            "returns": list(self._returns),
            "lengths": [float(each) for each in self._lengths],
            "train_sample_count": self.train_sample_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; the clock of the window starts now."""
        self.clear()
        self._returns = [float(each) for each in state["returns"]]
        self._lengths = [int(each) for each in state["lengths"]]
        self.train_sample_count = int(state.get("train_sample_count", 0))

    def summary(self) -> dict[str, float]:
        """Returns counts, rates per second, and mean, std, max and min of the returns."""
        seconds = max(time.perf_counter() - self._start, 1e-9)
        returns = np.asarray(self._returns)
        steps, samples = sum(self._lengths), self.train_sample_count
        return {
            "episode_count": float(len(returns)),
            "envstep_count": float(steps),
            "train_sample_count": float(samples),
            "avg_envstep_per_episode": steps / len(returns),
            "avg_train_sample_per_episode": samples / len(returns),
            "avg_envstep_per_sec": steps / seconds,
            "avg_train_sample_per_sec": samples / seconds,
            "avg_episode_per_sec": len(returns) / seconds,
            "collect_time": seconds,
            "reward_mean": float(returns.mean()),
            "reward_std": float(returns.std()),
            "reward_max": float(returns.max()),
            "reward_min": float(returns.min()),
        }
