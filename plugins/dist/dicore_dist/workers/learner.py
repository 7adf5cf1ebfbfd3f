"""The comm learner: connects a learner to a coordinator, by tasks.

    coordinator                          comm learner                       learner
    learner_start_task      ──►  deal_with_learner_start   creates it, starts its thread
    learner_get_data_task   ──►  deal_with_get_data        ◄── demand ── get_data, which blocks
    learner_learn_task      ──►  deal_with_learner_learn   ── samples ─► trains
                            ◄──  learn info                ◄── send_learn_info (a hook)
    learner_close_task      ──►  deal_with_learner_close

Until the learner is done, the second and third task repeat; then the comm learner waits for the
next `learner_start_task`.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import attrs
import numpy as np

from dicore.data import Batch
from dicore.errors import ClosedError, DicoreError, UsageError
from dicore_dist.links.blocks import BlockCache
from dicore_dist.links.exchange import Link, file_link
from dicore_dist.links.master import CallbackSlave
from dicore_dist.workers.resident import Resident
from dicore_dist.workers.shown import Shown
from dicore_dist.workers.worker_config import WorkerConfig
from dicore_plugins.collectors.block import joined_blocks

if TYPE_CHECKING:
    from dicore.data import State
    from dicore.interfaces.learner import ILearner
    from dicore_dist.links.blocks import BlockMeta

__all__ = ["BaseCommLearner", "FlaskFileSystemLearner", "LearnerSlave", "TaskLearner"]

T = TypeVar("T")

_LOG = logging.getLogger("dicore.comm")
_POLL_S: Final = 0.1
_SAVE_S: Final = 10.0
"""Seconds between two saves of the learner's whole state."""


class LearnerSlave(CallbackSlave):
    """Receives the tasks of the coordinator and calls the comm learner's functions."""

    concurrent = frozenset({"learner_close_task", "resource_task"})
    callbacks: ClassVar[Mapping[str, str]] = {
        "resource_task": "deal_with_get_resource",
        "learner_start_task": "deal_with_learner_start",
        "learner_get_data_task": "deal_with_get_data",
        "learner_learn_task": "deal_with_learner_learn",
        "learner_close_task": "deal_with_learner_close",
    }


class BaseCommLearner(abc.ABC):
    """Holds a learner and gives it data; subclasses say by which channels.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    def __init__(self, cfg: object = None) -> None:
        self._cfg = cfg
        self._learner: Any = None
        self._worker: Any = None
        self._shown = Shown()

    @property
    @abc.abstractmethod
    def hooks4call(self) -> Sequence[object] | Mapping[str, object]:
        """Hooks that send the policy and the learn info; a list, or a dict by name."""

    @abc.abstractmethod
    def start(self) -> None:
        """Starts to serve tasks."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stops, also while it waits for data; later calls do nothing."""

    @abc.abstractmethod
    def get_data(self, batch_size: int) -> Sequence[BlockMeta]:
        """Blocks until `batch_size` samples exist and returns their metadata."""

    @abc.abstractmethod
    def send_policy(self, state_dict: State) -> None:
        """Publishes parameters for collectors, atomically."""

    @abc.abstractmethod
    def send_learn_info(self, learn_info: Mapping[str, object]) -> None:
        """Sends `learner_step`, `priority_info` and `learner_done`."""

    def _create_learner(self, task_info: Mapping[str, object]) -> Any:
        """Creates the learner of a task, with the hooks of `hooks4call`."""
        worker = WorkerConfig.of(task_info)
        policy = worker.policy
        self._worker = worker
        section: Any = worker.cfg.policy.learn.learner  # has options of its own
        budget = worker.cfg.pipeline.max_train_iter
        if budget is not None:
            section = attrs.evolve(section, train_iterations=budget)
        mode = _annealed(policy, lambda: self._learner)
        learner = section.build(worker.ctx, policy=mode)
        learner.exp_name = None
        for found in learner._hooks.values():  # noqa: SLF001 - only the run's process saves
            found[:] = [each for each in found if not each.name.startswith("save_ckpt")]
        learner.collect_state = policy.collect_mode.state_dict
        learner.tb_logger = self._shown
        hooks = self.hooks4call
        for hook in hooks.values() if isinstance(hooks, Mapping) else hooks:
            learner.register_hook(hook)
        return learner


