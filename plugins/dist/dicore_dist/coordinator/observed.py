"""What the coordinator's process knows of a training: log, counters, checkpoints."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dicore.config import RunConfig
from dicore.run.env_factory import BuildContext, spec_of
from dicore_dist.coordinator.coordinator import Coordinator, Observer
from dicore_dist.links.exchange import Store
from dicore_plugins.collectors.base import EpisodeStatistics

if TYPE_CHECKING:
    from torch import nn

    from dicore.data import State, StateDict
    from dicore.run import Run
    from dicore_dist.links.blocks import BlockMeta

__all__ = ["POLICY", "Observed"]

POLICY: Final = "policy"
"""Name of the parameters in the stores."""


class Observed(Observer):
    """The policy, the run's log and counters, and its checkpoints.

    Args:
        cfg: The bound config.
        run: The run.
        store: The parameters.
        saved: The learner's own state.
        job_id: Names the training.
        model: Network instead of the configured one; None: that.
    """

    def __init__(
        self,
        cfg: RunConfig,
        run: Run,
        store: Store,
        saved: Store,
        job_id: str,
        model: nn.Module | None,
    ) -> None:
        self._run, self._store, self._job_id = run, store, job_id
        self._saved = saved
        self._stopped = False
        ctx = BuildContext(spec_of(cfg.env, cfg.seed), seed=cfg.seed, run=run)
        self.policy = cfg.policy.build(ctx, model=model)
        self._learner = cfg.policy.learn.learner.build(ctx, policy=self.policy.learn_mode)
        self._coordinator: Any = None
        self._best, self._shown = float("-inf"), 0
        self._lock = threading.Lock()
        self._episodes, self._reported_at = EpisodeStatistics(), -1
        self._report_freq = int(cfg.policy.collect.collector.get("collect_print_freq", 1))
        self._envs = _Remembered()
        run.register("evaluator", self._envs)
        run.register("learner", self._learner, counts={"train_iter": self._updates})
        run.register("coordinator", self, counts={"env_step": self._env_steps})

    def of(self, coordinator: Coordinator) -> None:
        """Observes what a coordinator is told."""
        self._coordinator, self._shown = coordinator, int(coordinator.train_iter)
        coordinator.observers.append(self)
        coordinator.budget.of(self.policy.collect_mode)

    def state_dict(self) -> StateDict:
        """Returns the counters."""
        return {"env_step": self._env_steps(), "best": self._best}

    def load_state_dict(self, state: State) -> None:
        """Restores the best return; a restarted coordinator reads the counters in its journal."""
        self._best = float(state["best"])

    def _updates(self) -> int:
        return 0 if self._coordinator is None else int(self._coordinator.train_iter)

    def _env_steps(self) -> int:
        return 0 if self._coordinator is None else int(self._coordinator.env_step)

    def evaluated(self, result: Mapping[str, Any]) -> None:
        value, train_iter = float(result["value"]), int(result["policy_iter"])
        with self._lock:
            at = {"train_iter": max(0, train_iter), "env_step": self._env_steps()}
            found = {f"evaluator/{name}": each for name, each in result["statistics"].items()}
            self._run.log.log_scalars(found, **at)
            self._envs.layers = result.get("remembered") or ()
            if value > self._best:
                self._best = value
                self._load_learner()
                self._load(str(result["policy_path"]))
                self._learner.last_iter = max(0, train_iter)
                self._run.save_best(value)
            self._store.remove(str(result["policy_path"]))
            self._stopped = self._stopped or bool(result["stop"])

    def collected(self, meta: BlockMeta) -> None:
        with self._lock:
            episodes, train_iter = self._episodes, self._updates()
            for value, length in zip(meta["returns"], meta["lengths"], strict=True):
                episodes.add({"eval_episode_return": value, "episode_length": length})
            episodes.train_sample_count += int(meta["count"])
            due = self._reported_at < 0 or train_iter >= self._reported_at + self._report_freq
            if episodes.episode_count and due:
                self._reported_at = train_iter
                totals = {"total_envstep_count": float(self._env_steps())}
                episodes.report(self._run.log, totals, train_iter)
                episodes.clear()

    def learned(self, info: Mapping[str, Any]) -> None:
        with self._lock:
            for train_iter, scalars in info.get("shown", ()):
                if int(train_iter) <= self._shown:
                    continue  # a learner that was replaced makes its last updates again
                self._shown = int(train_iter)
                at = {"train_iter": int(train_iter), "env_step": self._env_steps()}
                self._run.log.log_scalars(scalars, **at)

    def finish(self) -> None:
        """Loads the last parameters, and saves them."""
        self._load_learner()
        with contextlib.suppress(FileNotFoundError):
            self._load(f"{POLICY}.frame")
        self._learner.last_iter = self._updates()
        best = self._best if self._best > float("-inf") else None
        counts = {"train_iter": self._updates(), "env_step": self._env_steps()}
        self._run.set_result(stop=self._stopped, best_return=best, **counts)
        self._run.save_checkpoint("final")

    def _load_learner(self) -> None:
        """Loads what the learner saved last: a checkpoint has target networks and optimizers."""
        with contextlib.suppress(FileNotFoundError):
            found = self._saved.load(f"{POLICY}.learner.frame")
            if found["job_id"] == self._job_id:
                self._learner.load_state_dict(found["learner"])

    def _load(self, name: str) -> None:
        found = self._store.load(name)
        if found.get("job_id", self._job_id) == self._job_id:  # else of an earlier training
            self.policy.collect_mode.load_state_dict(found["state"])


class _Remembered:
    """What the environments of the last evaluation remember, as a checkpoint has it of others."""

    def __init__(self) -> None:
        self.layers: Sequence[Any] = ()

    def state_dict(self) -> StateDict:
        """Returns it as the part `env` of an evaluator's state."""
        return {"env": {"layers": [list(each) for each in self.layers]}}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self.layers = state["env"]["layers"]
