"""Several collector processes as one collector, which a training loop calls like a serial one.

Off-policy, each process collects ahead of training: when samples of it are used, it is told to
collect again, with the newest parameters. On-policy, all collect together with the present ones,
or, with `ahead`, while an update is made for the next one: samples are one update old.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.config import RunConfig
from dicore.data import Batch, State, StateDict
from dicore.interfaces.policy import facts_of
from dicore_dist.coordinator.crew import LOOK, Call, Crew, Wait, Worker
from dicore_dist.links.ray_runtime import RayRuntime
from dicore_dist.parallel.config import system_of
from dicore_dist.workers.processes import raise_failure
from dicore_dist.workers.weights import Publisher
from dicore_plugins.collectors.base import EpisodeStatistics
from dicore_plugins.collectors.block import from_plain, joined_blocks
from dicore_plugins.collectors.budget import env_steps_of

if TYPE_CHECKING:
    from torch import nn

    from dicore.data import Columns, Tree
    from dicore.interfaces.policy import CollectMode
    from dicore.run import LogHub
    from dicore_dist.workers.roles import Collected

__all__ = ["CollectorGroup"]

_LOG = logging.getLogger("dicore.parallel")


class CollectorGroup:
    """Collector processes; implements `ISerialCollector`.

    Args:
        cfg: The bound config of the run.
        runtime: Starts the processes.
        mode: Collect mode of the policy that is trained.
        model: Network that was given instead of the configured one.
        log: Receives statistics; None: no log.
        folder: Folder for what the processes print.
        copies: Copy samples out of the object store; needed where they are kept or changed.

    Attributes:
        envstep: Env steps of the samples that were used so far.
        total_episode_count: Episodes that ended in them.
        total_train_sample_count: Samples that were used so far.
        on_look: Called with what is waited for, many times a second while waiting.
    """

    def __init__(
        self,
        cfg: RunConfig,
        runtime: RayRuntime,
        mode: CollectMode,
        *,
        model: nn.Module | None = None,
        log: LogHub | None = None,
        folder: Path,
        copies: bool = True,
    ) -> None:
        self._cfg, self.system = cfg, system_of(cfg)
        self._runtime, self._log = runtime, log
        self._publisher = Publisher(mode, runtime.put)
        self._copies = copies
        facts = facts_of(mode)
        by_episode = facts.sample_len == "episode"
        self._stride = None if by_episode else facts.sample_stride
        self._first = 0 if by_episode else int(facts.sample_len) - facts.sample_stride
        self._together = bool(cfg.policy.on_policy)
        self.envstep = self.total_episode_count = self.total_train_sample_count = 0
        self.statistics = EpisodeStatistics()
        self._waited, self._waits_since = 0.0, 0.0
        self._last_log_iter = -1
        self._turn = 0
        self._told: dict[int, dict[str, object]] = {}  # to do while training, by process
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._closed = False
        self.on_look: Callable[[str], None] = _nothing
        self.crew = Crew(cfg, runtime, model=model, say=self._say, folder=folder)
        self.crew.resize(self.system.collector_num)

    def _say(self, text: str) -> None:
        if self._log is not None:
            self._log.log_text(text, channel="parallel")

    # ---- collecting

    def reset_policy(self, policy: object = None) -> None:
        """Does nothing: the processes have policies of their own."""

    def collect_batch(
        self,
        *,
        n_sample: int | None = None,
        n_episode: int | None = None,
        train_iter: int = 0,
        random_collect: bool = False,
        policy_kwargs: Mapping[str, object] | None = None,
        should_stop: Callable[[], bool] | None = None,
        **_: object,
    ) -> Batch:
        """Returns the next samples; an empty batch if `should_stop` ended the wait.

        Args:
            n_sample: Samples of one collect; together with other processes if on-policy.
            n_episode: The same in episodes.
            train_iter: Updates so far: the number of the present parameters.
            random_collect: Act at random; all processes share the samples.
            policy_kwargs: Keyword arguments of the policy's forward.
            should_stop: Asked while waiting.

        Raises:
            StalledError: no process delivers samples.
            DicoreError: an environment or a policy failed, or a process keeps dying.
        """
        self._publisher.publish(train_iter)
        unit, count = ("n_sample", n_sample) if n_episode is None else ("n_episode", n_episode)
        amount: dict[str, Any] = {"policy_kwargs": dict(policy_kwargs or {})}
        if random_collect:
            amount["random_collect"] = True
        self._waits_since = time.monotonic()
        try:
            if random_collect or self._together:
                found = self._collected_together(unit, count, amount, should_stop)
            else:
                if count is not None:
                    amount[unit] = count
                found = self._next(amount, should_stop)
        finally:
            self._waited, self._waits_since = self.waited, 0.0
        return self._used(found, train_iter)

    @property
    def waited(self) -> float:
        """Seconds of waiting for samples, with the wait that goes on."""
        now = time.monotonic()
        return self._waited + (now - self._waits_since if self._waits_since else 0.0)

    def samples_within(self, env_steps: int) -> int:
        """Returns the number of samples that `env_steps` more steps complete."""
        return env_steps if self._stride is None else env_steps // self._stride

    def _call(self, worker: Worker, amount: dict[str, object]) -> bool:
        """Tells a process to collect, unless those under way reach the budget of env steps."""
        process, newest = worker.process, self._publisher
        assert process is not None
        steps, left = self._expected(worker, amount), self._steps_left()
        if left <= 0:
            return False
        if left < math.inf and (steps > left or self._stride is None):
            amount, steps = {**amount, "within": int(left)}, min(steps, int(left))
        if self.system.eps_spread and len(self.crew.workers) > 1:
            amount = self._spread(worker, amount)
        facts, columns = process.collect(newest.address, newest.version, amount)
        worker.calls.append(Call(facts, columns, steps))
        return True

    def _expected(self, worker: Worker, amount: Mapping[str, Any]) -> int:
        """Returns the most env steps of a collect."""
        first = 0 if worker.env_step or worker.calls else self._first
        together = int(self._cfg.env.collector_env_num)
        return env_steps_of(amount.get("n_sample") or 0, self._stride or 0, first, together)

    def _steps_left(self) -> float:
        """Returns the env steps of the budget that nobody was told to make."""
        most = self._cfg.pipeline.max_env_step
        told = sum(call.env_steps for worker in self.crew.workers for call in worker.calls)
        return math.inf if most is None else most - self.envstep - told

    def _spread(self, worker: Worker, amount: dict[str, Any]) -> dict[str, object]:
        """Returns what to collect with an epsilon of this process (Horgan et al. 2018)."""
        eps = amount["policy_kwargs"].get("eps")
        if eps is None:
            return amount
        power = 1 + self.system.eps_spread * worker.index / (len(self.crew.workers) - 1)
        return {**amount, "policy_kwargs": {**amount["policy_kwargs"], "eps": eps**power}}

    def _next(
        self, amount: dict[str, Any], should_stop: Callable[[], bool] | None
    ) -> list[tuple[Worker, Collected, Columns]]:
        """Returns the next samples of one process; each has `queue` collects to do meanwhile."""
        wait = Wait(self.crew, should_stop, self.system.stall_timeout)
        while wait.goes_on():
            self.on_look("samples")
            able = self.crew.able(wait.now)
            if self.system.reproducible and any(
                each.expected and not each.able for each in self.crew.workers
            ):
                time.sleep(LOOK)  # else the order would depend on which of them starts first
                continue
            for worker in able:
                while len(worker.calls) < self.system.queue and self._call(worker, amount):
                    pass
            waiting = [each for each in self._in_turn() if each.calls]
            asked = waiting[:1] if self.system.reproducible else waiting
            if (done := self._delivered(asked)) is not None:
                worker, facts, _ = done
                if facts and not facts["count"]:  # its last env steps completed no sample
                    self._count(worker, facts)
                    continue
                self._turn = worker.index + 1
                return [done]
        return []

    def _in_turn(self) -> list[Worker]:
        """Returns the processes, beginning with the one whose turn it is."""
        turn = self._turn % len(self.crew.workers)
        return [*self.crew.workers[turn:], *self.crew.workers[:turn]]

    def _delivered(self, asked: list[Worker]) -> tuple[Worker, Collected, Columns] | None:
        """Returns the first samples that one of the processes has delivered; None: none yet."""
        if not asked:
            time.sleep(LOOK)
            return None
        ready = self._runtime.ready([each.calls[0].facts for each in asked], LOOK)
        for worker in asked:
            if worker.calls[0].facts in ready:
                return self._taken(worker)
        return None

    def _taken(self, worker: Worker) -> tuple[Worker, Collected, Columns] | None:
        """Takes the oldest samples of a process that has delivered them."""
        call = worker.calls.popleft()
        try:
            (failure, facts), columns = self._runtime.get([call.facts, call.columns])
        except Exception as error:
            if not self._runtime.is_death(error):
                raise
            worker.calls.appendleft(call)
            self.crew.lost(worker, "its process ended")
            return None
        if failure is not None:
            raise_failure(f"collector {worker.index}", failure)
        self.crew.delivered(worker)
        return worker, facts, columns

    def _collected_together(
        self,
        unit: str,
        count: int | None,
        amount: Mapping[str, object],
        should_stop: Callable[[], bool] | None,
    ) -> list[tuple[Worker, Collected, Columns]]:
        """Returns the samples of all processes, which share the number to collect."""
        if count is None:
            count = self._cfg.policy.collect.n_sample or 1
        number = len(self.crew.workers)
        unit_size = self._cfg.env.collector_env_num if unit == "n_sample" else 1
        parts = _shares(count, number, unit_size)
        told = {each.index: {**amount, unit: parts[each.index]} for each in self.crew.workers}
        found: dict[int, tuple[Worker, Collected, Columns]] = {}
        wait = Wait(self.crew, should_stop, self.system.stall_timeout)
        if told != self._told:  # what was told ahead is to collect something else
            for worker in self.crew.workers:
                worker.calls.clear()
        while wait.goes_on():
            self.on_look("samples")
            for worker in self.crew.able(wait.now):
                if parts[worker.index] and worker.index not in found and not worker.calls:
                    self._call(worker, told[worker.index])
            asked = [each for each in self.crew.workers if each.calls]
            if (done := self._delivered(asked)) is not None:
                found[done[0].index] = done
            if len(found) == sum(map(bool, parts)):
                self._told = told if self.system.ahead else {}
                for worker in self.crew.able(wait.now) if self._told else ():
                    self._call(worker, told[worker.index])
                return [found[index] for index in sorted(found)]
        self._told = {}
        return []

    def _used(self, found: Iterable[tuple[Worker, Collected, Columns]], train_iter: int) -> Batch:
        """Counts the samples, logs the statistics and returns the samples of all processes."""
        batches, ends, rows = [], [], 0
        for worker, facts, columns in found:
            if not facts:
                continue
            self._count(worker, facts)
            if not facts["count"]:
                continue
            batches.append(Batch(from_plain(columns), facts["count"]))
            ends.append(np.asarray(facts["ends"], np.int64) + rows)
            rows += 0 if _are_rows_of_envs(batches[0]) else facts["count"]
        if not batches:
            return Batch({}, 0)
        self._ends = np.unique(np.concatenate(ends))
        if self._log is not None and self.statistics.episode_count:
            self._report(train_iter)
        if len(batches) == 1:
            return batches[0].map(_copied) if self._copies else batches[0]
        return joined_blocks(batches)

    def _count(self, worker: Worker, facts: Collected) -> None:
        self.envstep += facts["env_step"]
        self.total_episode_count += facts["episode_count"]
        self.total_train_sample_count += facts["count"]
        self.statistics.train_sample_count += facts["count"]
        for value, length in zip(facts["returns"], facts["lengths"], strict=True):
            self.statistics.add({"eval_episode_return": value, "episode_length": length})
        worker.env_step += facts["env_step"]
        worker.version, worker.seconds = facts["version"], facts["seconds"]

    def _report(self, train_iter: int) -> None:
        freq = self._cfg.policy.collect.collector.get("collect_print_freq", 1)
        last = self._last_log_iter
        if last >= 0 and train_iter < last + freq:
            return
        self._last_log_iter = train_iter
        versions = [each.version for each in self.crew.workers if each.version >= 0]
        totals = {
            "total_envstep_count": float(self.envstep),
            "total_episode_count": float(self.total_episode_count),
            "total_train_sample_count": float(self.total_train_sample_count),
            "parallel/restarts": float(sum(each.restarts for each in self.crew.workers)),
            "parallel/lag": float(train_iter - min(versions, default=train_iter)),
            "parallel/learner_waited": self.waited,
        }
        self.statistics.report(self._log, totals, train_iter)
        self.statistics.clear()

    @property
    def trajectory_end_idx(self) -> npt.NDArray[np.int64]:
        """int64 [E]: the samples of the last call that end an episode, or are an env's last."""
        return self._ends

    # ---- state and end

    def state_dict(self) -> StateDict:
        """Returns the counters; running episodes are not saved, they begin anew when resumed."""
        return {
            "envstep": self.envstep,
            "total_episode_count": self.total_episode_count,
            "total_train_sample_count": self.total_train_sample_count,
            "last_log_iter": self._last_log_iter,
            "epoch": self.crew.epoch,
            "statistics": self.statistics.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; processes get other episodes than before."""
        self.envstep = int(state["envstep"])
        self.total_episode_count = int(state["total_episode_count"])
        self.total_train_sample_count = int(state["total_train_sample_count"])
        self._last_log_iter = int(state["last_log_iter"])
        self.crew.epoch = int(state["epoch"])
        self.statistics.load_state_dict(state["statistics"])
        self._tell_lost()

    def _tell_lost(self) -> None:
        """Says what a resumed run lacks: the first env steps of episodes complete no sample."""
        cfg = self._cfg
        steps = len(self.crew.workers) * int(cfg.env.collector_env_num) * self._first
        if not steps or cfg.pipeline.max_env_step is None:
            return
        learn, block = cfg.policy.learn, cfg.policy.collect.get("n_sample") or 1
        per_step = learn.get("update_per_step")
        if per_step is None:
            per_step = (learn.get("update_per_collect") or 0) / block
        updates = f", about {math.ceil(steps * per_step)} updates" if per_step else ""
        _LOG.warning(
            "resumed at env step %d: the running episodes of collectors are lost, and their next"
            " %d env steps complete no sample; the run has so many samples less%s",
            self.envstep, steps, updates,
        )  # fmt: skip

    def close(self) -> None:
        """Ends the processes, within seconds; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self.crew.close()


def _copied(leaf: Tree) -> object:
    """Returns a copy of an array; stacked frames were unpacked into memory of their own."""
    return leaf.copy() if leaf.__class__ is np.ndarray else leaf


def _nothing(waits: str) -> None:
    """What is called while waiting, unless somebody wants to know."""


def _shares(count: int, number: int, size: int) -> list[int]:
    """Returns how many of `count` each of `number` processes collects, in multiples of `size`.

    The last one gets fewer if `count` is no multiple, so that steps of all its environments are
    used: what a process collects beyond its share is dropped.
    """
    steps = math.ceil(count / size)
    parts = [(steps // number + (index < steps % number)) * size for index in range(number)]
    parts[min(steps, number) - 1] -= steps * size - count
    return parts


def _are_rows_of_envs(batch: Batch) -> bool:
    """Returns whether each row has a step of each environment: columns [T, N, ...]."""
    return np.ndim(batch.get("env_id")) > 1
