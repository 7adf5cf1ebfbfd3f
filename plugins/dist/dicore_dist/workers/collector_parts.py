"""What a comm collector holds: environments, policy, collector and evaluator of one process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.env_factory import make_env_manager
from dicore_dist.workers.worker_config import WorkerConfig
from dicore_plugins.collectors.budget import stopping_within
from dicore_plugins.env_wrappers import save_snapshot
from dicore_plugins.messages import pack
from dicore_plugins.middleware.learn import without_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from dicore.data import State

__all__ = ["CollectorParts"]

_LOG = logging.getLogger("dicore.comm")


class CollectorParts:
    """Environments, policy, collector and evaluator of one process; kept from task to task."""

    def __init__(self, worker: WorkerConfig, index: int = 0, opponent: Path | None = None) -> None:
        self.cfg, self.policy = worker.cfg, worker.policy
        self._ctx, self._index, self._opponent = worker.ctx, index, opponent
        env = self.cfg.env
        if opponent is not None:
            save_snapshot(opponent, worker.config, self.policy.collect_mode.state_dict())
            env = _versus(env, opponent)
        self.env = make_env_manager(env, "collector", self.cfg.seed)
        self.collector = self.cfg.policy.collect.collector.build(
            worker.ctx, env_manager=self.env, policy=self.policy.collect_mode
        )
        self._evaluator: Any = None
        self.version = self._epoch = -1

    def load(self, policy: State) -> None:
        """Acts by a published version, unless its learner was replaced by another one."""
        epoch = int(policy.get("epoch", 0))
        if epoch >= self._epoch and (epoch, policy["version"]) != (self._epoch, self.version):
            self.policy.collect_mode.load_state_dict(policy["state"])
            self.version, self._epoch = int(policy["version"]), epoch

    def collect(
        self, amount: Mapping[str, Any], info: Mapping[str, Any], stop: Callable[[], bool]
    ) -> Batch:
        """Collects one block; `info` has the env steps and updates of the whole training.

        It is empty if `stop` returned True, or if the env steps that are left complete no sample.
        """
        random = bool(info.get("random"))
        if random:
            from dicore_plugins.policies.random import RandomPolicy

            like = self.policy.collect_mode
            policy = RandomPolicy(action_space=self.env.action_space, like=like)
            self.collector.reset_policy(policy.collect_mode)
        settings = {} if random else self.policy.command_mode.get_setting_collect(info)
        within = info.get("within") if "n_sample" in amount else None
        if within is not None:
            amount, stop = stopping_within(self.collector, amount, within, stop)
        data: Batch = self.collector.collect_batch(
            **amount,
            train_iter=max(0, self.version),
            random_collect=random,
            policy_kwargs=settings,
            should_stop=stop,
        )
        if random:
            self.collector.reset_policy(self.policy.collect_mode)
        return self._prepared(data) if data else data

    def _prepared(self, data: Batch) -> Batch:
        """Returns samples as the learner gets them; on-policy, ids of environments are unique."""
        if not self.cfg.policy.on_policy:
            samples: Batch = without_origin(data)
            return samples
        if "env_id" not in data:
            return data
        env_id = np.asarray(data["env_id"]) + self._index * self.env.env_num
        return Batch({**data.columns, "env_id": env_id}, len(data))

    def evaluate(self, info: Mapping[str, Any], stop: Any) -> Any:
        """Evaluates the present version; returns the result."""
        if self._evaluator is None:
            most = self.cfg.env.n_evaluator_episode
            env = make_env_manager(self.cfg.env, "evaluator", self.cfg.seed, at_most=most)
            section: Any = self.cfg.policy.eval.evaluator  # has options of its own
            if hasattr(section, "consecutive"):  # the coordinator counts them, of all collectors
                section = attrs.evolve(section, consecutive=1)
            self._evaluator = section.build(
                self._ctx, env_manager=env, policy=self.policy.eval_mode
            )
        settings = self.policy.command_mode.get_setting_eval(info)
        kwargs = {"policy_kwargs": settings} if settings else {}
        return self._evaluator.eval(
            None, max(0, self.version), info["envstep"], should_stop=stop, **kwargs
        )

    def episodes(self) -> dict[str, object]:
        """Returns `returns` and `lengths` of the episodes that ended since the last call."""
        statistics = getattr(self.collector, "statistics", None)
        if statistics is None:
            return {"returns": [], "lengths": []}
        found = statistics.state_dict()
        statistics.clear()
        return {"returns": found["returns"], "lengths": found["lengths"]}

    def remembered(self) -> Sequence[Mapping[str, Any]]:
        """Returns what environments of evaluations remember beyond an episode, by environment.

        For instance the statistics of a normaliser; nothing if it is not plain data.
        """
        layers: Sequence[Any] = (self._evaluator.state_dict().get("env") or {}).get("layers") or ()
        try:
            pack(layers)
        except UsageError as error:
            _LOG.warning("what the environments remember is not saved: %s", error.message)
            return ()
        return layers if any(layers) else ()

    def close(self) -> None:
        """Closes the environments."""
        self.collector.close()
        if self._evaluator is not None:
            self._evaluator.close()
        if self._opponent is not None:
            self._opponent.unlink(missing_ok=True)


def _versus(env: Any, opponent: Path) -> Any:
    """Returns a section `env` whose wrapper `versus` reads the opponent from a file."""
    wrappers = tuple(
        attrs.evolve(each, opponent=str(opponent)) if each.type == "versus" else each
        for each in env.env_wrapper
    )
    return attrs.evolve(env, env_wrapper=wrappers)
