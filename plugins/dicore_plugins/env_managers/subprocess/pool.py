"""Environments in worker processes, several in each.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

import contextlib
import logging
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import State, Tree, tree_map
from dicore.errors import EnvSpaceError
from dicore_plugins.env_managers.env_pool import EnvPool, Results
from dicore_plugins.env_managers.episodes import shape_of
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.channel import dumps
from dicore_plugins.env_managers.subprocess.crew import Crew, WorkerLostError, create_error
from dicore_plugins.env_managers.subprocess.output import file_of
from dicore_plugins.env_managers.subprocess.process import Request, Worker
from dicore_plugins.env_managers.subprocess.results import Joined, first_rows
from dicore_plugins.env_managers.transports.interface import EnvLayout

__all__ = ["ProcessPool"]

_LOG = logging.getLogger("dicore.env")
_APART = 2
"""Buffer of steps of some environments; those of all write to 0 and 1 in turn."""
_WHOLE = (b"\0", b"\1")
WATCH_S = 0.1
_DISCARD_S = 1.0


class ProcessPool(EnvPool):
    """The environments of a manager, in worker processes.

    A worker is started when it is first needed and again after it was lost; its environments then
    wait for a reset. Sequence numbers tell answers apart, so that one that comes late is dropped.

    A manager in lockstep needs `step`. One that is asynchronous calls `send`, which returns at
    once, and `wait`, which returns the timesteps that have come since, at least a number of them
    unless the time is over. An environment has at most one pending action; the environments of a
    worker that are sent an action together answer together.

    Args:
        env_fn: One factory per environment.
        cfg: The manager's options; see `SyncSubprocessConfig`.

    Attributes:
        output: Folder for what the environments print; None: they print to the terminal.
        role: That of the episodes, for the names of these files.
    """

    output: Path | None = None
    role = "collector"

    def __init__(self, env_fn: Sequence[Callable[[], Any]], cfg: Any) -> None:
        super().__init__(env_fn, cfg)
        self._made_crew: Crew | None = None
        self._spaces: dict[str, Any] = {}
        self._made: set[int] = set()
        self._lost: set[int] = set()
        self._buffer = 0
        self._is_stateful = False
        self._resets_ahead = bool(cfg.auto_reset and cfg.reset_inplace)
        self._sent: dict[int, tuple[Worker, int] | None] = {}
        self._due: dict[int, dict[int, Any]] = {}
        self._ahead: dict[int, tuple[int, Mapping[str, Any]]] = {}
        self._ready: dict[int, tuple[int, Mapping[str, Any], Any]] = {}

    # ---- workers

    @property
    def _crew(self) -> Crew:
        """The workers, which are made on first use; none is started."""
        if self._made_crew is None:
            self._made_crew = Crew(self.env_fn, self.cfg, self._output_of)
        return self._made_crew

    def _output_of(self, ids: Sequence[int]) -> Path | None:
        return None if self.output is None else file_of(self.output, self.role, ids)

    def launch(self) -> list[float]:
        """Makes all environments, in all workers at the same time; returns their time limits."""
        crew = self._crew
        for worker, error in crew.launch(crew.workers).items():
            raise create_error(worker, error) from (error if error.trace else None)
        self._made, self._lost = set(self.ids), set(self.ids)
        self._is_stateful = crew.has_layers()
        shape: tuple[int, ...] = ()
        with contextlib.suppress(EnvSpaceError):
            shape = shape_of(self.space("reward_space", "rew_space"))
        space = self.space("observation_space", "obs_space")
        crew.new_transport(
            EnvLayout(len(self), space, self.space("action_space", "act_space"), shape)
        )
        return [limit for worker in crew.workers for limit in worker.time_limits]

    def _value(self, worker: Worker, request: Request) -> Any:
        try:
            return worker.value(request)
        except RemoteError as error:
            self._forget(worker)
            raise error.restored() from error

    def _forget(self, worker: Worker) -> None:
        """Marks the environments of a worker that is not alive as lost."""
        if not worker.alive:
            self._lost.update(worker.ids)
            for env_id in worker.ids:
                self._ahead.pop(env_id, None)
                self._ready.pop(env_id, None)
            self._due.pop(worker.ids[0], None)

    # ---- reset and step

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """Resets environments once; what a worker has reset ahead is there already."""
        found: list[Any] = [None] * len(ids)
        rows_of: dict[Worker, list[int]] = {}
        for row, env_id in enumerate(ids):
            self._sent.pop(env_id, None)
            ready = self._ready.pop(env_id, None)
            if ready is not None and ready[0] == seeds[row] and ready[1] is params[row]:
                found[row] = self._reset_result(env_id, ready[2])
            else:
                rows_of.setdefault(self._crew.of[env_id], []).append(row)
        if rows_of:
            self._reset_now(rows_of, (ids, seeds, params), found)
        if self._resets_ahead and not self._is_stateful and hasattr(self, "next_reset"):
            for env_id in ids:
                ahead = self._ahead[env_id] = self.next_reset(env_id)
                self._due.setdefault(self._crew.of[env_id].ids[0], {})[env_id] = ahead
        return found

    def _reset_now(
        self, rows_of: Mapping[Worker, list[int]], columns: Tree, found: list[Any]
    ) -> None:
        failed = self._crew.launch(rows_of)
        asked = []
        for worker, rows in rows_of.items():
            if worker in failed:
                for row in rows:
                    found[row] = failed[worker]
            else:
                parts = ([column[row] for row in rows] for column in columns)
                asked.append((worker, rows, worker.post("reset_some", *parts)))
        for worker, rows, request in asked:
            try:
                results = worker.value(request)
            except RemoteError as error:
                self._forget(worker)
                results = [error] * len(rows)
            for row, result in zip(rows, results, strict=True):
                env_id = columns[0][row]
                found[row] = self._reset_result(env_id, result)
                if not isinstance(result, RemoteError):
                    self._lost.discard(env_id)

    def _reset_result(self, env_id: int, result: Any) -> Any:
        """Returns what `reset` of an environment returned, or its exception."""
        if result is None:
            return self._crew.transport.reset_obs(env_id), {}
        if isinstance(result, RemoteError):
            return result
        if result.states:
            self._crew.of[env_id].states[env_id] = result.states
        return (self._crew.transport.reset_obs(env_id), {}) if result.stored else result.value

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        """Steps environments and waits for all of them; lost ones fail until they are reset."""
        whole = ids is self.ids and not self._lost
        buffer = _APART
        if whole:
            buffer = self._buffer = 1 - self._buffer
        asked = self._post(ids, actions, buffer, whole=whole)
        answers: list[tuple[Sequence[int], bytes | RemoteError]] = []
        try:
            for worker, rows, request in asked:
                worker.early.clear()
                answers.append((rows, self._answer(worker, request)))
        except BaseException:  # Ctrl-C: the answers to come are of no use
            self._lost.update(ids)
            raise
        if not whole:
            lost = [row for row, env_id in enumerate(ids) if env_id in self._lost]
            answers.append((lost, RemoteError("WorkerLost", "its worker was lost")))
        return self._results(ids, slice(None) if whole else ids, buffer, answers)

    def _post(
        self, ids: list[int], actions: Iterable[Any], buffer: int, *, whole: bool
    ) -> list[tuple[Worker, Sequence[int], Request]]:
        """Sends actions to the workers; returns the rows and the request of each."""
        if not hasattr(actions, "__len__"):
            actions = list(actions)
        stored = self._crew.transport.put_actions(slice(None) if whole else ids, actions)
        asked: list[tuple[Worker, Sequence[int], Request]] = []
        if whole:
            parts: Any = [(worker, worker.ids) for worker in self._crew.workers]
        else:
            parts = self._parts(ids)
        given: Any = actions
        for worker, rows in parts:
            due = self._due.pop(worker.ids[0], None) if self._due else None
            each = worker.ids if whole else [ids[row] for row in rows]
            if whole and stored and not due:
                body = _WHOLE[buffer]
            else:
                own = None if stored else [given[row] for row in rows]
                body = dumps(("step_some", (None if whole else each, buffer, own, due or {})))
            asked.append((worker, rows, worker.post("step", ids=each, body=body)))
        return asked

    def _parts(self, ids: Sequence[int]) -> list[tuple[Worker, list[int]]]:
        """Returns the workers of some environments, with the rows of those that are not lost."""
        rows_of: dict[Worker, list[int]] = {}
        for row, env_id in enumerate(ids):
            if env_id not in self._lost:
                rows_of.setdefault(self._crew.of[env_id], []).append(row)
        return list(rows_of.items())

    def _answer(self, worker: Worker, request: Request) -> bytes | RemoteError:
        try:
            return worker.answer(request)
        except RemoteError as error:
            self._forget(worker)
            return error

    def _results(
        self,
        ids: list[int],
        rows: Sequence[int] | slice,
        buffer: int,
        answers: Iterable[tuple[Sequence[int], bytes | RemoteError]],
        count: int | None = None,
    ) -> Results:
        """Joins what is stored and what the answers say.

        Args:
            ids: The environments.
            rows: Their place in the memory of the transport.
            buffer: Of their results.
            answers: The rows of each answer, and the answer.
            count: Rows that are of use; None: all.
        """
        joined = Joined(ids, len(ids) if count is None else count)
        for its_rows, answer in answers:
            if isinstance(answer, RemoteError):
                joined.raised |= dict.fromkeys(its_rows, answer)
            elif answer:
                flags = self._crew.transport.ended([ids[row] for row in its_rows], buffer)
                joined.add(its_rows, answer, flags)
        for env_id, result in joined.resets:
            self._ready[env_id] = *self._ahead.pop(env_id), result
        obs, rewards = joined.columns(self._crew.transport.columns(rows, buffer))
        if self.cfg.copy_on_get and obs.__class__ is not list:
            obs = tree_map(np.copy, obs)
        return ids, obs, rewards, joined.infos, joined.ended, joined.raised

    # ---- without waiting

    def send(self, ids: Sequence[int], actions: Iterable[Any]) -> None:
        """Sends actions to environments that have no pending one; returns at once."""
        for worker, _, request in self._post(list(ids), actions, _APART, whole=False):
            self._sent |= dict.fromkeys(request.ids, (worker, request.number))
        for env_id in self._lost.intersection(ids):
            self._sent[env_id] = None

    @property
    def pending(self) -> set[int]:
        """Environments that were sent an action and whose timestep `wait` has not returned."""
        return set(self._sent)

    def wait(self, at_least: int = 1, timeout: float | None = None) -> Results:
        """Returns the timesteps that have come; fails none that `step` would not.

        Args:
            at_least: Waits for so many, or all that are pending.
            timeout: Returns what there is after so many seconds.
        """
        until = float("inf") if timeout is None else time.monotonic() + timeout
        found: list[tuple[list[int], list[int], bytes | RemoteError]] = []
        count = 0
        while True:
            for each in self._arrived():
                found.append(each)
                count += len(each[1])
            left = until - time.monotonic()
            if count >= at_least or not self._sent or left <= 0:
                return self._joined(found, count)
            self._watch(left)

    def _arrived(self) -> Iterator[tuple[list[int], list[int], bytes | RemoteError]]:
        """Yields requested ids, those of them that are still pending, and the answer."""
        lost = [env_id for env_id, sent in self._sent.items() if sent is None]
        if lost:
            for env_id in lost:
                del self._sent[env_id]
            yield lost, lost, RemoteError("WorkerLost", "its worker was lost")
        for worker in self._crew.workers:
            worker.collect()
            early, worker.early = worker.early, []
            for request, answer in early:
                if isinstance(answer, RemoteError):
                    self._forget(worker)
                if request.name != "step":
                    self._came(worker, request, answer)
                    continue
                tag, ids = (worker, request.number), list(request.ids)
                kept = [env_id for env_id in ids if self._sent.get(env_id) == tag]
                for env_id in kept:
                    del self._sent[env_id]
                if kept:
                    yield ids, kept, answer

    def _came(self, worker: Worker, request: Request, answer: bytes | RemoteError) -> None:
        """Takes an answer that is not that of a step."""

    def _joined(
        self, found: Iterable[tuple[list[int], list[int], bytes | RemoteError]], count: int
    ) -> Results:
        """Joins answers; what belongs to an environment that was reset meanwhile is left out."""
        ids: list[int] = []
        over: list[int] = []
        answers = []
        for its_ids, kept, answer in found:
            rows = []
            for env_id in its_ids:
                part, first = (ids, 0) if env_id in kept else (over, count)
                rows.append(first + len(part))
                part.append(env_id)
            answers.append((rows, answer))
        everyone = ids + over
        results = self._results(everyone, everyone, _APART, answers, count)
        return first_rows(results, count) if over else results

    def _watch(self, left: float) -> None:
        """Waits until something comes, a limit is reached, or that time is over."""
        poll, waiting = select.poll(), self._awaited()
        for worker in waiting:
            poll.register(worker.channel, select.POLLIN)
        if not poll.poll(min(left, WATCH_S) * 1000):
            for worker in waiting:
                worker.watch()

    def _awaited(self) -> set[Worker]:
        """Returns the workers that owe an answer."""
        return {worker for worker, _ in filter(None, self._sent.values())}

    def discard(self, env_id: int) -> None:
        """Closes an environment and drops it, with its worker if that has no other."""
        worker = self._crew.of[env_id]
        self._made.discard(env_id)
        self._ready.pop(env_id, None)
        if not worker.alive:
            return
        if len(worker.ids) == 1:
            worker.dismiss()
            worker.leave(time.monotonic() + _DISCARD_S)
        else:
            try:
                worker.value(worker.post("discard", env_id))
            except RemoteError as error:
                _LOG.warning("closing env %d failed: %s", env_id, error.message)
                worker.end()
        self._forget(worker)

    def close(self) -> None:
        """Closes all environments within 5 s; workers that hang are killed."""
        if self._made_crew is not None:
            self._made_crew.close()
            self._made_crew = None
        for each in (self._made, self._lost, self._due, self._ahead, self._ready, self._sent):
            each.clear()

    def exists(self, env_id: int) -> bool:
        """Returns whether an environment is made."""
        return env_id in self._made

    def worker_pids(self) -> dict[int, int]:
        """Returns the ids of the processes in which environments run, by env id."""
        crew = self._made_crew
        if crew is None:
            return {}
        return {env_id: worker.pid for env_id, worker in crew.of.items() if worker.alive}

    def _ask(self, env_id: int, name: str, *args: object) -> Any:
        worker = self._crew.started(env_id)
        try:
            return self._value(worker, worker.post(name, *args))
        except (RemoteError, TimeoutError) as error:
            if worker.alive:
                raise
            raise WorkerLostError.of(env_id, name, error) from error

    def space(self, name: str, old_name: str) -> Any:
        """Returns a space of the first environment; starts its worker if need be."""
        if name not in self._spaces:
            first = self.ids[0]
            self._spaces[name] = self._ask(first, "space", name, old_name)
            self._made.add(first)
        return self._spaces[name]

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment; it has to pickle."""
        return self._ask(env_id, "attribute", env_id, name)

    def has(self, env_id: int, name: str) -> bool:
        """Returns whether an environment has a method or an attribute."""
        return bool(self._ask(env_id, "has", env_id, name))

    def call(self, env_id: int, name: str, *args: object, **kwargs: object) -> Any:
        """Calls a method of an environment."""
        return self._ask(env_id, "call_with", env_id, name, args, kwargs)

    def state_of(self, env_id: int) -> Any:
        """Returns the state of an environment within its episode; None: it cannot save it."""
        with contextlib.suppress(WorkerLostError):
            return self._ask(env_id, "state_of", env_id) if self._crew.of[env_id].launched else None

    def load_state(self, env_id: int, state: State) -> bool:
        """Restores what `state_of` returned; see `EnvPool`."""
        return bool(self._ask(env_id, "load_state", env_id, state))

    def has_layers(self) -> bool:
        """Returns whether an environment has layers with a state that outlives episodes."""
        return self._is_stateful

    def layer_states(self, env_id: int, *, begun: bool = False) -> Sequence[Any]:
        """Returns the states of an environment's stateful layers, now or before its episode."""
        worker = self._crew.of[env_id]
        if worker.launched:
            with contextlib.suppress(WorkerLostError):
                states: Sequence[Any] = self._ask(env_id, "states", env_id, begun)
                return states
        return worker.states[env_id]

    def load_layer_states(self, env_id: int, states: Sequence[Any]) -> None:
        """Restores what `layer_states` returned."""
        self._ask(env_id, "load_layer_states", env_id, states)
