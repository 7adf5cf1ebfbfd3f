"""Options of the pipeline `dist`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from dicore.config.schema import component, components, frozen, option, section
from dicore.config.sections import PipelineConfig, RunConfig
from dicore.run.env_factory import BuildContext
from dicore_dist.coordinator.restarts import RestartOptions
from dicore_plugins.pipelines.serial.config import repeated_loggers

__all__ = ["DistConfig", "DistSystemConfig", "comm_of", "system_of"]


def comm_of(learner: str | None, collector: str | None, address: str | None) -> tuple[str, str]:
    """Returns the names of comm learner and comm collector; None: what fits the rest."""
    name = learner or ("flask_fs" if address is None else "ray")
    return name, collector or name


@frozen(kw_only=True)
class DistSystemConfig(RestartOptions):
    """The processes of a run: where they are and how they exchange data."""

    collector_num: int = option(
        2, "collectors; each is a process with env.collector_env_num environments", ge=1
    )
    path_data: str | None = option(
        None, "folder of the samples, shared by all processes; None: in the run folder"
    )
    path_policy: str | None = option(
        None, "folder of the parameters, shared by all processes; None: in the run folder"
    )
    comm_learner: str | None = option(
        None,
        "how the learner communicates (kind comm_learner); None: ray if there is an address, else"
        " flask_fs",
    )
    comm_collector: str | None = option(
        None, "how collectors communicate (kind comm_collector); None: as the learner"
    )
    address: str | None = option(
        None,
        "host:port of a running Ray cluster for comm_learner=ray; None: Ray is started with the"
        " processes",
    )
    commander: Any = component("commander", help="assigns tasks and decides when training ends")
    learner_host: str = option("127.0.0.1", "host of the learner, as the others reach it")
    learner_port: int = option(0, "port of the learner; 0: any free one", ge=0, le=65535)
    collector_host: str = option(
        "127.0.0.1",
        "host of the collectors; of several (`a,b`, `node-[1-4]`) each takes the next",
    )
    collector_port: int = option(
        0, "port of the first collector, the next ones follow; 0: free ports", ge=0, le=65535
    )
    start: str | None = option(
        None,
        "learner and collectors: None or none: wait for them; processes: start them on this"
        " machine; threads: run them in this process, to debug",
        choices=(None, "none", "processes", "threads"),
    )
    operator: str | None = option(
        None,
        "host:port of an operator that starts the processes and replaces those that fail (the"
        " replica API of DI-engine's operator); None: nobody is asked",
    )
    send_policy_freq: int = option(
        10,
        "updates between two versions of the parameters; on-policy: after every collect",
        ge=1,
        unit="updates",
    )
    send_learn_info_freq: int = option(
        10,
        "most updates of one task of the learner, after which it reports; on-policy: every collect",
        ge=1,
        unit="updates",
    )
    update_policy_second: float = option(
        0.0, "time between two looks for new parameters by a collector", ge=0, unit="s"
    )
    collect_blocks: int = option(
        10, "blocks of n_sample samples that one task of a collector collects", ge=1
    )
    learner_cache: int = option(
        512, "samples that the learner keeps in memory after reading them", ge=1, unit="MiB"
    )
    task_timeout: float = option(600.0, "limit for one task", gt=0, unit="s")
    start_timeout: float = option(
        120.0,
        "wait for the learner, or for any collector, that does not answer; then the run ends",
        gt=0,
        unit="s",
    )
    heartbeat_timeout: float = option(
        17.0,
        "silence after which a process is taken for dead; those started here are replaced",
        gt=0,
        unit="s",
    )
    max_retries: int | None = option(None, "max_restarts under its former name", ge=0)

    @property
    def starts(self) -> bool:
        """Whether learner and collectors are started here."""
        return self.start not in (None, "none")

    @property
    def comm(self) -> tuple[str, str]:
        """Names of the components by which the learner and the collectors communicate."""
        return comm_of(self.comm_learner, self.comm_collector, self.address)


@frozen(kw_only=True)
class DistConfig(PipelineConfig):
    """Trains with a learner and collectors as processes that get tasks from a coordinator."""

    logger: tuple[Any, ...] = components(
        "logger",
        default=("tensorboard", "console"),
        help="loggers for metrics, besides metrics.jsonl",
    )
    system: DistSystemConfig = section(DistSystemConfig, help="processes and machines")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields options that exclude each other."""
        yield from repeated_loggers(self.logger)
        if self.system.starts and self.system.collector_host != "127.0.0.1":
            yield "system.start", "starts processes on this machine only; expected none"
        system = self.system
        same = RestartOptions().max_restarts, system.max_retries
        if system.max_retries is not None and system.max_restarts not in same:
            yield "system.max_retries", "has no effect beside max_restarts; expected null"
        learner, collector = system.comm
        if "ray" in (learner, collector) and learner != collector:
            yield "system.comm_collector", "expected ray for learner and collectors, or for neither"
        if learner == "ray":
            yield from self._ray_problems(system)
        if self.system.starts and self.system.operator is not None:
            yield "system.operator", "starts the processes; expected system.start=none"

    def _ray_problems(self, system: DistSystemConfig) -> Iterator[tuple[str, str]]:
        if not system.starts and system.address is None:
            start = "RAY_AUTH_MODE=token ray start --head"
            yield "system.address", f"expected host:port of a Ray cluster; start one: {start}"
        for name in ("learner_port", "collector_port"):
            if getattr(system, name):
                yield f"system.{name}", "has no effect with ray; expected 0"

    def build(self, ctx: BuildContext | None, **parts: object) -> Any:
        """Creates the pipeline."""
        from dicore_dist.commands.pipeline import DistPipeline

        return DistPipeline(self)


def system_of(cfg: RunConfig) -> DistSystemConfig:
    """Returns the section of the processes, of a run by the pipeline `dist`."""
    return cast("DistConfig", cfg.pipeline).system
