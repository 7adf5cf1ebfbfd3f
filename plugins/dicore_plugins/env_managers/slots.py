"""The env pool of threads and processes: environments live in workers, and each has a slot.

A step in lockstep is `step`: actions are posted, and all answers awaited. At their own pace it is
`send`, `_take` and `wait`. A reset is `_begin`, `_take` and `reset` or `resets_done`. What differs
between threads and processes are their workers, how actions are posted, and how answers are joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.data import State, Tree
from dicore_plugins.env_managers.env_pool import EnvPool, Results
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.workers import (
    Answer,
    BaseCrew,
    BaseWorker,
    NextReset,
    Request,
    WorkerLostError,
    create_error,
)

if TYPE_CHECKING:
    from dicore.interfaces.env import Env, Space

__all__ = ["Came", "Doing", "Slot", "SlotPool"]


class Doing(Enum):
    """What is under way in an environment."""

    NOTHING = "nothing"
    STEP = "an action was sent"
    STEPPED = "its timestep has come and was not returned"
    RESET = "a reset was begun"
    BEGUN = "the reset is done and was not returned"


NOTHING, STEP, STEPPED, RESET, BEGUN = Doing  # looking them up in the enum is slow


@dataclass(slots=True, eq=False)
class Slot:
    """One environment of a pool.

    Args:
        env_id: Its id.
        worker: In which it lives.
        doing: What is under way.
        number: Of the request that it waits for; answers to others are dropped.
        since: Number of the request that reset it; -1: a step was interrupted afterwards.
        made: It was made and not discarded.
        waits: The reset that is posted once its worker has started.
        found: What its reset returned or raised; of a step, the request and its answer.
        ahead: The next reset, which its worker begins by itself when the episode ends.
        again: That reset, once it is done, and what it returned.
    """

    env_id: int
    worker: BaseWorker
    doing: Doing = NOTHING
    number: int = 0
    since: int = 0
    made: bool = False
    waits: NextReset | None = None
    found: Answer = None
    ahead: NextReset | None = None
    again: tuple[NextReset, Answer] | None = None

    @property
    def lost(self) -> bool:
        """Its worker was lost after its last reset: it fails until the next one."""
        return self.since <= self.worker.lost_at

    def taken(self) -> Answer:
        """Returns what its reset returned or raised."""
        found, self.doing, self.found = self.found, NOTHING, None
        return found


Came = tuple[Request, Answer]
"""A request and its answer."""


class SlotPool(EnvPool):
    """The environments of a manager, in workers.

    A worker is started when it is first needed and again after it was lost; its environments then
    wait for a reset. Numbers tell answers apart, so that one that comes late is dropped.

    A manager in lockstep needs `step`. One that is asynchronous calls `send` and `begin_reset`,
    which return at once, and `wait` and `resets_done`, which return what has come since; see
    `AsyncSteps`. An environment has at most one pending action.

    Attributes:
        settled: None: `step` waits for all environments. Else it sends the actions and waits for
            `wait_num` answers, and `step_wait_timeout` for more; that many resets were done since
            the actions were chosen and count: their environments were sent nothing.
        output: Folder for what environments print in processes; None: they print to the terminal.
        role: That of the episodes, for the names of these files.
    """

    settled: int | None = None
    output: Path | None = None
    role = "collector"
    _layered = False

    def __init__(
        self, env_fn: Sequence[Callable[[], Env]], cfg: Any = None, ids: Sequence[int] | None = None
    ) -> None:
        super().__init__(env_fn, cfg, ids)
        self._slots: dict[int, Slot] = {}
        self._spaces: dict[str, Space] = {}

    # ---- what differs between threads and processes

    def _new_crew(self) -> BaseCrew:
        raise NotImplementedError

    def _post(
        self, ids: list[int], actions: Iterable[Tree], *, whole: bool
    ) -> list[tuple[BaseWorker, Request]]:
        """Sends actions to environments that are not lost; `whole`: to all, in lockstep."""
        raise NotImplementedError

    def _joined(self, ids: list[int], came: Iterable[Came], *, whole: bool) -> Results:
        """Returns the timesteps that answers hold.

        Args:
            ids: The environments.
            came: The requests and their answers. One that names an environment whose slot has
                another number is not that of its step.
            whole: They are those of all environments, by worker.
        """
        raise NotImplementedError

    def _first(self, slot: Slot, result: Answer) -> Tree:
        """Returns what a reset returned or raised."""
        return result

    # ---- workers

    @cached_property
    def _crew(self) -> BaseCrew:
        """The workers, which are made on first use; none is started."""
        crew = self._new_crew()
        self._slots = {env_id: Slot(env_id, crew.of[env_id]) for env_id in self.ids}
        return crew

    def launch(self) -> list[float]:
        """Makes all environments, in all workers at the same time; returns their time limits.

        Raises:
            EnvCreateError: an environment could not be made.
        """
        crew = self._crew
        for worker in crew.workers:
            self._start(worker)
        self._take()
        while any(worker.alive and not worker.launched for worker in crew.workers):
            crew.wait(inf)
            self._take()
        for worker in crew.workers:
            if worker.error is not None:
                traced = getattr(worker.error, "trace", "")
                raise create_error(worker, worker.error) from (worker.error if traced else None)
        for slot in self._slots.values():
            slot.made = True
        asked = [(worker, worker.post("has_layers")) for worker in crew.workers]
        found = []
        for worker, request in asked:
            try:
                found.append(worker.value(request))
            except RemoteError as error:
                raise create_error(worker, error) from error
        self._layered = any(found)
        return [limit for worker in crew.workers for limit in worker.time_limits]

    def _start(self, worker: BaseWorker) -> None:
        """Begins to make the environments of a worker; `_launched` is called once they are."""
        try:
            if not worker.alive:
                worker.start()
            worker.post("launch", ids=worker.ids)
        except RemoteError as error:
            self._launched(worker, error)

    def _launched(self, worker: BaseWorker, value: Any) -> None:
        """Posts the resets that waited for a worker to start; they fail if it did not."""
        waiting = [slot for slot in map(self._slots.__getitem__, worker.ids) if slot.waits]
        worker.error = value if isinstance(value, BaseException) else self._join(worker, value)
        if worker.error is not None:
            worker.end()
            for slot in waiting:
                slot.doing, slot.waits, slot.found = BEGUN, None, worker.error
            return
        rows = [(slot.env_id, *slot.waits) for slot in waiting if slot.waits]
        if rows:
            self._post_resets(worker, rows)

    def _join(self, worker: BaseWorker, time_limits: list[float]) -> RemoteError | None:
        """Takes a worker that made its environments in; returns why it ended, if it did."""
        worker.time_limits, worker.launched = time_limits, True
        try:
            self._crew.join(worker)
        except RemoteError as error:
            return error
        return None

    def _take(self) -> None:
        """Sorts the answers that have come into the slots that wait for them."""
        for worker in self._crew.arrived():
            early, worker.early = worker.early, []
            for came in early:
                request, answer = came
                if request.name == "step":
                    for env_id in request.ids:
                        slot = self._slots[env_id]
                        if slot.doing is STEP and slot.number == request.number:
                            slot.doing, slot.found = STEPPED, came
                elif request.name == "launch":
                    self._launched(worker, worker.opened(answer))
                elif request.ids:
                    self._reset_done(worker, request, worker.opened(answer))

    # ---- reset

    def reset(
        self, ids: Sequence[int], seeds: Sequence[int], params: Sequence[Mapping[str, object]]
    ) -> list[Tree]:
        """Resets environments and waits for them; what is under way in them is dropped.

        What a worker has reset ahead is there already.
        """
        _ = self._crew
        slots, begin = [self._slots[env_id] for env_id in ids], []
        for slot, seed, given in zip(slots, seeds, params, strict=True):
            again, slot.again = slot.again, None
            if again and again[0][0] == seed and again[0][1] is given and not slot.lost:
                slot.doing, slot.found = BEGUN, self._first(slot, again[1])
            else:
                begin.append((slot.env_id, seed, given))
        if begin:
            self._begin(begin)
            self._take()
        while missing := sum(slot.doing is RESET for slot in slots):
            self._crew.wait(inf, missing)
            self._take()
        return [slot.taken() for slot in slots]

    def begin_reset(self, env_id: int, seed: int, params: Mapping[str, object]) -> None:
        """Begins to reset an environment, and makes it before if needed; returns at once."""
        self._begin([(env_id, seed, params)])

    def resets_done(self, until: float) -> dict[int, Tree]:
        """Returns what resets returned or raised, by env id.

        Args:
            until: Waits for one until this time of `time.monotonic`.
        """
        slots, crew = self._slots.values(), self._crew
        crew.watch()
        while True:
            self._take()
            done = [slot for slot in slots if slot.doing is BEGUN]
            left = until - time.monotonic()
            if done or left <= 0 or not any(slot.doing is RESET for slot in slots):
                return {slot.env_id: slot.taken() for slot in done}
            crew.wait(left)

    def _begin(self, rows: Iterable[tuple[int, int, Mapping[str, object]]]) -> None:
        """Posts resets (env id, seed, arguments), or starts the workers that have to be."""
        rows_of: dict[BaseWorker, list[tuple[int, int, Mapping[str, object]]]] = {}
        for row in rows:
            slot = self._slots[row[0]]
            slot.doing, slot.again, slot.waits, slot.number = RESET, None, row[1:], 0
            rows_of.setdefault(slot.worker, []).append(row)
        for worker, each in rows_of.items():
            if worker.launched:
                self._post_resets(worker, each)
            elif all(request.name != "launch" for request in worker.requests.values()):
                self._start(worker)

    def _post_resets(
        self, worker: BaseWorker, rows: Sequence[tuple[int, int, Mapping[str, object]]]
    ) -> None:
        ids, seeds, params = map(list, zip(*rows, strict=True))
        request = worker.post("reset_some", ids, seeds, params, ids=ids)
        for env_id in ids:
            slot = self._slots[env_id]
            slot.waits, slot.number = None, request.number

    def _reset_done(self, worker: BaseWorker, request: Request, value: Any) -> None:
        results = value if isinstance(value, list) else [value] * len(request.ids)
        for env_id, result in zip(request.ids, results, strict=True):
            slot = self._slots[env_id]
            if slot.doing is RESET and slot.number == request.number:
                if not isinstance(result, BaseException):
                    slot.since = request.number
                slot.doing, slot.found = BEGUN, self._first(slot, result)
        worker.whole = not any(self._slots[env_id].lost for env_id in worker.ids)

    # ---- step

    def step(self, ids: list[int], actions: Iterable[object]) -> Results:
        """Steps environments; lost ones fail until they are reset. See `settled`."""
        if self.settled is not None:
            if ids:
                self.send(ids, actions)
            cfg = self.cfg
            return self.wait(max(0, cfg.wait_num - self.settled), cfg.step_wait_timeout)
        crew, slots = self._crew, self._slots
        try:
            if ids is self.ids and False not in [worker.whole for worker in crew.workers]:
                asked = self._post(ids, actions, whole=True)
                return self._joined(ids, crew.answers(asked), whole=True)
            self.send(ids, actions)
            while missing := sum(slots[env_id].doing is STEP for env_id in ids):
                crew.wait(inf, missing)
                self._take()
            return self._returned(ids)
        except BaseException:  # Ctrl-C: the answers to come are of no use
            for env_id in ids:
                slots[env_id].doing, slots[env_id].since = NOTHING, -1
                slots[env_id].worker.whole = False
            raise

    def send(self, ids: list[int], actions: Iterable[Tree]) -> None:
        """Sends actions to environments that have no pending one; returns at once."""
        slots, posted = self._slots, 0
        for _, request in self._post(ids, actions, whole=False):
            posted += len(request.ids)
            for env_id in request.ids:
                slot = slots[env_id]
                slot.doing, slot.number = STEP, request.number
        lost = [slots[i] for i in ids if slots[i].doing is not STEP] if posted < len(ids) else ()
        for slot in lost:
            what = "the step before was interrupted" if slot.since < 0 else "its worker was lost"
            request = Request(0, "step", 0.0, [slot.env_id])
            slot.doing, slot.number = STEPPED, 0
            slot.found = request, RemoteError("WorkerLost", what)

    @property
    def pending(self) -> set[int]:
        """Environments that were sent an action and whose timestep `wait` has not returned."""
        return {slot.env_id for slot in self._slots.values() if slot.doing in (STEP, STEPPED)}

    def wait(self, at_least: int = 1, more_s: float = 0.0, timeout: float | None = None) -> Results:
        """Returns timesteps of environments that were sent an action, in order of their ids.

        Args:
            at_least: Waits for so many timesteps and resets; fewer if fewer timesteps are pending.
            more_s: Waits so many seconds for the other timesteps.
            timeout: Returns what there is after so many seconds.
        """
        crew, slots = self._crew, self._slots.values()
        now = crew.watch()
        more, until = now + more_s, inf if timeout is None else now + timeout
        while True:
            self._take()
            states = [slot.doing for slot in slots]
            coming, stepped = states.count(STEP), states.count(STEPPED)
            missing = min(at_least, coming + stepped) - stepped - states.count(BEGUN)
            left = (until if missing > 0 else min(until, more)) - time.monotonic()
            if left <= 0 or not coming:
                if stepped == len(states):
                    return self._returned(self.ids)
                return self._returned([slot.env_id for slot in slots if slot.doing is STEPPED])
            crew.wait(left, missing if missing > 0 else coming)

    def _returned(self, ids: list[int]) -> Results:
        """Returns the timesteps of environments whose answers have come."""
        came: dict[int, Came] = {}
        for env_id in ids:
            slot = self._slots[env_id]
            came[id(slot.found)] = slot.found
            slot.doing, slot.found = NOTHING, None
        return self._joined(ids, came.values(), whole=False)

    # ---- close and questions

    def close(self) -> None:
        """Closes all environments within 5 s; those that hang or fail are logged."""
        made: BaseCrew | None = self.__dict__.pop("_crew", None)
        self._slots = {}
        if made is not None:
            made.close(self.close_s, quiet=self.is_garbage)

    def exists(self, env_id: int) -> bool:
        """Returns whether an environment is made."""
        return env_id in self._slots and self._slots[env_id].made

    def _ask(self, env_id: int, name: str, *args: object) -> Any:
        """Calls a method of the pool in which an environment is; returns or raises its answer."""
        worker = self._crew.started(env_id)
        try:
            return worker.value(worker.post(name, *args))
        except RemoteError as error:
            if not worker.alive and isinstance(error.restored(), RemoteError | TimeoutError):
                raise WorkerLostError.of(env_id, name, error) from error
            raise error.restored() from error  # without a name: it would keep this frame alive

    def space(self, name: str, old_name: str) -> Space:
        """Returns a space of the first environment; starts its worker if need be."""
        if name not in self._spaces:
            first = self.ids[0]
            self._spaces[name] = self._ask(first, "space", name, old_name)
            self._slots[first].made = True
        return self._spaces[name]

    def attribute(self, env_id: int, name: str) -> Any:
        """Returns an attribute of an environment or of one of its wrappers."""
        return self._ask(env_id, "attribute", env_id, name)

    def has(self, env_id: int, name: str) -> bool:
        """Returns whether an environment has a method or an attribute."""
        return bool(self._ask(env_id, "has", env_id, name))

    def call(self, env_id: int, name: str, *args: object, **kwargs: object) -> Any:
        """Calls a method of an environment."""
        return self._ask(env_id, "call_with", env_id, name, args, kwargs)

    def state_of(self, env_id: int) -> Any:
        """Returns the state of an environment within its episode; None: it cannot save it."""
        try:
            return self._ask(env_id, "state_of", env_id) if self._crew.of[env_id].launched else None
        except WorkerLostError:
            return None

    def load_state(self, env_id: int, state: State) -> bool:
        """Restores what `state_of` returned; see `EnvPool`."""
        return bool(self._ask(env_id, "load_state", env_id, state))

    def has_layers(self) -> bool:
        """Returns whether an environment has layers with a state that outlives episodes."""
        return self._layered

    def layer_states(self, env_id: int, *, begun: bool = False) -> Sequence[Tree]:
        """Returns the states of an environment's stateful layers, now or before its episode."""
        worker = self._crew.of[env_id]
        if worker.launched:
            try:
                states: Sequence[Any] = self._ask(env_id, "states", env_id, begun)
            except WorkerLostError:
                pass
            else:
                return states
        return worker.states[env_id]

    def load_layer_states(self, env_id: int, states: Sequence[Tree]) -> None:
        """Restores what `layer_states` returned."""
        self._ask(env_id, "load_layer_states", env_id, states)
