"""The coordinator: gives the tasks of a commander to learner and collectors, and holds the samples.

One thread per process sends its tasks. A failed task is given again, to the same process or, after
its end, to the one that took its place; after several failures in a row the run ends with an error.
Collectors may come and go: the run ends for want of them only when none is left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from dicore.errors import ClosedError, DicoreError
from dicore_dist.coordinator.budget import EnvStepBudget
from dicore_dist.coordinator.dist_status import Doing
from dicore_dist.coordinator.journal import Journal
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.links.errors import AuthenticationError, PeerError, RemoteTaskError
from dicore_dist.links.master import HEARTBEAT_S, Connection

__all__ = ["Coordinator", "Observer", "Peers"]
from dicore.config import RunConfig
from dicore_dist.commands.config import system_of

if TYPE_CHECKING:
    from dicore_dist.commands.config import DistSystemConfig
    from dicore_dist.coordinator.rounds import Flow
    from dicore_dist.interface import ICommander
    from dicore_dist.links.blocks import BlockMeta

_LOG = logging.getLogger("dicore.comm")
_POLL_S: Final = 0.05
_RETRY_S: Final = 0.5
_LOOK_S: Final = 1.0
_RETURN_S: Final = 10.0
"""At the end of training: the wait for lost processes that are being started again."""
_LEARNER: Final = "learner0"


class Observer:
    """What is told of a training; subclasses override what they want to know."""

    def evaluated(self, result: Mapping[str, Any]) -> None:
        """An evaluation has ended."""

    def collected(self, meta: BlockMeta) -> None:
        """A block of samples has come; `meta` describes it."""

    def learned(self, info: Mapping[str, Any]) -> None:
        """The learner has made updates."""

    def looked(self) -> None:
        """A second has passed."""

    def lost(self, name: str) -> None:
        """A process that was there does not answer."""

    def silent(self, name: str) -> None:
        """A process is there and does not answer."""


class Peers(Protocol):
    """Finds the processes of a training by name: `learner0`, `collector1`."""

    token: str

    def address_of(self, name: str) -> str | None:
        """Returns the address of a process; None if it has not started."""

    def collectors(self) -> Iterable[str]:
        """Returns the names of all collectors that are there, also beyond `collector_num`."""


class Coordinator:
    """Runs one training over a learner and collectors.

    Args:
        cfg: The bound config; `pipeline.system` and the budgets are used.
        job: What the info of every task has: `config`, `policy_id`, `buffer_id`.
        flow: The samples: `Replay` or `Rounds`.
        commander: Assigns tasks.
        journal: Where it notes what it did.
        peers: Finds the processes.

    Attributes:
        observers: Those that are told what happens.
        flow: The samples.
        train_iter: Updates so far.
        budget: The env steps that are left.
        restarts: Counts the losses of processes; who starts them counts those.
        doing: What the processes do.
    """

    def __init__(
        self,
        cfg: RunConfig,
        job: Mapping[str, Any],
        flow: Flow,
        commander: ICommander,
        journal: Journal,
        peers: Peers,
    ) -> None:
        self._cfg, self._system = cfg, system_of(cfg)
        self._job, self.flow, self._commander = dict(job), flow, commander
        self._journal, self._peers = journal, peers
        self._master = (journal.job_id, journal.epoch)
        self._lock = threading.Lock()
        self._ended, self._learner_done = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._in_a_row = self._evaluations = 0
        self._counts, self._moved_at = (-1, -1, -1), 0.0
        self.doing = Doing()
        self._threads: dict[str, threading.Thread] = {}
        self._lost: dict[str, float] = {}
        former = system_of(cfg).max_retries
        most = self._system.max_restarts if former is None else former
        self.restarts = Restarts(most, self._system.restart_window)
        self.budget = EnvStepBudget(cfg, journal.env_step)
        self.train_iter = journal.train_iter
        self.observers: list[Observer] = []
        if hasattr(commander, "load_state_dict"):
            commander.load_state_dict(journal.tasks)

    @property
    def env_step(self) -> int:
        """Env steps so far."""
        return self.budget.used

    def run(self, stopped: Callable[[], bool]) -> None:
        """Runs until the commander ends the training, or `stopped` returns True.

        Raises:
            DicoreError: a process failed too often; the text is that of its error.
        """
        self._start(_LEARNER)
        for index in range(self._system.collector_num):
            self._start(f"collector{index}")
        looked_at = self._moved_at = time.monotonic()
        try:
            while not self._ended.wait(_POLL_S) and not stopped():
                if time.monotonic() - looked_at > _LOOK_S:
                    looked_at = time.monotonic()
                    for each in self.observers:
                        each.looked()
                    self._check_progress(looked_at)
                    for name in self._peers.collectors():
                        self._start(name)
        finally:
            self._ended.set()
            self._close_all(0.0 if self._error or stopped() else _RETURN_S)
            for thread in self._threads.values():
                thread.join(timeout=10)
            if self._error is None and not stopped():
                facts = {"env_step": self.env_step, "train_iter": self.train_iter}
                self._journal.write("finished", **facts)
            self._journal.close()
        if self._error is not None:
            raise self._error

    def _check_progress(self, now: float) -> None:
        """Ends a training in which nothing has been counted for longer than any task may take."""
        counts = self.env_step, self.train_iter, self._evaluations
        if counts != self._counts:
            self._counts, self._moved_at = counts, now
        limit = 2 * self._timeout + float(self._system.start_timeout)
        if now - self._moved_at > limit:
            states = (f"{name} {each['state']}" for name, each in sorted(self.doing.all().items()))
            text = f"no env step, update or evaluation for {limit:g} s: {', '.join(states)}"
            self._fail("the coordinator", DicoreError(text))

    def _start(self, name: str) -> None:
        """Starts the thread of a process, unless it has one."""
        if name in self._threads:
            return
        work = self._learn if name == _LEARNER else self._collect
        thread = threading.Thread(target=self._guarded, args=(work, name), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def _close_all(self, wait_s: float) -> None:
        """Asks all processes to end; those that do not answer are asked again for `wait_s`."""
        end, left = time.monotonic() + wait_s, [*self._threads]
        while True:
            left = [name for name in left if not self._close(name)]
            if not left or time.monotonic() > end:
                return
            time.sleep(_RETRY_S)  # they may be starting again

    def _close(self, name: str) -> bool:
        """Asks a process to end; returns whether it will, or was never there."""
        address = self._peers.address_of(name)
        if address is None:
            return True
        try:
            connection = self._connection(address, heartbeat_s=1.0, tolerance_s=2.0)
            connection.process(f"{_kind_of(name)}_close_task", {"shutdown": True}, timeout=5)
        except DicoreError as error:
            _LOG.debug("%s did not close: %s", name, error)
            return False
        return True

    def _connection(self, address: str, **times: float) -> Connection:
        limit = float(self._system.heartbeat_timeout)
        given = {"tolerance_s": limit, "heartbeat_s": min(HEARTBEAT_S, limit / 3), **times}
        return Connection(address, self._peers.token, master=self._master, **given)

    # ---- one thread per process

    def _guarded(self, work: Callable[[str, Connection], None], name: str) -> None:
        """Repeats the work of a process until the end; ends the run after several failures."""
        failed = False
        self.doing.note(name, "is starting")
        while not self._ended.is_set():
            try:
                connection = self._connected(name)
                if connection is None:
                    return
                work(name, connection)
                self.restarts.delivered(name)
                failed = False
                self._is_back(name)
            except (RemoteTaskError, AuthenticationError) as error:
                if self._ended.is_set():
                    return
                failed = True
                if isinstance(error, AuthenticationError):
                    self._fail(name, error)
                elif self.restarts.lost(name) is None:
                    log = Path(self._job.get("folder", "")) / "log" / name / "output.txt"
                    self._fail(name, error.named(name, self.restarts.count(name), log))
                else:
                    attempt = self.restarts.count(name) + 1
                    _LOG.warning("%s: %s; attempt %d", name, error.message, attempt)
            except PeerError as error:
                self._is_lost(name, error)
            except BaseException as error:
                self._fail(name, error)
            self._ended.wait(_RETRY_S if failed or name in self._lost else _POLL_S)

    def _is_lost(self, name: str, error: PeerError) -> None:
        """Reports a process that does not answer; ends the run if it cannot go on without it."""
        if self._ended.is_set():
            return
        with self._lock:
            now = time.monotonic()
            since = self._lost.setdefault(name, now)
            alike = [name] if name == _LEARNER else [*self._threads.keys() - {_LEARNER}]
            for_s = now - max(self._lost.get(each, now) for each in alike)
        if since == now and self._peers.address_of(name) is not None:
            _LOG.warning("%s does not answer: %s", name, error.message)
            self.doing.note(name, "does not answer")
            for observer in self.observers:
                observer.lost(name)
            if not self._system.starts:
                self.restarts.lost(name)
        if error.context.get("silent"):
            for observer in self.observers:
                observer.silent(name)
        told = error.message if name in error.message else f"{name}: {error.message}"
        if self.restarts.are_too_many(*alike):
            times = self.restarts.count(name)
            text = f"{told}; lost {times} times, with nothing done in between"
            self._fail(name, PeerError(text, hint=self._hint(name, error.hint)))
        limit = self._system.start_timeout
        is_needed = name != _LEARNER or not self._learner_done.is_set()
        if for_s > limit and is_needed:  # of several collectors, no other one answers either
            text = f"{told}, for {limit:g} s"
            self._fail(name, PeerError(text, hint=self._hint(name, error.hint)))

    def _is_back(self, name: str) -> None:
        with self._lock:
            self._lost.pop(name, None)

    def _fail(self, name: str, error: BaseException) -> None:
        if self._ended.is_set():
            return
        error.add_note(f"in the tasks of {name}")
        self._error = error
        self._ended.set()

    def _connected(self, name: str) -> Connection | None:
        """Returns a process that answers; None if the run has ended meanwhile."""
        address = self._peers.address_of(name)
        if address is None:
            raise PeerError(f"{name} has not started", hint=self._hint(name))
        connection = self._connection(address)
        connection.wait(2.0, self._ended.is_set)
        return None if self._ended.is_set() else connection

    def _hint(self, name: str, hint: str = "") -> str:
        """Returns where to look for a process that is not there; `hint`: if it is another's."""
        if self._system.start != "processes":
            command = f"dicore -m dist --module {_kind_of(name)} --module-name {name} -c FILE.pkl"
            return hint or ("" if self._system.starts else command)
        log = f"log/{name}/output.txt of the run"
        return f"see {log}; if the machine is busy, raise pipeline.system.start_timeout"

    def _learn(self, name: str, learner: Connection) -> None:
        """Gives a learner task and its data until it is done."""
        with self._lock:
            task = self._commander.get_learner_task()
        if task is None:
            self._ended.wait(_RETRY_S)
            return
        info = {**self._job, **task, "number": self._note_task("learner", task)}
        info |= {"learner_cfg": {}, "replay_buffer_cfg": {}}
        try:
            if learner.process("resource_task", timeout=30)["busy"]:
                learner.process("learner_close_task", timeout=30)
            started = learner.process("learner_start_task", {"task_info": info}, self._timeout)
            self._learner_done.clear()
            self.flow.begin(int(started["learner_step"]), int(started["first_step"]))
            self._is_back(name)
            while self._learn_once(learner, str(task["task_id"])):
                pass
        except DicoreError:
            with self._lock:
                self._commander.notify_fail_learner_task(task)
            raise

    def _learn_once(self, learner: Connection, task_id: str) -> bool:
        """Gives the data of one demand; returns whether the task goes on."""
        demand: Mapping[str, Any] = {}
        metas: list[BlockMeta] = []
        while not metas:  # the buffer may refuse to draw
            # first: if it has failed, collectors may wait for parameters, and so for ever
            demand = demand or learner.process("learner_get_data_task", timeout=self._timeout)
            with self.doing.waiting(_LEARNER, "samples"):
                if not self.flow.wait_to_learn(self._ended.is_set):
                    return False
            metas = self.flow.draw(int(demand["batch_size"]), int(demand["cur_learner_iter"]))
        self.doing.note(_LEARNER, "trains")
        data = {"data": metas, "env_step": self.env_step}
        info = learner.process("learner_learn_task", data, self._timeout)["info"]
        self.train_iter = max(self.train_iter, int(info["learner_step"]))
        self.restarts.delivered(_LEARNER)
        self._journal.write("updates", train_iter=self.train_iter)
        self.flow.learned(info)
        for observer in self.observers:
            observer.learned(info)
        with self._lock:
            self._commander.update_learner_info(task_id, {"learner_step": info["learner_step"]})
            if info["learner_done"] and self._commander.finish_learner_task(task_id, info):
                self._ended.set()
        if info["learner_done"]:
            self._learner_done.set()
        return not info["learner_done"] and not self._ended.is_set()

    def _collect(self, name: str, collector: Connection) -> None:
        """Gives one collector task, and takes its blocks or its evaluation."""
        with self._lock:
            task = self._commander.get_collector_task()
        if task is None:
            self._ended.wait(_POLL_S)
            return
        info = {**self._job, "eval_flag": False, **task}
        info |= {"number": self._note_task("collector", task)}
        info |= {"collector_index": int(name.removeprefix("collector"))}
        system = self._system
        info["blocks"] = system.collect_blocks
        finished: Mapping[str, object] = {}
        try:
            collector.process("collector_start_task", {"task_info": info}, self._timeout)
            self._is_back(name)
            if info["eval_flag"]:
                self.doing.note(name, "evaluates")
                result = collector.process("collector_data_task", self._info(), self._timeout)
                finished = self._evaluated(result)
            while not self._ended.is_set() and not finished.get("collector_done"):
                found = self._collected(name, collector)
                if found is None:
                    break
                finished = found
        except DicoreError as error:
            with self._lock:
                self._commander.notify_fail_collector_task(task)
            if not (self._ended.is_set() and isinstance(error, RemoteTaskError | ClosedError)):
                raise
            return
        with self._lock:
            if self._commander.finish_collector_task(str(task["task_id"]), finished):
                self._ended.set()

    def _collected(self, name: str, collector: Connection) -> BlockMeta | None:
        """Takes one block; None if none is wanted."""
        with self.doing.waiting(name, "the learner"):
            share = None if self._stops_collecting() else self.flow.claim(self._stops_collecting)
            if share is None:
                return None
            left = self.budget.claim(name, share.amount, self._stops_collecting)
            if left is None:
                self.flow.give_back(share)
                return None
        self.flow.making(share)
        self.doing.note(name, "collects")
        wanted = {**self._info(), "amount": share.amount, "policy_iter": share.policy_iter, **left}
        try:
            meta: BlockMeta = collector.process("collector_data_task", wanted, self._timeout)
        except BaseException:
            self.budget.made(name, 0)
            self.flow.give_back(share)
            raise
        if meta["count"]:
            facts = {key: meta[key] for key in ("file_path", "count", "env_step", "policy_iter")}
            self._journal.write("block", **facts)
            self.flow.put(share, meta)  # first: a spent budget ends training after its updates
        else:  # the env steps that were left completed no sample
            self._journal.write("steps", env_step=meta["env_step"])
            self.flow.give_back(share)
        self.budget.made(name, int(meta["env_step"]))
        self.restarts.delivered(name)
        steps, version = int(meta["env_step"]), int(meta["policy_iter"])
        self.doing.note(name, "collects", env_step=steps, version=version)
        for observer in self.observers:
            observer.collected(meta)
        return meta

    # ---- what both need

    @property
    def _timeout(self) -> float:
        return float(self._system.task_timeout)

    def _stops_collecting(self) -> bool:
        return self._ended.is_set() or self._learner_done.is_set() or self._is_spent()

    def _is_spent(self) -> bool:
        """Returns whether the budget of env steps is spent, and its updates are made.

        This ends the learner's task.
        """
        if not self.budget.is_spent:
            return False
        self.flow.end()
        if self.flow.owes_updates:
            return False
        with self._lock:
            if self._commander.finish_learner_task("budget", {}):
                self._ended.set()
        return True

    def _info(self) -> dict[str, object]:
        random = self.flow.is_random
        return {"envstep": self.env_step, "learner_step": self.train_iter, "random": random}

    def _evaluated(self, meta: Mapping[str, Any]) -> Mapping[str, object]:
        """Notes the result of an evaluation; returns it with whether training may stop."""
        with self._lock:
            self._evaluations += 1
            self._in_a_row = self._in_a_row + 1 if meta["stop"] else 0
            needed = int(self._cfg.policy.eval.evaluator.get("consecutive") or 1)
            result = {**meta, "stop": self._in_a_row >= needed}
        facts = {key: meta[key] for key in ("task_id", "policy_iter", "mean_return")}
        self._journal.write("evaluation", **facts)
        for observer in self.observers:
            observer.evaluated(result)
        return result

    def _note_task(self, kind: str, task: Mapping[str, Any]) -> int:
        number = int(str(task["task_id"]).rpartition("_")[2])
        self._journal.write("task", kind=kind, number=number)
        return number


def _kind_of(name: str) -> str:
    """Returns `learner` or `collector`."""
    return name.rstrip("0123456789")


class Addresses:
    """Addresses of processes: the configured ones, else those that they wrote to a folder.

    Args:
        system: The section `pipeline.system`.
        folder: Folder of the parameters.
        token: The shared token.
    """

    def __init__(self, system: DistSystemConfig, folder: Path, token: str) -> None:
        self._system, self._folder, self.token = system, folder, token

    def address_of(self, name: str) -> str | None:
        """Returns the address of a process by its name; None if it has not started."""
        from dicore_dist.links.slurm import hosts_of

        kind = _kind_of(name)
        index, port = int(name.removeprefix(kind)), getattr(self._system, f"{kind}_port")
        if port:
            hosts = hosts_of(getattr(self._system, f"{kind}_host"))
            return f"{hosts[index % len(hosts)]}:{port + index}"
        try:
            text = (self._folder / f"{name}.address").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return text.split()[0] if text.split() else None

    def collectors(self) -> list[str]:
        """Returns the names of the collectors that wrote their address."""
        found = self._folder.glob("collector*.address")
        return [each.stem for each in found if each.stem.removeprefix("collector").isdecimal()]
