"""The comm collector: connects a collector to a coordinator, by tasks.

    coordinator                          comm collector
    collector_start_task    ──►  deal_with_collector_start   creates it, or takes the one it has
    collector_data_task     ──►  deal_with_collector_data    collects; returns metadata of a block
    collector_close_task    ──►  deal_with_collector_close

A task collects blocks of samples, or evaluates. The task that ends says `collector_done`.
"""

from __future__ import annotations

import abc
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from dicore.errors import ClosedError, DicoreError
from dicore_dist.links.exchange import Link, file_link
from dicore_dist.links.master import CallbackSlave
from dicore_dist.workers.collector_parts import CollectorParts
from dicore_dist.workers.resident import Resident
from dicore_dist.workers.worker_config import WorkerConfig
from dicore_plugins.env_wrappers import save_snapshot
from dicore_plugins.messages import FrameError

__all__ = ["BaseCommCollector", "CollectorSlave", "FlaskFileSystemCollector", "TaskCollector"]

_LOG = logging.getLogger("dicore.comm")
_VERSION_S: Final = 30.0
"""Limit for the parameters of an on-policy round to appear in a shared folder."""


class CollectorSlave(CallbackSlave):
    """Receives the tasks of the coordinator and calls the comm collector's functions."""

    concurrent = frozenset({"collector_close_task", "resource_task"})
    callbacks: ClassVar[Mapping[str, str]] = {
        "resource_task": "deal_with_get_resource",
        "collector_start_task": "deal_with_collector_start",
        "collector_data_task": "deal_with_collector_data",
        "collector_close_task": "deal_with_collector_close",
    }


class BaseCommCollector(abc.ABC):
    """Holds a collector and sends its data; subclasses say by which channels.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    def __init__(self, cfg: object = None) -> None:
        self._cfg = cfg

    @abc.abstractmethod
    def start(self) -> None:
        """Starts to serve tasks."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stops; later calls do nothing."""

    @abc.abstractmethod
    def get_policy_update_info(self, path: str) -> Mapping[str, Any]:
        """Returns the policy that a learner published under `path`."""

    @abc.abstractmethod
    def send_stepdata(self, path: str, stepdata: object) -> None:
        """Publishes samples under `path`, atomically."""

    @abc.abstractmethod
    def send_metadata(self, metadata: Mapping[str, object]) -> None:
        """Sends `data_id`, `policy_iter` and `collector_done`."""

    def _create_collector(self, task_info: Mapping[str, Any]) -> CollectorParts:
        """Creates environments, policy and collector of a task.

        One that takes the place of another one has other seeds: it would repeat its episodes.
        """
        index = int(task_info.get("collector_index", 0))
        worker = WorkerConfig.of(task_info, "collector", index)
        return CollectorParts(worker, index, self._opponent_file(task_info))

    def _opponent_file(self, task_info: Mapping[str, object]) -> Any:
        """Returns where the environments find their opponent; None: where the config says."""
        return None


