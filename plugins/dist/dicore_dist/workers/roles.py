"""Collector and evaluator in a process of their own, independent of how they are called.

A role is built from the compiled config of the whole run: it makes the same parts as a serial run,
with seeds of its own. Shapes: B samples.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import attrs
import torch
from torch import nn

from dicore.config import RunConfig
from dicore.data import Tree
from dicore.run.random import hash_seed, seed_everything
from dicore_dist.parallel.config import system_of
from dicore_dist.workers.weights import Versioned
from dicore_plugins.collectors.block import plain_state
from dicore_plugins.collectors.budget import stopping_within
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.policies.base import mode_attribute
from dicore_registry import code_paths

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dicore.data import State

__all__ = ["CollectorRole", "EvaluatorRole", "RoleSpec"]


class Collected(TypedDict, total=False):
    """What a collector tells of its samples; empty if it was stopped."""

    count: int
    version: int
    env_step: int
    episode_count: int
    returns: list[float]
    lengths: list[int]
    ends: npt.NDArray[np.int64]
    seconds: float


@dataclass(frozen=True)
class RoleSpec:
    """What a role is built from.

    Args:
        cfg: The bound config of the run.
        index: Number of this process among those with the same role.
        epoch: Number of this process among all that the run ever started, from 1; environments of
            different processes have different ids, seeds and random numbers.
        model: Network to use instead of the configured one.
        state: State of the evaluator to continue from; None: it begins.
    """

    cfg: RunConfig
    index: int = 0
    epoch: int = 0
    model: nn.Module | None = None
    state: Any = None

    def __reduce__(self) -> tuple[object, ...]:
        given = self.cfg, self.index, self.epoch, self.model, self.state
        return _elsewhere, (code_paths.state(), given)

    def seeded(self, role: str) -> RunConfig:
        """Returns the config with a seed of this process, on the CPU, and seeds the process."""
        seed = hash_seed(self.cfg.seed, role, self.index, self.epoch) >> 1
        seed_everything(seed)
        seeded: RunConfig = attrs.evolve(
            self.cfg, seed=seed, policy=attrs.evolve(self.cfg.policy, cuda=False)
        )
        return seeded


def _elsewhere(may_import: Any, given: tuple[Any, ...]) -> RoleSpec:
    """Returns a spec in another process, which then imports no more than the first one."""
    code_paths.restore(may_import)
    return RoleSpec(*given)


class CollectorRole:
    """Collects with the parameters that it is given.

    Args:
        spec: What to build it from.
    """

    def __init__(self, spec: RoleSpec) -> None:
        torch.set_num_threads(spec.cfg.pipeline.num_threads)
        self._parts = Parts(spec.seeded("collector"), model=spec.model)
        self._mode = self._parts.collect_mode
        self._collector: Any = self._parts.collector  # one of ours, with statistics
        self._versioned = Versioned(self._mode)
        self._envs = self._parts.collector_env
        self._first_env = max(spec.epoch - 1, 0) * self._envs.env_num
        self._stopped = threading.Event()
        system = system_of(spec.cfg)
        wanted = spec.cfg.policy.priority and system.actor_priority
        policy = self._parts.policy.learn_mode
        self._priority = mode_attribute(policy, "initial_priority", None) if wanted else None

    def collect(
        self, state: State, version: int, amount: Mapping[str, object]
    ) -> tuple[Collected, Tree]:
        """Collects by a version of the parameters.

        Args:
            state: The parameters; see `weights.as_arrays`.
            version: Their number.
            amount: `n_sample` or `n_episode`, and further arguments of `collect_batch`. With
                `within`, at most the samples that so many env steps complete.

        Returns:
            Facts about the samples, and their columns [B, ...]; both empty if it was stopped. There
            may be no samples of the last env steps of a budget.
        """
        start, collector = time.perf_counter(), self._collector
        before = collector.envstep, collector.total_episode_count
        if amount.get("random_collect"):
            collector.reset_policy(self._random().collect_mode)
        self._versioned.adopt(version, state)
        given, stop = self._within(amount)
        data = collector.collect_batch(**given, train_iter=version, should_stop=stop)
        if amount.get("random_collect"):
            collector.reset_policy(self._mode)
        if not data and self._stopped.is_set():
            return {}, {}
        found = collector.statistics.state_dict()
        collector.statistics.clear()
        columns = dict(data.columns)
        if self._priority is not None and data:
            columns["priority"] = self._priority(data)
        if data:
            columns["env_id"] = columns["env_id"] + self._first_env
        facts: Collected = {
            "count": len(data),
            "version": version,
            "env_step": collector.envstep - before[0],
            "episode_count": collector.total_episode_count - before[1],
            "returns": found["returns"],
            "lengths": found["lengths"],
            "ends": collector.trajectory_end_idx,
            "seconds": time.perf_counter() - start,
        }
        return facts, plain_state(columns)

    def _within(self, amount: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], bool]]:
        """Returns arguments of `collect_batch` that keep to the env steps that are left."""
        given, stop = dict(amount), self._stopped.is_set
        env_steps = given.pop("within", None)
        if env_steps is None or given.get("n_sample") is None:
            return given, stop
        return stopping_within(self._collector, given, env_steps, stop)

    def _random(self) -> Any:
        from dicore_plugins.policies.random import RandomPolicy

        return RandomPolicy(action_space=self._envs.action_space, like=self._mode)

    def progress(self) -> dict[str, int]:
        """Returns the env steps so far; may be called while it collects."""
        return {"env_step": self._collector.envstep, "version": self._versioned.version}

    def stop(self) -> None:
        """Ends the call of `collect` that is running, and all later ones."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the environments."""
        self._parts.close()