def _annealed(policy: Any, learner: Callable[[], Any]) -> Any:
    """Returns a policy's learn mode; with options that depend on progress, it sets them."""
    mode, settings = policy.learn_mode, policy.command_mode.get_setting_learn
    if not settings({"envstep": 0, "learner_step": 0}):
        return mode

    def forward(data: object, **kwargs: object) -> Any:
        at = {"envstep": max(learner().envstep, 0), "learner_step": learner().last_iter}
        return mode.forward(data, **settings(at), **kwargs)

    return mode._replace(forward=forward)


class _Hook:
    """Calls a function of the comm learner once in `freq` updates; 0: after each batch."""

    def __init__(
        self, name: str, position: str, call: Callable[[ILearner], None], freq: int = 0
    ) -> None:
        self.name, self.position, self.priority = name, position, 100
        self._call, self._freq, self._called_at = call, freq, 0

    def __call__(self, engine: Any) -> None:
        at = engine.last_iter // self._freq if self._freq else -1
        if at == -1 or at != self._called_at:
            self._called_at = at
            self._call(engine)


class TaskLearner(Resident, BaseCommLearner):
    """A comm learner; how it is reached and where it stores is its link.

    It is resident: when a task has ended it waits for the next one, until `close`.

    Args:
        link: Receives tasks, and stores samples, parameters and state.
        send_policy_freq: Updates between two published versions of the parameters.
        send_learn_info_freq: Updates between two learn infos, and updates of one demand of data.
        cache: Samples that are kept in memory after they were read, in MiB.
    """

    def __init__(
        self,
        link: Link,
        send_policy_freq: int = 1,
        send_learn_info_freq: int = 10,
        cache: int = 512,
    ) -> None:
        names = LearnerSlave.callbacks.values()
        functions = {each: self._noting("learner", getattr(self, each)) for each in names}
        slave = LearnerSlave(callback_fn=functions, transport=link.transport)
        Resident.__init__(self, slave)
        BaseCommLearner.__init__(self)
        self._policies, self._states = link.policies, link.saved
        self._policy_freq, self._info_freq = send_policy_freq, send_learn_info_freq
        self._blocks = BlockCache(link.data, cache << 20)
        self._data_demand_queue: queue.Queue[Mapping[str, Any]] = queue.Queue(1)
        self._data_result_queue: queue.Queue[Sequence[BlockMeta]] = queue.Queue(1)
        self._learn_info_queue: queue.Queue[Mapping[str, Any]] = queue.Queue(1)
        self._task_info: Mapping[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._saved_at, self._saved, self._published, self._first = 0.0, -1, -1, 0
        self._loading, self._owes_info = threading.Lock(), False
        self._pending: list[Batch] = []
        self._priorities: list[Mapping[str, object]] = []

    @property
    def hooks4call(self) -> Sequence[object]:
        """Publishes the policy before the first and after updates; sends the learn info.

        The info is sent when the samples of a demand are used up. On-policy, the policy is
        published after each update.
        """
        policy, info = self._publish, self._inform
        freq = 1 if self._on_policy else self._policy_freq
        return [
            _Hook("send_policy", "before_run", policy),
            _Hook("send_policy", "after_iter", policy, freq),
            _Hook("note_priority", "after_iter", self._note_priority),
            _Hook("send_learn_info", "after_iter", info),
            _Hook("send_policy", "after_run", policy),
            _Hook("send_learn_info", "after_run", info),
        ]

    @property
    def _on_policy(self) -> bool:
        return self._worker is not None and bool(self._worker.cfg.policy.on_policy)

    # ---- called by the learner

    def get_data(self, batch_size: int) -> Sequence[BlockMeta]:
        """Asks for samples and waits for their metadata.

        Raises:
            ClosedError: the task was ended meanwhile.
        """
        demand = {"batch_size": batch_size, "cur_learner_iter": self._learner.last_iter}
        self._put(self._data_demand_queue, demand)
        metas: Sequence[BlockMeta] = self._take(self._data_result_queue)
        return metas

    def send_policy(self, state_dict: State) -> None:
        """Stores the parameters of the policy; readers see the old or the new ones."""
        self._policies.save(f"{self._task_info['policy_id']}.frame", state_dict)

    def send_learn_info(self, learn_info: Mapping[str, object]) -> None:
        """Hands the info to the task that waits for it."""
        self._put(self._learn_info_queue, learn_info)

    def _next_batch(self, batch_size: int) -> Batch | None:
        """Returns the next batch; of one demand come several. None ends the learner."""
        with self._loading:  # the dataloader may have several threads
            if not self._pending:
                try:
                    metas = self.get_data((batch_size or 1) * self._info_freq)
                except ClosedError:
                    return None
                self._pending = self._batches(metas, batch_size)
                self._owes_info = True
            return self._pending.pop(0)

    def _batches(self, metas: Sequence[BlockMeta], batch_size: int) -> list[Batch]:
        """Reads the samples of a demand; on-policy, they are one batch."""
        if self._on_policy:
            batch = joined_blocks([self._blocks.read(str(meta["file_path"])) for meta in metas])
            self._blocks.clear()
            return [batch]
        whole = self._blocks.gather(metas)
        starts = range(0, len(whole), batch_size)
        return [whole[start : start + batch_size] for start in starts]

    def _publish(self, engine: Any) -> None:
        if engine.last_iter == self._published:
            return
        self._check_epoch()
        self._published = engine.last_iter
        origin = {"job_id": self._task_info["job_id"], "epoch": self._epoch}
        state = {"version": engine.last_iter, "state": engine.collect_state()}
        self.send_policy({**origin, **state})

    # ---- of several learners with one policy file, the newest task is right

    @property
    def _epoch(self) -> int:
        return int(self._task_info.get("number", 0))

    def _begin_epoch(self) -> None:
        """Says which learner writes the files of the policy from now on."""
        name = f"{self._task_info['policy_id']}.epoch"
        self._states.save(name, {"job_id": self._task_info["job_id"], "epoch": self._epoch})

    def _check_epoch(self) -> None:
        """Raises an error if another learner has begun a later task: this one was replaced."""
        found = self._states.load(f"{self._task_info['policy_id']}.epoch")
        if found["job_id"] == self._task_info["job_id"] and found["epoch"] > self._epoch:
            raise DicoreError(
                f"this learner, of task {self._epoch}, was replaced by that of task"
                f" {found['epoch']}"
            )

    def _note_priority(self, engine: ILearner) -> None:
        if info := engine.priority_info:
            self._priorities.append({key: np.asarray(value) for key, value in info.items()})

    def _inform(self, engine: ILearner) -> None:
        done = engine.learn_info["learner_done"]
        if self._ended.is_set() or not self._owes_info or (self._pending and not done):
            return
        self._owes_info = False
        found, self._priorities = self._priorities, []
        names = found[0].keys() if found else ()
        priority = {name: np.concatenate([each[name] for each in found]) for name in names}
        info = {**engine.learn_info, "priority_info": priority, "shown": self._shown.taken()}
        if done or time.monotonic() - self._saved_at > _SAVE_S:
            self._save_state(engine)
        with contextlib.suppress(ClosedError):
            self.send_learn_info(info)

    def _save_state(self, engine: Any) -> None:
        """Writes the whole state of the learner, from which a restarted one goes on."""
        self._check_epoch()
        state = {"job_id": self._task_info["job_id"], "first": self._first}
        self._states.save(self._state_name, {**state, "learner": engine.state_dict()})
        self._saved_at, self._saved = time.monotonic(), engine.last_iter

    @property
    def _state_name(self) -> str:
        return f"{self._task_info['policy_id']}.learner.frame"

    # ---- called by the slave

    def deal_with_learner_start(self, data: Mapping[str, Any]) -> Mapping[str, object]:
        """Creates the learner of a task and starts its thread."""
        if not self._ended.is_set():
            raise UsageError(f"task '{self._task_info.get('task_id')}' is still running")
        self._task_info, ends = data["task_info"], self._ends
        self.on_task(self._task_info)
        for each in (self._data_demand_queue, self._data_result_queue, self._learn_info_queue):
            with contextlib.suppress(queue.Empty):
                each.get_nowait()
        self._pending, self._priorities, self._error = [], [], None
        self._published, self._owes_info, self._saved_at = -1, False, time.monotonic()
        self._learner = self._create_learner(self._task_info)
        self._learner.get_data = self._next_batch
        self._begin_epoch()
        self._continue()
        self._saved = self._learner.last_iter
        self._begin_task(ends)
        self._thread = threading.Thread(target=self._run, name="dicore-learner", daemon=True)
        self._thread.start()
        steps = {"learner_step": self._learner.last_iter, "first_step": self._first}
        return {"message": "ok", **steps}

    def deal_with_get_data(self, data: Mapping[str, Any]) -> Mapping[str, object]:
        """Waits for the learner's demand and returns it."""
        demand = self._take(self._data_demand_queue)
        ids = {name: self._task_info[name] for name in ("task_id", "buffer_id")}
        return {**ids, **demand}

    def deal_with_learner_learn(self, data: Mapping[str, Any]) -> Mapping[str, object]:
        """Hands samples to the learner and waits for the learn info; closes it when it is done."""
        if self._learner is None:
            raise ClosedError("no task runs: none was started")
        self._learner.envstep = int(data.get("env_step", -1))
        self._put(self._data_result_queue, data["data"])
        info = self._take(self._learn_info_queue)
        ids = {name: self._task_info[name] for name in ("task_id", "buffer_id")}
        if info["learner_done"]:
            self._end_task()
        return {"info": info, **ids}

    def deal_with_learner_close(self, data: Mapping[str, object]) -> Mapping[str, object]:
        """Ends the present task, at any time; with `shutdown`, the comm learner closes too."""
        step = 0 if self._learner is None else self._learner.last_iter
        self._deal_with_close(data)
        return {"message": "ok", "learner_step": step}

    # ---- the thread of the learner

    def _continue(self) -> None:
        """Loads the state of this task that an earlier process saved, or a given checkpoint."""
        with contextlib.suppress(FileNotFoundError):
            saved = self._states.load(self._state_name)
            if saved["job_id"] == self._task_info["job_id"]:
                self._first = int(saved.get("first", 0))
                self._learner.load_state_dict(saved["learner"])
                _LOG.info("the learner goes on at update %d", self._learner.last_iter)
                return
        for hook in self._learner._hooks["before_run"]:  # noqa: SLF001 - its updates count from here
            if hook.name.startswith("load_ckpt"):
                hook(self._learner)
        self._first = self._learner.last_iter

    def _run(self) -> None:
        learner = self._learner
        try:
            learner.start()
        except BaseException as error:  # the task that waits for it fails with it
            _LOG.debug("the learner failed", exc_info=True)
            self._error = error
            learner.close()

    def _end_task(self) -> None:
        self._ended.set()
        if self._learner is not None:
            self._learner.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10)
            if not self._thread.is_alive():
                self._save_rest()
                if self._error is not None:  # of a hook: the updates are made, the run has them
                    self._note(self._error)
                    _LOG.error("the learner failed after its last update: %s", self._error)
        self._blocks.clear()

    def _release(self) -> None:
        self._learner = None

    def _save_rest(self) -> None:
        """Saves the updates since the last save: another task may go on from there."""
        if self._error is None and self._learner.last_iter > self._saved:
            try:
                self._save_state(self._learner)
            except (DicoreError, OSError) as error:
                _LOG.warning("the last updates are not saved: %s", error)

    def _gpus(self) -> int:
        import torch

        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    def _put(self, into: queue.Queue[T], item: T) -> None:
        while True:
            self._check()
            with contextlib.suppress(queue.Full):
                into.put(item, timeout=_POLL_S)
                return

    def _take(self, source: queue.Queue[T]) -> T:
        while True:
            is_over = self._thread is not None and not self._thread.is_alive()
            with contextlib.suppress(queue.Empty):
                return source.get(timeout=_POLL_S)
            self._check()
            if is_over:
                raise DicoreError("the learner has ended without the end of its task")

    def _check(self) -> None:
        """Raises the learner's error, or `ClosedError` if no task runs."""
        if self._error is not None:
            error, self._error = self._error, None
            self._ended.set()
            raise error
        if self._ended.is_set():
            raise ClosedError("no task runs: it was closed, or none was started")


class FlaskFileSystemLearner(TaskLearner):
    """A comm learner over HTTP and files: metadata and info by HTTP, samples and policy by files.

    Args:
        host: Name or address at which the coordinator reaches this process.
        port: Port; 0: any free one.
        path_data: Folder of the samples, shared with the collectors.
        path_policy: Folder of the parameters, shared with the collectors.
        send_policy_freq: Updates between two published versions of the parameters.
        send_learn_info_freq: Updates between two learn infos, and updates of one demand of data.
        cache: Samples that are kept in memory after they were read, in MiB.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        path_data: str = "data",
        path_policy: str = "policy",
        send_policy_freq: int = 1,
        send_learn_info_freq: int = 10,
        cache: int = 512,
        token: str = "",
    ) -> None:
        link = file_link(host, port, path_data, path_policy, token)
        super().__init__(link, send_policy_freq, send_learn_info_freq, cache)
