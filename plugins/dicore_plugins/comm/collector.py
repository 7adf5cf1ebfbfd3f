"""The comm collector: connects a collector to a coordinator, by HTTP and files.

    coordinator                          comm collector
    collector_start_task    ──►  deal_with_collector_start   creates it, or takes the one it has
    collector_data_task     ──►  deal_with_collector_data    collects; returns metadata of a block
    collector_close_task    ──►  deal_with_collector_close

A task collects blocks of samples, or evaluates. The task that ends says `collector_done`.
"""

from __future__ import annotations

import abc
import os
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dicore.data import Batch
from dicore.errors import ClosedError
from dicore.run.env_factory import make_env_manager
from dicore_plugins.comm.blocks import save_block
from dicore_plugins.comm.errors import FrameError
from dicore_plugins.comm.frames import load_file, save_file
from dicore_plugins.comm.master import CallbackSlave
from dicore_plugins.comm.worker_config import WorkerConfig
from dicore_plugins.middleware.learn import without_origin

__all__ = ["BaseCommCollector", "CollectorSlave", "FlaskFileSystemCollector"]


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

    def __init__(self, cfg: Any = None) -> None:
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
    def send_stepdata(self, path: str, stepdata: Any) -> None:
        """Publishes samples under `path`, atomically."""

    @abc.abstractmethod
    def send_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Sends `data_id`, `policy_iter` and `collector_done`."""

    def _create_collector(self, task_info: Mapping[str, Any]) -> CollectorParts:
        """Creates environments, policy and collector of a task."""
        index = int(task_info.get("collector_index", 0))
        return CollectorParts(WorkerConfig.of(task_info, "collector", index))


class CollectorParts:
    """Environments, policy, collector and evaluator of one process; kept from task to task."""

    def __init__(self, worker: WorkerConfig) -> None:
        self.cfg, self.policy = worker.cfg, worker.policy
        self._ctx = worker.ctx
        self.env = make_env_manager(self.cfg.env, "collector", self.cfg.seed)
        self.collector = self.cfg.policy.collect.collector.build(
            worker.ctx, env_manager=self.env, policy=self.policy.collect_mode
        )
        self._evaluator: Any = None
        self.version = -1

    def load(self, policy: Mapping[str, Any]) -> None:
        """Acts by a published version."""
        if policy["version"] != self.version:
            self.policy.collect_mode.load_state_dict(policy["state"])
            self.version = int(policy["version"])

    def collect(self, amount: Mapping[str, Any], info: Mapping[str, Any], stop: Any) -> Batch:
        """Collects one block; `info` has the env steps and updates of the whole training."""
        random = bool(info.get("random"))
        if random:
            from dicore_plugins.policies.random import RandomPolicy

            like = self.policy.collect_mode
            policy = RandomPolicy(action_space=self.env.action_space, like=like)
            self.collector.reset_policy(policy.collect_mode)
        settings = {} if random else self.policy.command_mode.get_setting_collect(info)
        data: Batch = self.collector.collect_batch(
            **amount,
            train_iter=max(0, self.version),
            random_collect=random,
            policy_kwargs=settings,
            should_stop=stop,
        )
        if random:
            self.collector.reset_policy(self.policy.collect_mode)
        return data

    def evaluate(self, info: Mapping[str, Any], stop: Any) -> Any:
        """Evaluates the present version; returns the result."""
        if self._evaluator is None:
            env = make_env_manager(self.cfg.env, "evaluator", self.cfg.seed)
            self._evaluator = self.cfg.policy.eval.evaluator.build(
                self._ctx, env_manager=env, policy=self.policy.eval_mode
            )
        settings = self.policy.command_mode.get_setting_eval(info)
        kwargs = {"policy_kwargs": settings} if settings else {}
        return self._evaluator.eval(
            None, max(0, self.version), info["envstep"], should_stop=stop, **kwargs
        )

    def close(self) -> None:
        """Closes the environments."""
        self.collector.close()
        if self._evaluator is not None:
            self._evaluator.close()


class FlaskFileSystemCollector(BaseCommCollector):
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
        super().__init__()
        self._path_data, self._path_policy = Path(path_data), Path(path_policy)
        self._interval, self._looked_at, self._stamp = update_policy_second, 0.0, (0, 0)
        self._parts: CollectorParts | None = None
        self._built_of: Any = None
        self._task_info: Mapping[str, Any] = {}
        self._metadata: Mapping[str, Any] = {}
        self._counts = {"cur_sample": 0, "cur_episode": 0, "cur_step": 0}
        self._blocks = 0
        self._working = threading.Lock()
        self._ended, self._closed = threading.Event(), threading.Event()
        self._closing, self._closer = threading.Lock(), threading.Thread()
        self._ended.set()
        names = CollectorSlave.callbacks.values()
        functions = {each: getattr(self, each) for each in names}
        self._slave = CollectorSlave(host, port, functions, token)

    @property
    def address(self) -> str:
        """`host:port` at which the coordinator reaches this process."""
        return self._slave.address

    def start(self) -> None:
        """Starts to serve tasks."""
        self._slave.start()

    def close(self) -> None:
        """Ends the present task and stops to serve; returns when that is done, by whomever."""
        with self._closing:
            if not self._closed.is_set():
                self._ended.set()
                self._slave.close()
                with self._working:
                    if self._parts is not None:
                        self._parts.close()
                self._closed.set()
        if self._closer.is_alive() and self._closer is not threading.current_thread():
            self._closer.join(timeout=5)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is closed; returns whether it is."""
        return self._closed.wait(timeout)

    def get_policy_update_info(self, path: str) -> Mapping[str, Any]:
        """Reads the newest parameters; a file that is being replaced is read again."""
        for left in (2, 1, 0):
            try:
                found: Mapping[str, Any] = load_file(self._path_policy / path)
            except FrameError:
                if not left:
                    raise
                time.sleep(0.05)
            else:
                return found
        raise AssertionError

    def send_stepdata(self, path: str, stepdata: Any) -> None:
        """Writes samples to a file."""
        save_block(self._path_data, path, stepdata)

    def send_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Makes metadata the result of the present task."""
        self._metadata = metadata

    # ---- called by the slave

    def deal_with_get_resource(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what this process offers."""
        return {"gpu": 0, "cpu": os.cpu_count() or 1, "busy": not self._ended.is_set()}

    def deal_with_collector_start(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Begins a task; parts of an earlier task with the same config are used again."""
        info = data["task_info"]
        with self._working:
            wanted = info["config"], info.get("collector_index", 0)
            if self._parts is None or wanted != self._built_of:
                if self._parts is not None:
                    self._parts.close()
                self._parts, self._built_of = self._create_collector(info), wanted
                self._stamp, self._looked_at = (0, 0), 0.0
            self._task_info, self._blocks = info, 0
            self._counts = dict.fromkeys(self._counts, 0)
            self._ended.clear()
        return {"message": "ok"}

    def deal_with_collector_data(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Collects a block, or evaluates; returns the metadata.

        Raises:
            ClosedError: no task runs, or it was closed meanwhile.
        """
        if self._ended.is_set() or self._parts is None:
            raise ClosedError("no task runs: it was closed, or none was started")
        with self._working:
            self._update_policy()
            if self._task_info["eval_flag"]:
                self._evaluate(data)
            else:
                self._collect(data)
            return self._metadata

    def deal_with_collector_close(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ends the present task, at any time; with `shutdown`, the comm collector closes too."""
        self._ended.set()
        if data.get("shutdown"):
            self._closer = threading.Thread(target=self.close, name="dicore-close", daemon=True)
            self._closer.start()
        return {"message": "ok"}

    # ---- one task

    def _update_policy(self) -> None:
        """Loads the newest parameters if the file has changed and the interval is over."""
        assert self._parts is not None
        now = time.monotonic()
        name = f"{self._task_info['policy_id']}.frame"
        if now - self._looked_at < self._interval and self._parts.version >= 0:
            return
        self._looked_at = now
        try:
            status = (self._path_policy / name).stat()
        except FileNotFoundError:
            return
        stamp = status.st_mtime_ns, status.st_ino
        if stamp != self._stamp:
            self._parts.load(self.get_policy_update_info(name))
            self._stamp = stamp

    def _collect(self, info: Mapping[str, Any]) -> None:
        assert self._parts is not None
        collector, counts = self._parts.collector, self._counts
        before = collector.envstep, collector.total_episode_count
        data = self._parts.collect(self._task_info["amount"], info, self._ended.is_set)
        if not data:
            raise ClosedError("the task was closed")
        samples = without_origin(data)
        name = f"{self._task_info['task_id']}_{uuid.uuid4().hex[:12]}.frame"
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
        })  # fmt: skip

    def _evaluate(self, info: Mapping[str, Any]) -> None:
        assert self._parts is not None
        name = f"{self._task_info['task_id']}.policy.frame"
        state = self._parts.policy.collect_mode.state_dict()
        save_file(self._path_policy / name, {"version": self._parts.version, "state": state})
        result = self._parts.evaluate(info, self._ended.is_set)
        if getattr(result, "interrupted", False):
            raise ClosedError("the task was closed")
        self.send_metadata({
            "eval_flag": True,
            "task_id": self._task_info["task_id"],
            "policy_iter": self._parts.version,
            "policy_path": name,
            "mean_return": float(result.mean_return),
            "returns": np.asarray(result.returns, np.float64),
            "stop": bool(result.stop),
            "collector_done": True,
        })  # fmt: skip
