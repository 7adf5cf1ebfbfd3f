"""Environments in worker processes, several in each.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Tree, tree_map
from dicore.errors import EnvSpaceError
from dicore_plugins.env_managers.env_pool import Results
from dicore_plugins.env_managers.episodes import shape_of
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.slots import Came, Slot, SlotPool
from dicore_plugins.env_managers.subprocess.channel import dumps
from dicore_plugins.env_managers.subprocess.crew import Crew
from dicore_plugins.env_managers.subprocess.output import file_of
from dicore_plugins.env_managers.subprocess.results import Joined
from dicore_plugins.env_managers.transports.interface import EnvLayout
from dicore_plugins.env_managers.workers import Answer, BaseWorker, Request

__all__ = ["ProcessPool"]

_LOG = logging.getLogger("dicore.env")
_APART = 2
"""Buffer of steps of some environments; those of all write to 0 and 1 in turn."""
_WHOLE = (b"\0", b"\1")
_DISCARD_S = 1.0


class ProcessPool(SlotPool):
    """The environments of a manager, in worker processes; see `SlotPool`.

    The environments of a worker that are sent an action together answer together, and wait while
    one of them is reset.

    Args:
        env_fn: One factory per environment.
        cfg: The manager's options; see `SyncSubprocessConfig`.
    """

    _buffer = 0
    _crew: Crew

    def _new_crew(self) -> Crew:
        return Crew(self.env_fn, self.cfg, self._output_of)

    def _output_of(self, ids: Sequence[int]) -> Path | None:
        return None if self.output is None else file_of(self.output, self.role, ids)

    def launch(self) -> list[float]:
        """Makes all environments, in all workers at the same time; returns their time limits."""
        limits = super().launch()
        shape: tuple[int, ...] = ()
        with contextlib.suppress(EnvSpaceError):
            shape = shape_of(self.space("reward_space", "rew_space"))
        space = self.space("observation_space", "obs_space")
        self._crew.new_transport(
            EnvLayout(len(self), space, self.space("action_space", "act_space"), shape)
        )
        return limits

    # ---- reset

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, object]]
    ) -> list[Tree]:
        """Resets environments, and tells their workers of the next reset, which they begin."""
        found = super().reset(ids, seeds, params)
        ahead = self.cfg.auto_reset and self.cfg.reset_inplace and not self._layered
        if ahead and hasattr(self, "next_reset"):
            for slot in map(self._slots.__getitem__, ids):
                slot.ahead = slot.worker.due[slot.env_id] = self.next_reset(slot.env_id)
        return found

    def _first(self, slot: Slot, result: Answer) -> Tree:
        if result is None:
            return self._crew.transport.reset_obs(slot.env_id), {}
        if isinstance(result, RemoteError):
            return result
        if result.states:
            slot.worker.states[slot.env_id] = result.states
        stored = result.stored
        return (self._crew.transport.reset_obs(slot.env_id), {}) if stored else result.value

    # ---- step

    def _post(
        self, ids: list[int], actions: Iterable[Tree], *, whole: bool
    ) -> list[tuple[BaseWorker, Request]]:
        """Sends actions to the workers, stored or in the message."""
        given: Any = actions if hasattr(actions, "__len__") else list(actions)
        stored = self._crew.transport.put_actions(slice(None) if whole else ids, given)
        if whole:
            self._buffer = 1 - self._buffer
        asked: list[tuple[BaseWorker, Request]] = []
        parts: Iterable[tuple[BaseWorker, Sequence[int]]] = (
            [(worker, worker.ids) for worker in self._crew.workers] if whole else self._parts(ids)
        )
        for worker, rows in parts:
            due, each = worker.due, worker.ids if whole else [ids[row] for row in rows]
            if whole and stored and not due:
                body = _WHOLE[self._buffer]
            else:
                own = None if stored else [given[row] for row in rows]
                where = (None, self._buffer) if whole else (each, _APART)
                body = dumps(("step_some", (*where, own, due)))
                worker.due = {}
            asked.append((worker, worker.post("step", ids=each, body=body)))
        return asked

    def _parts(self, ids: Sequence[int]) -> Iterable[tuple[BaseWorker, Sequence[int]]]:
        """Returns the workers of some environments, with the rows of those that are not lost."""
        rows_of: dict[BaseWorker, list[int]] = {}
        for row, env_id in enumerate(ids):
            slot = self._slots[env_id]
            if not slot.lost:
                rows_of.setdefault(slot.worker, []).append(row)
        return rows_of.items()

    def _joined(self, ids: list[int], came: Iterable[Came], *, whole: bool) -> Results:
        """Joins what is stored and what the answers say."""
        joined, transport = Joined(ids), self._crew.transport
        buffer = self._buffer if whole else _APART
        rows = {} if whole else {env_id: row for row, env_id in enumerate(ids)}
        for request, answer in came:
            if not answer:
                continue
            row_of = (
                dict(enumerate(request.ids))
                if whole
                else {
                    at: rows[env_id]
                    for at, env_id in enumerate(request.ids)
                    if env_id in rows and self._slots[env_id].number == request.number
                }
            )
            if isinstance(answer, RemoteError):
                joined.raised |= dict.fromkeys(row_of.values(), answer)
            else:
                joined.add(row_of, answer, transport.ended(request.ids, buffer))
        for env_id, result in joined.resets:
            slot = self._slots[env_id]
            if slot.ahead is not None:
                slot.again, slot.ahead = (slot.ahead, result), None
        obs, rewards = joined.columns(transport.columns(slice(None) if whole else ids, buffer))
        if self.cfg.copy_on_get and obs.__class__ is not list:
            obs = tree_map(np.copy, obs)
        return ids, obs, rewards, joined.infos, joined.ended, joined.raised

    # ---- discard

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it, with its worker if that has no other."""
        worker, slot = self._crew.of[env_id], self._slots[env_id]
        slot.made, slot.again = False, None
        if not worker.alive:
            return
        if len(worker.ids) == 1:
            worker.dismiss()
            worker.leave(time.monotonic() + _DISCARD_S)
            return
        try:
            worker.value(worker.post("discard", env_id))
        except RemoteError as error:
            _LOG.warning("closing env %d failed: %s", env_id, error.message)
            worker.end()

    def worker_pids(self) -> dict[int, int]:
        """Returns the ids of the processes in which environments run, by env id."""
        made = self._crew.of.items() if "_crew" in self.__dict__ else ()
        return {env_id: worker.pid for env_id, worker in made if worker.alive}
