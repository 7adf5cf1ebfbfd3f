"""The memory of agents, and the episodes that they act in.

Shapes: B workers (environments), T steps, K ready environments; `...` one item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, State, StateDict
from dicore.errors import UsageError
from dicore_compat.samplers.memory import Memory
from dicore_compat.samplers.trajectory import flat_keys, nested_keys

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["RunningEpisodes", "TrajectoryMemory"]

Array = npt.NDArray[Any]


class TrajectoryMemory:
    """A memory whose chunks come worker by worker, as collectors return them.

    Environments that step at their own pace do not end their trajectories together; a chunk is
    stored when each worker has one.

    Args:
        workers: B.
        steps: T.
        chunks: Chunks that the memory keeps.

    Attributes:
        memory: The whole chunks.
    """

    def __init__(self, workers: int, steps: int, chunks: int) -> None:
        self.memory = Memory(steps, chunks)
        self._workers = workers
        self._waiting: list[list[dict[str, Array]]] = [[] for _ in range(workers)]

    def add(self, trajectories: Batch) -> Iterator[None]:
        """Stores chunks as long as each worker has a trajectory; yields after each one.

        Args:
            trajectories: Columns [M, T + 1, ...], nested by the parts of their keys, and `env_id`
                int64 [M].

        Raises:
            UsageError: there are more environments than workers.
        """
        columns = flat_keys({k: v for k, v in trajectories.items() if k not in _STAMPS})
        for row, env in enumerate(np.asarray(trajectories["env_id"]).tolist()):
            if env >= self._workers:
                raise UsageError(
                    f"a trajectory of environment {env}, but policy.collect.n_sample is"
                    f" {self._workers}",
                    hint="set policy.collect.n_sample to env.collector_env_num, or leave it out",
                )
            self._waiting[env].append({key: np.array(each[row]) for key, each in columns.items()})
        while all(self._waiting):
            first = [queue.pop(0) for queue in self._waiting]
            self.memory.store({key: np.stack([each[key] for each in first]) for key in first[0]})
            yield

    def state_dict(self) -> StateDict:
        """Returns the chunks, and the trajectories that wait for those of other workers."""
        waiting = [[nested_keys(each) for each in queue] for queue in self._waiting]
        return {"memory": self.memory.state_dict(), "waiting": waiting}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        Raises:
            UsageError: it is the state of another number of workers.
        """
        if len(state["waiting"]) != self._workers:
            raise UsageError(
                f"the memory is of {len(state['waiting'])} environments, not {self._workers}"
            )
        self.memory.load_state_dict(state["memory"])
        self._waiting = [[flat_keys(dict(each)) for each in queue] for queue in state["waiting"]]


_STAMPS = ("env_id", "collect_iter", "end", "valid")
"""Columns of collectors that are not in the trajectories."""


class RunningEpisodes:
    """Masks and recurrent states of the environments that agents act in.

    Args:
        first: Returns the first recurrent states [K, ...] of K environments by agent; None for an
            agent that has none.
    """

    def __init__(self, first: Tree) -> None:
        self._first = first
        self._rows: dict[int, dict[str, Array]] = {}

    def of(self, env_id: Array) -> tuple[Array, dict[str, Array | None]]:
        """Returns masks float32 [K, 1] (0: an episode begins) and recurrent states by agent."""
        known = [self._rows.get(env) for env in env_id.tolist()]
        masks = np.array([[each is not None] for each in known], np.float32)
        hidden: dict[str, Array | None] = {}
        for name, first in self._first(len(known)).items():
            hidden[name] = None if first is None else np.array(first)
            for row, each in enumerate(known):
                if first is not None and each is not None:
                    hidden[name][row] = each[name]  # type: ignore[index]
        return masks, hidden

    def keep(self, env_id: Array, hidden: Mapping[str, Array | None]) -> None:
        """Remembers that environments have made a step, and the recurrent states after it."""
        for row, env in enumerate(env_id.tolist()):
            self._rows[env] = {n: np.array(h[row]) for n, h in hidden.items() if h is not None}

    def reset(self, env_id: Sequence[int] | None = None) -> None:
        """Forgets the episodes of some environments; None: of all."""
        for env in [*self._rows] if env_id is None else env_id:
            self._rows.pop(int(env), None)

    def state_dict(self) -> StateDict:
        """Returns the recurrent states by environment and agent."""
        return {str(env): dict(row) for env, row in self._rows.items()}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._rows = {
            int(env): {name: np.asarray(each) for name, each in row.items()}
            for env, row in state.items()
        }