class TaskCollector(Resident, BaseCommCollector):
    """A comm collector; how it is reached and where it stores is its link.

    Args:
        link: Receives tasks, and stores samples and parameters.
        update_policy_second: Seconds between two looks for new parameters.
    """

    def __init__(self, link: Link, update_policy_second: float = 0.0) -> None:
        names = CollectorSlave.callbacks.values()
        functions = {each: self._noting("collector", getattr(self, each)) for each in names}
        slave = CollectorSlave(callback_fn=functions, transport=link.transport)
        Resident.__init__(self, slave)
        BaseCommCollector.__init__(self)
        self._data, self._policies, self._folder = link.data, link.policies, link.saved.folder
        self._interval, self._looked_at = update_policy_second, 0.0
        self._stamp: object = None
        self._parts: CollectorParts | None = None
        self._built_of: object = None
        self._task_info: Mapping[str, Any] = {}
        self._metadata: Mapping[str, object] = {}
        self._counts = {"cur_sample": 0, "cur_episode": 0, "cur_step": 0}
        self._blocks = 0
        self._working = threading.Lock()

    def get_policy_update_info(self, path: str) -> Mapping[str, Any]:
        """Reads the newest parameters; what is being replaced is read again."""
        for left in (2, 1, 0):
            try:
                found: Mapping[str, Any] = self._policies.load(path)
            except FrameError:
                if not left:
                    raise
                time.sleep(0.05)
            else:
                return found
        raise AssertionError

    def send_stepdata(self, path: str, stepdata: object) -> None:
        """Stores samples."""
        self._data.save(path, stepdata)

    def send_metadata(self, metadata: Mapping[str, object]) -> None:
        """Makes metadata the result of the present task."""
        self._metadata = metadata

    # ---- called by the slave

    def deal_with_collector_start(self, data: Mapping[str, Any]) -> Mapping[str, object]:
        """Begins a task; parts of an earlier task with the same config are used again."""
        info, ends = data["task_info"], self._ends
        with self._working:
            self.on_task(info)
            wanted = info["config"], info.get("job_id"), info.get("collector_index", 0)
            if self._parts is None or wanted != self._built_of:
                if self._parts is not None:
                    self._parts.close()
                self._parts, self._built_of = self._create_collector(info), wanted
                self._stamp, self._looked_at = None, 0.0
            if "opponent" in info:
                self._face(info)
            self._task_info, self._blocks = info, 0
            self._counts = dict.fromkeys(self._counts, 0)
            self._begin_task(ends)
        return {"message": "ok"}

    def deal_with_collector_data(self, data: Mapping[str, Any]) -> Mapping[str, object]:
        """Collects a block, or evaluates; returns the metadata.

        Raises:
            ClosedError: no task runs, or it was closed meanwhile.
        """
        if self._ended.is_set() or self._parts is None:
            raise ClosedError("no task runs: it was closed, or none was started")
        with self._working:
            self._update_policy(data.get("policy_iter"))
            try:
                if self._task_info["eval_flag"]:
                    self._evaluate(data)
                else:
                    self._collect(data)
            except ClosedError:
                raise
            except BaseException:  # the next task would fail by the state it left behind
                self._forget_parts()
                raise
            return self._metadata

    def deal_with_collector_close(self, data: Mapping[str, object]) -> Mapping[str, object]:
        """Ends the present task, at any time; with `shutdown`, the comm collector closes too."""
        self._deal_with_close(data)
        return {"message": "ok"}

    def _end_task(self) -> None:
        self._ended.set()

    def _release(self) -> None:
        with self._working:
            self._forget_parts()

    def _forget_parts(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            try:
                parts.close()
            except Exception as error:
                _LOG.warning("the environments do not close: %s", error)

    # ---- one task

    def _opponent_file(self, task_info: Mapping[str, object]) -> Any:
        if task_info.keys().isdisjoint(("opponent", "freeze")):
            return None
        name = f"{task_info.get('job_id')}_collector{task_info.get('collector_index', 0)}"
        return (self._folder / f"{name}.opponent.frame").absolute()

    def _face(self, info: Mapping[str, Any]) -> None:
        """Makes the opponent of a task that of the environments, from their next episodes on."""
        frozen = info["opponent"]
        name = _frozen_name(info, frozen) if frozen else f"{info['policy_id']}.frame"
        try:
            found = self.get_policy_update_info(name)
        except FileNotFoundError:  # the learner has not published anything yet
            return
        file = self._opponent_file(info)
        if found.get("job_id") == info.get("job_id"):  # else of an earlier training
            save_snapshot(file, info["config"], found["state"])

    def _update_policy(self, wanted: int | None) -> None:
        """Loads the newest parameters; waits for those of `wanted` updates, if it is given.

        Raises:
            DicoreError: they do not appear.
        """
        assert self._parts is not None
        self._look()
        if wanted is None:
            return
        end = time.monotonic() + _VERSION_S
        while self._parts.version != wanted and not self._ended.wait(0.01):
            self._looked_at = 0.0
            self._look()
            if time.monotonic() > end:
                raise DicoreError(
                    f"the parameters of update {wanted} have not appeared within {_VERSION_S:g} s;"
                    f" those of update {self._parts.version} are there",
                    hint="is system.path_policy the same folder for learner and collectors?",
                )

    def _look(self) -> None:
        """Loads the newest parameters if they have changed and the interval is over."""
        assert self._parts is not None
        now = time.monotonic()
        name = f"{self._task_info['policy_id']}.frame"
        if now - self._looked_at < self._interval and self._parts.version >= 0:
            return
        self._looked_at = now
        stamp = self._policies.stamp(name)
        if stamp is not None and stamp != self._stamp:
            found = self.get_policy_update_info(name)
            if found.get("job_id") == self._task_info.get("job_id"):  # else of an earlier training
                self._parts.load(found)
            self._stamp = stamp

    def _collect(self, info: Mapping[str, Any]) -> None:
        assert self._parts is not None
        collector, counts = self._parts.collector, self._counts
        before = collector.envstep, collector.total_episode_count
        amount = info.get("amount") or self._task_info["amount"]
        samples = self._parts.collect(amount, info, self._ended.is_set)
        if not samples and self._ended.is_set():
            raise ClosedError("the task was closed")
        task = f"{self._task_info.get('job_id', '')}_{self._task_info['task_id']}"
        name = f"{task}_{uuid.uuid4().hex[:12]}.frame"
        if samples:
            self.send_stepdata(name, samples)
            self._blocks += 1
        steps = collector.envstep - before[0]
        counts["cur_sample"] += len(samples)
        counts["cur_episode"] += collector.total_episode_count - before[1]
        counts["cur_step"] += steps
        self.send_metadata({
            "data_id": name.removesuffix(".frame"),
            "file_path": name,
            "count": len(samples),
            "env_step": steps,
            "policy_iter": self._parts.version,
            "buffer_id": self._task_info["buffer_id"],
            "task_id": self._task_info["task_id"],
            "collector_done": self._blocks >= self._task_info["blocks"],
            **counts,
            **self._parts.episodes(),
        })  # fmt: skip

    def _evaluate(self, info: Mapping[str, Any]) -> None:
        assert self._parts is not None
        task = f"{self._task_info.get('job_id', '')}_{self._task_info['task_id']}"
        name = f"{task}.policy.frame"
        state = self._parts.policy.collect_mode.state_dict()
        content = {"version": self._parts.version, "state": state}
        self._policies.save(name, content)
        if frozen := self._task_info.get("freeze"):
            job = {"job_id": self._task_info.get("job_id")}
            self._policies.save(_frozen_name(self._task_info, frozen), {**content, **job})
        result = self._parts.evaluate(info, self._ended.is_set)
        if getattr(result, "interrupted", False):
            raise ClosedError("the task was closed")
        statistics = result.statistics
        measure = str(self._parts.cfg.policy.eval.evaluator.get("measure"))
        self.send_metadata({
            "eval_flag": True,
            "task_id": self._task_info["task_id"],
            "policy_iter": self._parts.version,
            "policy_path": name,
            "mean_return": float(result.mean_return),
            "value": float(statistics.get(measure, result.mean_return)),
            "statistics": {name: float(each) for name, each in statistics.items()},
            "returns": np.asarray(result.returns, np.float64),
            "stop": bool(result.stop),
            "remembered": self._parts.remembered(),
            "collector_done": True,
        })  # fmt: skip


def _frozen_name(task_info: Mapping[str, object], name: str) -> str:
    return f"{task_info.get('job_id', '')}_{name}.frame"


class FlaskFileSystemCollector(TaskCollector):
    """A comm collector over HTTP and files: metadata by HTTP, samples and policy by files.

    Args:
        host: Name or address at which the coordinator reaches this process.
        port: Port; 0: any free one.
        path_data: Folder of the samples, shared with the learner.
        path_policy: Folder of the parameters, shared with the learner.
        update_policy_second: Seconds between two looks for new parameters.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        path_data: str = "data",
        path_policy: str = "policy",
        update_policy_second: float = 0.0,
        token: str = "",
    ) -> None:
        link = file_link(host, port, path_data, path_policy, token)
        super().__init__(link, update_policy_second)
