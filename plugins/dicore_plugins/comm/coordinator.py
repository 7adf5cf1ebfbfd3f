"""The coordinator: gives the tasks of a commander to learner and collectors, and holds the buffer.

One thread per process sends its tasks. A failed task is given again, to the same process or, after
its end, to the one that took its place; after several failures in a row the run ends with an error.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dicore.errors import ClosedError, DicoreError
from dicore_plugins.comm.errors import AuthenticationError, PeerError, RemoteTaskError
from dicore_plugins.comm.flow import BlockBuffer, Ratio
from dicore_plugins.comm.journal import Journal
from dicore_plugins.comm.master import Connection

__all__ = ["Coordinator"]

_LOG = logging.getLogger("dicore.comm")
_POLL_S: Final = 0.05
_RETRY_S: Final = 0.5


class Coordinator:
    """Runs one training over a learner and collectors.

    Args:
        cfg: The bound config; `pipeline.system` and the sections that say how much to collect.
        job: What the info of every task has: `config`, `policy_id`, `buffer_id`.
        buffer: The samples.
        commander: Assigns tasks, see `ICommander`.
        journal: Where it notes what it did.
        find: Returns the address of a process by its name (`learner0`, `collector1`), or None.
        token: The shared token.

    Attributes:
        evaluations: Called with the result of each evaluation.
    """

    def __init__(
        self,
        cfg: Any,
        job: Mapping[str, Any],
        buffer: BlockBuffer,
        commander: Any,
        journal: Journal,
        find: Callable[[str], str | None],
        token: str,
    ) -> None:
        self._cfg = cfg
        self._job, self._buffer, self._commander = dict(job), buffer, commander
        self._journal, self._find, self._token = journal, find, token
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self.ratio = _ratio(cfg)
        self.env_step, self.train_iter = journal.env_step, journal.train_iter
        self.on_evaluation: Callable[[Mapping[str, Any]], None] = lambda result: None
        self._least = min(
            cfg.policy.learn.batch_size,
            cfg.policy.collect.get("random_collect_size") or cfg.policy.learn.batch_size,
        )
        if hasattr(commander, "load_state_dict"):
            commander.load_state_dict(journal.tasks)
        for meta in journal.blocks:
            self._buffer.push(meta)
            self.ratio.collected(int(meta["count"]))
        self.ratio.learned(self.train_iter)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Runs until the commander ends the training, or `stopped` returns True.

        Raises:
            DicoreError: a process failed too often; the text is that of its error.
        """
        collectors = self._cfg.pipeline.system.collector_num
        threads = [threading.Thread(target=self._guarded, args=(self._learn, "learner0"))]
        for index in range(collectors):
            args = (self._collect, f"collector{index}")
            threads.append(threading.Thread(target=self._guarded, args=args))
        for thread in threads:
            thread.daemon = True
            thread.start()
        try:
            while not self._ended.wait(_POLL_S) and not stopped():
                pass
        finally:
            self._ended.set()
            self._close_all()
            for thread in threads:
                thread.join(timeout=10)
            if self._error is None and not stopped():
                facts = {"env_step": self.env_step, "train_iter": self.train_iter}
                self._journal.write("finished", **facts)
            self._journal.close()
        if self._error is not None:
            raise self._error

    def _close_all(self) -> None:
        """Asks all processes to end; those that do not answer are left."""
        names = [
            "learner0",
            *(f"collector{n}" for n in range(self._cfg.pipeline.system.collector_num)),
        ]
        for name in names:
            address = self._find(name)
            if address is None:
                continue
            task = "learner_close_task" if name == "learner0" else "collector_close_task"
            try:
                connection = Connection(address, self._token, heartbeat_s=1.0, tolerance_s=2.0)
                connection.process(task, {"shutdown": True}, timeout=5)
            except DicoreError as error:
                _LOG.debug("%s did not close: %s", name, error)

    # ---- one thread per process

    def _guarded(self, work: Callable[[str, Connection], None], name: str) -> None:
        """Repeats the work of a process until the end; ends the run after several failures."""
        failures, lost_at = 0, None
        while not self._ended.is_set():
            try:
                connection = self._connected(name)
                if connection is None:
                    return
                work(name, connection)
                failures, lost_at = 0, None
            except (RemoteTaskError, AuthenticationError) as error:
                if self._ended.is_set():
                    return
                failures += 1
                if failures > self._cfg.pipeline.system.max_retries or isinstance(
                    error, AuthenticationError
                ):
                    self._fail(name, error)
                    return
                _LOG.warning("%s: %s; attempt %d", name, error.message, failures + 1)
            except PeerError as error:
                lost_at = time.monotonic() if lost_at is None else lost_at
                if time.monotonic() - lost_at > self._cfg.pipeline.system.start_timeout:
                    self._fail(name, error)
                    return
                _LOG.warning("%s is lost: %s", name, error.message)
            except Exception as error:
                self._fail(name, error)
                return
            self._ended.wait(_RETRY_S if failures or lost_at else _POLL_S)

    def _fail(self, name: str, error: BaseException) -> None:
        if self._ended.is_set():
            return
        error.add_note(f"in the tasks of {name}")
        self._error = error
        self._ended.set()

    def _connected(self, name: str) -> Connection | None:
        """Returns a process that answers; None if the run has ended meanwhile."""
        end = time.monotonic() + self._cfg.pipeline.system.start_timeout
        while not self._ended.is_set():
            address = self._find(name)
            if address is not None:
                connection = Connection(address, self._token)
                connection.wait(2.0, self._ended.is_set)
                return connection
            if time.monotonic() > end:
                kind = name.rstrip("0123456789")
                raise PeerError(
                    f"{name} has not started within {self._cfg.pipeline.system.start_timeout:g} s",
                    hint=f"dicore -m dist --module {kind} --module-name {name} -c FILE.pkl",
                )
            self._ended.wait(_POLL_S)
        return None

    def _learn(self, name: str, learner: Connection) -> None:
        """Gives a learner task and its data until it is done."""
        with self._lock:
            task = self._commander.get_learner_task()
        if task is None:
            self._ended.wait(_POLL_S)
            return
        self._note_task("learner", task)
        info = {**self._job, **task, "learner_cfg": {}, "replay_buffer_cfg": {}}
        try:
            if learner.process("resource_task", timeout=30)["busy"]:
                learner.process("learner_close_task", timeout=30)
            started = learner.process("learner_start_task", {"task_info": info}, self._timeout)
            self._learned({"learner_step": started["learner_step"]})
            while self._learn_once(learner, str(task["task_id"])):
                pass
        except DicoreError:
            with self._lock:
                self._commander.notify_fail_learner_task(task)
            raise

    def _learn_once(self, learner: Connection, task_id: str) -> bool:
        """Gives the data of one demand; returns whether the task goes on."""
        if not self.ratio.wait_to_learn(self._is_ready, self._ended.is_set):
            return False
        demand = learner.process("learner_get_data_task", timeout=self._timeout)
        metas = self._buffer.sample(int(demand["batch_size"]), int(demand["cur_learner_iter"]))
        answer = learner.process("learner_learn_task", {"data": metas}, self._timeout)
        info = answer["info"]
        if self._cfg.policy.priority:
            self._buffer.update(info["priority_info"])
        self._learned(info)
        with self._lock:
            self._commander.update_learner_info(task_id, {"learner_step": info["learner_step"]})
            if info["learner_done"] and self._commander.finish_learner_task(task_id, info):
                self._ended.set()
        return not info["learner_done"] and not self._ended.is_set()

    def _collect(self, name: str, collector: Connection) -> None:
        """Gives one collector task, and takes its blocks or its evaluation."""
        with self._lock:
            task = self._commander.get_collector_task()
        if task is None:
            self._ended.wait(_POLL_S)
            return
        self._note_task("collector", task)
        index = int(name.removeprefix("collector"))
        info = {**self._job, **task, "collector_index": index, "amount": self._amount()}
        info["blocks"] = self._cfg.pipeline.system.collect_blocks
        finished: Mapping[str, Any] = {}
        try:
            collector.process("collector_start_task", {"task_info": info}, self._timeout)
            done = False
            while not done and not self._ended.is_set():
                if not task["eval_flag"] and not self._may_collect():
                    break
                finished = collector.process("collector_data_task", self._info(), self._timeout)
                self._take(finished)
                done = bool(finished["collector_done"])
        except DicoreError as error:
            with self._lock:
                self._commander.notify_fail_collector_task(task)
            if not (self._ended.is_set() and isinstance(error, RemoteTaskError | ClosedError)):
                raise
            return
        with self._lock:
            if self._commander.finish_collector_task(str(task["task_id"]), finished):
                self._ended.set()

    # ---- what both need

    @property
    def _timeout(self) -> float:
        return float(self._cfg.pipeline.system.task_timeout)

    def _is_ready(self) -> bool:
        return self._buffer.count() >= self._least

    def _may_collect(self) -> bool:
        budget = self._cfg.pipeline.max_env_step
        if budget is not None and self.env_step >= budget:
            with self._lock:
                if self._commander.finish_learner_task("budget", {}):
                    self._ended.set()
            return False
        return self.ratio.wait_to_collect(self._is_ready, self._ended.is_set)

    def _amount(self) -> dict[str, int]:
        collect = self._cfg.policy.collect
        if collect.get("n_sample") is not None:
            return {"n_sample": collect.n_sample}
        return {"n_episode": collect.n_episode}

    def _info(self) -> dict[str, Any]:
        warm_up = self._cfg.policy.collect.get("random_collect_size") or 0
        random = self.ratio.samples < warm_up
        return {"envstep": self.env_step, "learner_step": self.train_iter, "random": random}

    def _take(self, meta: Mapping[str, Any]) -> None:
        """Stores the metadata of a block, or the result of an evaluation."""
        if meta.get("eval_flag"):
            facts = {key: meta[key] for key in ("task_id", "policy_iter", "mean_return")}
            self._journal.write("evaluation", **facts)
            self.on_evaluation(meta)
            return
        with self._lock:
            self.env_step += int(meta["env_step"])
        facts = {key: meta[key] for key in ("file_path", "count", "env_step", "policy_iter")}
        self._journal.write("block", **facts)
        self._buffer.push(meta)
        self.ratio.collected(int(meta["count"]))

    def _learned(self, info: Mapping[str, Any]) -> None:
        self.train_iter = max(self.train_iter, int(info["learner_step"]))
        self._journal.write("updates", train_iter=self.train_iter)
        self.ratio.learned(self.train_iter)

    def _note_task(self, kind: str, task: Mapping[str, Any]) -> None:
        number = int(str(task["task_id"]).rpartition("_")[2])
        self._journal.write("task", kind=kind, number=number)


def _ratio(cfg: Any) -> Ratio:
    """Returns the proportion that the config gives to updates and samples."""
    learn, collect, system = cfg.policy.learn, cfg.policy.collect, cfg.pipeline.system
    block = collect.get("n_sample") or 1
    per_sample = learn.update_per_step or learn.update_per_collect / block
    ahead = system.send_learn_info_freq + system.collector_num * block * per_sample
    return Ratio(per_sample, ahead, system.task_timeout)


def addresses(system: Any, folder: Path) -> Callable[[str], str | None]:
    """Returns a function from the name of a process to its address.

    It is the configured one, else that which the process wrote to the folder of the parameters.
    """
    from dicore_plugins.comm.slurm import hosts_of

    def find(name: str) -> str | None:
        kind = name.rstrip("0123456789")
        index = int(name.removeprefix(kind))
        port = getattr(system, f"{kind}_port")
        if port:
            hosts = hosts_of(getattr(system, f"{kind}_host"))
            return f"{hosts[index % len(hosts)]}:{port + index}"
        try:
            return (folder / f"{name}.address").read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    return find
