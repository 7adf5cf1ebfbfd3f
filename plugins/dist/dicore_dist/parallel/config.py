"""Options of the parallel pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from dicore.config.schema import components, frozen, option, section
from dicore.config.sections import PipelineConfig, RunConfig
from dicore.run.env_factory import BuildContext
from dicore_dist.coordinator.restarts import RestartOptions
from dicore_plugins.pipelines.serial.config import repeated_loggers


@frozen(kw_only=True)
class SystemConfig(RestartOptions):
    """The processes of a run and the machines that they run on."""

    collector_num: int = option(
        2, "collectors; each is a process with env.collector_env_num environments", ge=1
    )
    collector_cores: float = option(1.0, "CPU cores that each collector reserves", gt=0)
    learner_num: int = option(
        1, "learners; each makes the updates of a share of the batch, gradients are averaged", ge=1
    )
    learner_timeout: float = option(
        60.0, "limit for an exchange of gradients between learners", gt=0, unit="s"
    )
    queue: int = option(
        2, "collects that each collector may be ahead of training; off-policy only", ge=1
    )
    ahead: bool = option(
        False,
        "on-policy: collect the next samples while training, by the parameters from before it",
    )
    actor_priority: bool = option(
        True, "collectors compute the priorities of new samples, with policy.priority (Ape-X)"
    )
    eps_spread: float = option(
        0.0, "collector i of N explores with eps^(1 + eps_spread i / (N - 1)); Ape-X: 7", ge=0
    )
    reproducible: bool = option(
        True, "take samples from the collectors in turn; False: from whichever has some first"
    )
    address: str | None = option(
        None, "host:port of a running Ray cluster; None: start Ray on this machine"
    )
    object_store: int = option(
        256, "shared memory for samples and parameters, if Ray is started here", ge=80, unit="MiB"
    )
    stall_timeout: float = option(
        600.0, "wait for samples after which the run ends with an error", gt=0, unit="s"
    )


@frozen(kw_only=True)
class ParallelConfig(PipelineConfig):
    """Trains with several collector processes and an evaluator process, on Ray."""

    logger: tuple[Any, ...] = components(
        "logger",
        default=("tensorboard", "console"),
        help="loggers for metrics, besides metrics.jsonl",
    )
    final_eval: bool = option(True, "evaluate once more when a budget ends the training")
    system: SystemConfig = section(SystemConfig, help="processes and machines")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields loggers that are named twice."""
        yield from repeated_loggers(self.logger)

    def build(self, ctx: BuildContext | None, **parts: object) -> Any:
        """Creates the pipeline."""
        from dicore_dist.parallel.pipeline import ParallelPipeline

        return ParallelPipeline(self)


def system_of(cfg: RunConfig) -> SystemConfig:
    """Returns the section of the processes, of a run by the pipeline `parallel`."""
    return cast("ParallelConfig", cfg.pipeline).system


def autocast_problems(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields `policy.learn.autocast=auto`: the first update comes after the processes start."""
    if cfg.policy.learn.get("autocast") == "auto":
        yield (
            "policy.learn.autocast",
            "'auto' is measured by pipelines of one process; expected 'bfloat16' or None",
        )
