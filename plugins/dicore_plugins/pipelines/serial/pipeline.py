"""The serial pipeline: trains in one process, by replay, on-policy or from a dataset."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import NamedConfig
from dicore.config.schema import ComponentConfig
from dicore.config.sections import RunConfig
from dicore.task.middleware import Middleware
from dicore_plugins.middleware.collect import StepCollector, settings_handler
from dicore_plugins.middleware.learn import OffPolicyLearner, data_pusher
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.serial.config import SerialConfig
from dicore_plugins.pipelines.training import TrainingPipeline, school_of


class SerialPipeline(TrainingPipeline):
    """Evaluates, collects, stores and learns in turn; policies of other schools by their pipelines.

    A policy that learns on-policy is trained as by `serial_onpolicy`; one that learns from a
    dataset, and any off-policy one if there is a dataset, as by `serial_offline`; one that learns
    from demonstrations as by `serial_demos`.
    """

    config_class = SerialConfig

    def chosen(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns the pipeline that fits the policy."""
        school = school_of(cfg.policy)
        if school == "on_policy":
            from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline

            return OnPolicyPipeline(self._cfg)
        if school == "demonstrations":
            return self._named("serial_demos")
        if school == "offline" or (
            school == "off_policy" and cfg.pipeline.get("dataset") is not None
        ):
            from dicore_plugins.pipelines.serial.offline import OfflinePipeline

            return OfflinePipeline(self._cfg)
        if cfg.policy.get("world_model") is not None:
            return self._named("serial_dyna")
        return self

    def _named(self, name: str) -> TrainingPipeline:
        """Returns a pipeline that derives from this one, with the same options."""
        from dicore_registry import default

        made: TrainingPipeline = default().resolve("pipeline", name).target.build(self._cfg, None)
        return made

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields the problems of the replay buffer."""
        buffer, place = cfg.policy.other.replay_buffer, "policy.other.replay_buffer"
        named = isinstance(buffer, NamedConfig)
        buffers = [buffer[name] for name in buffer.keys()] if named else [buffer]  # noqa: SIM118
        if named:
            from dicore_plugins.buffers.group import share_problems

            shares = {name: buffer[name].get("share") for name in buffer.keys()}  # noqa: SIM118
            falling = [n for n in shares if buffer[n].get("share_updates") is not None]
            for problem in share_problems(shares, falling):
                yield place, problem
            if falling and cfg.policy.priority:
                yield "policy.priority", f"{place} has share_updates; expected False"
        for name in () if named else ("share", "share_updates"):
            if buffer.get(name) is not None:
                yield f"{place}.{name}", "has no effect with a single buffer; remove it"
        if cfg.policy.priority and not any(map(_keeps_priorities, buffers)):
            types = ", ".join(f"'{each.type}'" for each in buffers)
            yield "policy.priority", f"buffer {types} samples uniformly; expected False"
        envs, n_sample = cfg.env.collector_env_num, cfg.policy.collect.n_sample
        agent = buffer.get("agent", buffer)
        if getattr(agent, "keeps_origin", False) and n_sample is not None and n_sample % envs:
            yield (
                "policy.collect.n_sample",
                f"buffer '{agent.type}' needs all steps of each environment; expected a multiple"
                f" of {envs} (env.collector_env_num), got {n_sample}",
            )

    def stages(self, parts: Parts) -> list[Middleware]:
        """Collects, pushes to the buffer, and updates the policy."""
        cfg, run, policy = parts.cfg, parts.run, parts.policy
        collector = StepCollector(
            cfg, parts.collect_mode, parts.collector_env, None, run=run, collector=parts.collector
        )
        settings = policy.command_mode.get_setting_learn
        learner: type[OffPolicyLearner] = OffPolicyLearner
        if getattr(cfg.policy.reward_model, "hindsight", False):
            from dicore_plugins.middleware.hindsight import HERLearner

            learner = HERLearner
        return [
            settings_handler(policy.command_mode),
            collector,
            *parts.reward_training(),
            data_pusher(cfg, parts.buffer),
            learner(cfg, parts.learner, parts.buffer, parts.drawn_reward_model, settings=settings),
        ]


def _keeps_priorities(section: ComponentConfig) -> bool:
    """Returns whether a buffer may sample by priority; only its own class can say that not."""
    return bool(vars(type(section)).get("keeps_priorities", True))
