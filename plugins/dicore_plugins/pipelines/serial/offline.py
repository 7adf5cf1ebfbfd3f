"""The offline pipeline: learns from a dataset; environments only evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.sections import PolicyConfig, RunConfig
from dicore.task import Context, OfflineRLContext
from dicore.task.middleware import Middleware
from dicore_plugins.middleware.learn import trainer
from dicore_plugins.middleware.offline import offline_data_fetcher
from dicore_plugins.pipelines.demonstrations.experts import source_problems
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.config import SerialOfflineConfig
from dicore_plugins.pipelines.training import TrainingPipeline, school_of


class OfflinePipeline(TrainingPipeline):
    """Evaluates and learns from the next batch of the dataset in turn.

    Policies that learn from a replay buffer learn from a dataset instead, without collecting.
    """

    config_class = SerialOfflineConfig
    school: ClassVar[str] = "offline"
    context: ClassVar[type[Context]] = OfflineRLContext

    def trains(self, policy: PolicyConfig) -> bool:
        """Returns whether a policy with this section can be trained."""
        return school_of(policy) in ("offline", "off_policy")

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields the problems of the budget and the dataset."""
        yield from source_problems(cfg)
        if getattr(cfg.policy, "own_steps_only", False):
            yield "policy.type", f"'{cfg.policy.type}' learns from its own steps, not recorded ones"
        if cfg.pipeline.max_env_step is not None:
            yield "pipeline.max_env_step", "no env steps are collected; set max_train_iter"
        length, dataset = cfg.policy.collect.unroll_len, cfg.pipeline.get("dataset")
        if (
            cfg.policy.offline
            and dataset is not None
            and dataset.get("unroll_len", length) != length
        ):
            yield "pipeline.dataset.unroll_len", f"expected policy.collect.unroll_len, {length}"
        derived = getattr(type(cfg.policy), "derived", ())
        if dataset is not None and not {*derived} <= {*dataset.get("derived", derived)}:
            yield "pipeline.dataset.derived", f"expected {list(derived)} for '{cfg.policy.type}'"
        if not cfg.policy.offline and length > 1:
            yield (
                "policy.collect.unroll_len",
                "its sequences have columns that only collecting gives, not a dataset; set 1",
            )
        if cfg.policy.reward_model is not None:
            yield "policy.reward_model", "has no effect on a dataset; expected None"
        if cfg.policy.traj_len_inf:
            yield "policy.traj_len_inf", "the dataset makes the samples; expected False"
        if cfg.policy.priority:
            yield "policy.priority", "a dataset is sampled uniformly; expected False"

    def stages(self, parts: Parts) -> list[Middleware]:
        """Fetches a batch, and updates the policy from it."""
        return [offline_data_fetcher(parts.cfg, parts.dataset), trainer(parts.cfg, parts.learner)]
