"""The pipeline of demonstrations: learns from them and from own steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config import NamedConfig
from dicore.config.sections import RunConfig
from dicore.data import Batch
from dicore.task.middleware import Middleware
from dicore_plugins.buffers.group import BufferGroup
from dicore_plugins.middleware.demonstrations import demo_loader, pretrainer
from dicore_plugins.pipelines.demonstrations.config import SerialDemosConfig
from dicore_plugins.pipelines.demonstrations.experts import source_problems, steps_of
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
from dicore_plugins.pipelines.training import TrainingPipeline
from dicore_plugins.policies.imitation.demonstrations import as_demonstrations

__all__ = ["DemosPipeline"]


class DemosPipeline(SerialPipeline):
    """Evaluates, collects, and learns from batches of own steps and of demonstrations.

    Demonstrations are those of `pipeline.dataset`, or episodes in which `pipeline.expert` acts.
    """

    config_class = SerialDemosConfig
    school: ClassVar[str] = "demonstrations"

    def chosen(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns itself."""
        return self

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields the problems of the buffers and of the source of demonstrations."""
        yield from super().problems(cfg)
        buffer = cfg.policy.other.replay_buffer
        demo = buffer.get("demo") if isinstance(buffer, NamedConfig) else None
        loaded = demo is not None and demo.get("load_data") is not None
        if not loaded:
            yield from source_problems(cfg)
        dataset, name = cfg.pipeline.get("dataset"), cfg.policy.type
        if dataset is not None and dataset.get("unroll_len", 1) != 1:
            yield "pipeline.dataset.unroll_len", f"'{name}' cuts its samples itself; expected 1"
        if dataset is not None and dataset.get("nstep", 1) not in (1, cfg.policy.nstep):
            yield "pipeline.dataset.nstep", f"has no effect: '{name}' has policy.nstep; expected 1"
        if dataset is not None and dataset.get("reward_scale", 1) != 1:
            yield "pipeline.dataset.reward_scale", "collected rewards are not scaled; expected 1"

    def stages(self, parts: Parts) -> list[Middleware]:
        """Loads demonstrations, learns from them first if asked to, and goes on by replay."""
        cfg, group = parts.cfg, parts.buffer
        assert isinstance(group, BufferGroup)
        demo = group.buffers["demo"]
        if cfg.pipeline.get("dataset") is not None:
            _ = parts.dataset  # checks it before anything is collected

        def samples() -> Batch:
            # not `parts.collect_mode`: a reward model does not take them for the policy's own steps
            found = as_demonstrations(steps_of(parts.dataset), parts.policy.collect_mode)
            if not getattr(cfg.policy, "demonstrations", False):
                del found.columns["demo"]
            return found

        stages = [demo_loader(cfg, demo, samples)]
        if cfg.policy.learn.get("pretrain", 0):
            stages.append(pretrainer(cfg, parts.learner, demo, run=parts.run))
        return [*stages, *super().stages(parts)]
