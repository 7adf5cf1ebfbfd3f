"""Transitions of several environments, gathered step by step when a loop is written by hand."""

from __future__ import annotations

from dicore.data import Row


class TransitionList:
    """Keeps the transitions of each environment in order.

    Args:
        env_num: How many environments there are.
    """

    def __init__(self, env_num: int) -> None:
        self._rows: list[list[Row]] = [[] for _ in range(env_num)]
        self._ends: list[list[int]] = [[] for _ in range(env_num)]

    def append(self, env_id: int, transition: Row, *, end: bool) -> None:
        """Adds a transition; `end` says that it is its episode's last."""
        self._rows[env_id].append(transition)
        if end:
            self._ends[env_id].append(len(self._rows[env_id]) - 1)

    def drop_episode(self, env_id: int) -> int:
        """Forgets the running episode of an environment; returns how many steps that were."""
        ends = self._ends[env_id]
        start = ends[-1] + 1 if ends else 0
        dropped = len(self._rows[env_id]) - start
        del self._rows[env_id][start:]
        return dropped

    def to_trajectories(self) -> tuple[list[Row], list[int]]:
        """Returns all transitions, environment after environment, and the rows that end a piece."""
        rows: list[Row] = []
        ends: list[int] = []
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            pieces = {*env_ends, len(env_rows) - 1} if env_rows else set()
            ends += [len(rows) + index for index in sorted(pieces)]
            rows += env_rows
        return rows, ends

    def clear(self) -> None:
        """Forgets everything."""
        for env_rows, env_ends in zip(self._rows, self._ends, strict=True):
            env_rows.clear()
            env_ends.clear()

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows)