class EvaluatorRole:
    """Evaluates the parameters that it is given.

    Args:
        spec: What to build it from.
    """

    def __init__(self, spec: RoleSpec) -> None:
        torch.set_num_threads(spec.cfg.pipeline.num_threads)
        spec.seeded("evaluator")
        cfg = attrs.evolve(spec.cfg, policy=attrs.evolve(spec.cfg.policy, cuda=False))
        self._log = _Recorded()
        self._parts = Parts(cfg, model=spec.model, collects=False, log=self._log)
        self._evaluator = self._parts.evaluator
        self._versioned = Versioned(self._parts.policy.eval_mode)
        if spec.state is not None:
            self._evaluator.load_state_dict(spec.state)
        self._stopped = threading.Event()

    def evaluate(
        self, state: State, version: int, env_step: int, kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Evaluates a version of the parameters.

        Args:
            state: The parameters; see `weights.as_arrays`.
            version: Their number, in updates.
            env_step: Env steps collected so far.
            kwargs: Further arguments of the evaluator's `eval`.

        Returns:
            `result` (an `EvalResult`), `best` (it exceeds all before), `state` of the evaluator,
            and what it logged; None if it was stopped.
        """
        self._versioned.adopt(version, state)
        best: list[str] = []
        self._evaluator.should_eval(version)
        result = self._evaluator.eval(
            best.append, version, env_step, should_stop=self._stopped.is_set, **kwargs
        )
        if result.interrupted:
            return None
        return {
            "result": result,
            "best": bool(best),
            "state": self._evaluator.state_dict(),
            "log": self._log.taken(),
        }

    def progress(self) -> dict[str, int]:
        """Returns the version that it evaluates."""
        return {"version": self._versioned.version}

    def stop(self) -> None:
        """Ends the evaluation that is running."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the environments."""
        self._parts.close()


class _Recorded:
    """A log that keeps its entries, for another process to write them."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, object, dict[str, object]]] = []

    def log_scalars(self, scalars: Mapping[str, object], **at: object) -> None:
        """Keeps numbers."""
        self._entries.append(("log_scalars", dict(scalars), at))

    def log_text(self, text: str, **at: object) -> None:
        """Keeps a text."""
        self._entries.append(("log_text", text, at))

    def taken(self) -> list[tuple[str, object, dict[str, object]]]:
        """Returns the entries since the last call."""
        entries, self._entries = self._entries, []
        return entries
