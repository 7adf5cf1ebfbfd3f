"""The parallel pipeline: the stages of a serial run, fed by collector processes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config import PolicyConfig, RunConfig
from dicore.config.layers import is_place
from dicore.errors import ConfigWarning
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import spec_of
from dicore_dist.coordinator.collectors import CollectorGroup
from dicore_dist.coordinator.evaluation import ParallelEvaluation, RemoteEvaluator
from dicore_dist.coordinator.status import StatusFile, status_writer
from dicore_dist.links.ray_runtime import RayRuntime, check_address, import_ray
from dicore_dist.parallel.config import ParallelConfig, autocast_problems, system_of
from dicore_dist.workers.learners import (
    LearnerGroup,
    LearnerRole,
    learner_problems,
    share_config,
)
from dicore_dist.workers.processes import RoleProcess
from dicore_dist.workers.roles import EvaluatorRole, RoleSpec
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline
from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
from dicore_plugins.pipelines.training import TrainingPipeline, evaluates, school_of

if TYPE_CHECKING:
    from dicore.interfaces.env import Space
    from dicore.task.middleware import Middleware

__all__ = ["ParallelParts", "ParallelPipeline"]


@dataclass(frozen=True)
class _Elsewhere:
    """Stands for the environments, which are in other processes."""

    spec: EnvSpec

    @property
    def observation_space(self) -> Space:
        """Of one environment."""
        return self.spec.observation

    @property
    def action_space(self) -> Space:
        """Of one environment."""
        return self.spec.action


class ParallelParts(Parts):
    """The parts of a training whose collectors and evaluator are processes of their own."""

    @cached_property
    def runtime(self) -> RayRuntime:
        """Ray, started when it is first needed."""
        system = system_of(self.cfg)
        cores = system.collector_num * system.collector_cores + system.learner_num
        return RayRuntime(
            cores=cores,
            object_store=system.object_store,
            address=system.address,
            record=None if self.run is None else getattr(self.run.folder, "metadata", None),
        )

    @cached_property
    def collector_env(self) -> Any:
        """What is known of the environments."""
        return _Elsewhere(spec_of(self.cfg.env, self.cfg.seed))

    @cached_property
    def policy(self) -> Any:
        """The policy of learner 0."""
        section = share_config(self.cfg.policy, system_of(self.cfg).learner_num)
        return section.build(self.ctx, model=self._model)

    @cached_property
    def learner(self) -> Any:
        """The learner, or several as one."""
        local: Any = super().learner  # the configured one must know its rank
        system = system_of(self.cfg)
        if system.learner_num == 1:
            return local
        local.rank, local.world_size = 0, system.learner_num
        return LearnerGroup(local, self._learner_process, self.runtime, system)

    def _learner_process(self, rank: int) -> RoleProcess:
        spec = RoleSpec(self.cfg, index=rank, model=self._model, state=self.ctx.spec)
        name, output = f"learner {rank}", self._folder / f"learner-{rank}" / "output.txt"
        return RoleProcess(self.runtime, LearnerRole, spec, name, cores=1.0, output=output)

    @cached_property
    def collector(self) -> Any:
        """The collector processes, as one collector."""
        group = CollectorGroup(
            self.cfg,
            self.runtime,
            self.collect_mode,
            model=self._model,
            log=self._log,
            folder=self._folder,
            copies=self.cfg.policy.on_policy or not isinstance(self.buffer, NaiveReplayBuffer),
        )
        counts = {"env_step": lambda: group.envstep}
        return self._registered("collector", group, counts=counts)

    @cached_property
    def evaluator(self) -> Any:
        """The evaluator process, which is asked and polled: no `ISerialEvaluator`."""
        local = super().evaluator
        return RemoteEvaluator(
            local,
            self.runtime,
            self.policy.eval_mode,
            self._evaluator_process,
            log=self._log,
            system=system_of(self.cfg),
        )

    def _evaluator_process(self, state: Any) -> RoleProcess:
        spec = RoleSpec(self.cfg, model=self._model, state=state)
        output = self._folder / "evaluator" / "output.txt"
        return RoleProcess(self.runtime, EvaluatorRole, spec, "evaluator", cores=0.0, output=output)

    @cached_property
    def status(self) -> StatusFile:
        """What `dicore status` reads."""
        evaluator = self.evaluator if evaluates(self.cfg) else None
        buffer = None if self.cfg.policy.on_policy else self.buffer
        parts = {"evaluator": evaluator, "learner": self.learner, "buffer": buffer}
        status = StatusFile(self._folder, self.collector, **parts)
        self.collector.on_look = status.tick
        return status

    @property
    def _folder(self) -> Any:
        """Folder of the logs, made before a process looks for it."""
        assert self.run is not None
        folder = self.run.folder.log
        folder.mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        """Closes the parts that were created, and Ray if it was started for them."""
        if "status" in self:
            self.status.end()
        try:
            super().close()
        finally:
            if "runtime" in self:
                self.runtime.close()


class ParallelPipeline(TrainingPipeline):
    """Trains in this process while others collect and evaluate.

    The stages are those of `serial`, so the same config gives the same number of updates per
    collected sample: training waits for samples, and collectors wait when they are
    `pipeline.system.queue` collects ahead.
    """

    config_class = ParallelConfig
    parts: ClassVar[type[Parts]] = ParallelParts

    def trains(self, policy: PolicyConfig) -> bool:
        """Returns whether a policy learns from samples that are collected while it learns."""
        return school_of(policy) in ("off_policy", "on_policy")

    def check(self, compiled: Any) -> None:
        """Checks the config, that Ray is installed, and that its cluster answers."""
        for file in _system_configs(compiled.origin):
            text = "has no effect in parallel runs; their options are pipeline.system.NAME=VALUE"
            warnings.warn(f"{file}: system_config {text}", ConfigWarning, stacklevel=2)
        super().check(compiled)
        address = compiled.pipeline.system.address
        if address is not None:
            check_address(address)
        import_ray(address)

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields what the processes cannot do."""
        yield from self._stages_of(cfg).problems(cfg)
        yield from autocast_problems(cfg)
        if cfg.policy.reward_model is not None:
            yield (
                "policy.reward_model",
                "needs samples before they are stored; use serial, or null",
            )
        if cfg.policy.get("world_model") is not None:
            yield "policy.world_model", "is trained by the pipeline serial_dyna"
        if system_of(cfg).eps_spread and "eps" not in cfg.policy.other:
            yield "pipeline.system.eps_spread", f"'{cfg.policy.type}' does not explore by epsilon"
        if system_of(cfg).ahead and not cfg.policy.on_policy:
            reason = f"'{cfg.policy.type}' replays samples; expected False, and queue >= 1"
            yield "pipeline.system.ahead", reason
        if system_of(cfg).learner_num > 1:
            yield from learner_problems(cfg)

    def _stages_of(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns the serial pipeline with the same stages."""
        on_policy = school_of(cfg.policy) == "on_policy"
        return (OnPolicyPipeline if on_policy else SerialPipeline)(self._cfg)

    def stages(self, parts: Parts) -> list[Middleware]:
        """Takes samples from the collectors, and updates the policy as a serial run does."""
        assert isinstance(parts, ParallelParts)
        return [*self._stages_of(parts.cfg).stages(parts), status_writer(parts.status)]

    def evaluation(self, parts: Parts) -> list[Any]:
        """Evaluates beside training."""
        if not evaluates(parts.cfg):
            return []
        evaluator, settings = parts.evaluator, parts.policy.command_mode.get_setting_eval
        assert isinstance(evaluator, RemoteEvaluator)
        evaluator.prepare()
        return [ParallelEvaluation(evaluator, run=parts.run, settings=settings)]


def _system_configs(origin: Mapping[str, str]) -> Iterator[str]:
    """Yields the config files in Python that define `system_config` (DI-engine's third dict)."""
    files = {re.sub(r":\d+$", "", place) for place in origin.values() if is_place(place)}
    for file in sorted(each for each in files if each.endswith(".py") and Path(each).is_file()):
        if re.search(r"^system_config\s*=", Path(file).read_text("utf-8"), re.MULTILINE):
            yield file
