"""The on-policy pipeline: learns from what the present policy collected, without a buffer."""

from __future__ import annotations

from typing import ClassVar

from dicore.task.middleware import Middleware
from dicore_plugins.middleware.collect import StepCollector, settings_handler
from dicore_plugins.middleware.learn import multistep_trainer
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.config import SerialOnPolicyConfig
from dicore_plugins.pipelines.training import TrainingPipeline


class OnPolicyPipeline(TrainingPipeline):
    """Evaluates, collects and learns from all collected samples in turn."""

    config_class = SerialOnPolicyConfig
    school: ClassVar[str] = "on_policy"

    def stages(self, parts: Parts) -> list[Middleware]:
        """Collects, and updates the policy from the samples."""
        cfg, envs, command = parts.cfg, parts.collector_env, parts.policy.command_mode
        collector = StepCollector(
            cfg,
            parts.collect_mode,
            envs,
            None,
            run=parts.run,
            collector=parts.collector,
            reuse=True,
        )
        return [
            settings_handler(command),
            collector,
            *parts.reward_training(),
            multistep_trainer(cfg, parts.learner, settings=command.get_setting_learn),
        ]
