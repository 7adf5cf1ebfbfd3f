"""The model-based pipeline: learns from collected and from simulated samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.sections import PolicyConfig, RunConfig
from dicore.task.middleware import Middleware
from dicore_plugins.buffers.group import BufferGroup
from dicore_plugins.middleware.learn import OffPolicyLearner
from dicore_plugins.middleware.world_models import WorldModelLearner
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.config import SerialDynaConfig
from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
from dicore_plugins.pipelines.training import TrainingPipeline


class DynaPipeline(SerialPipeline):
    """Collects, trains the world model, simulates, and learns from both kinds of samples.

    Each batch has a share of collected samples, `policy.other.real_share` (Sutton 1991; Janner et
    al. 2019). Updates begin with the first simulated samples.
    """

    config_class = SerialDynaConfig
    needs: ClassVar[str] = " and has a world model (policy.world_model)"

    def chosen(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns this pipeline."""
        return self

    def trains(self, policy: PolicyConfig) -> bool:
        """Returns whether a policy with this section can be trained."""
        return super().trains(policy) and policy.get("world_model") is not None

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields the problems of the replay buffer and of the reward model."""
        yield from super().problems(cfg)
        buffer = cfg.policy.other.replay_buffer
        if getattr(buffer, "keeps_origin", False):
            yield (
                "policy.other.replay_buffer",
                f"'{buffer.type}' returns sequences, a world model simulates steps; expected naive",
            )
        if cfg.policy.reward_model is not None:
            yield "policy.reward_model", "a world model simulates the rewards; expected None"

    def stages(self, parts: Parts) -> list[Middleware]:
        """Collects, pushes, trains and simulates, and updates the policy."""
        *collecting, _ = super().stages(parts)
        share = parts.cfg.policy.other.real_share
        both = BufferGroup({"agent": parts.buffer, "model": parts.model_buffer}, {"agent": share})
        simulate = WorldModelLearner(
            parts.cfg,
            parts.policy.collect_mode,
            parts.world_model,
            parts.buffer,
            parts.model_buffer,
            run=parts.run,
        )
        settings = parts.policy.command_mode.get_setting_learn
        learner = OffPolicyLearner(parts.cfg, parts.learner, both, settings=settings)
        return [*collecting, simulate, learner]
