"""Options of the serial pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dicore.config.schema import ComponentConfig, component, components, frozen, option
from dicore.config.sections import PipelineConfig
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.pipeline import IPipeline


def repeated_loggers(loggers: Sequence[ComponentConfig]) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for each logger that is named twice: both would write one file."""
    for place, each in enumerate(loggers):
        if each in loggers[:place]:
            yield f"logger[{place}]", f"'{each.type}' is there already; leave it out"


@frozen(kw_only=True)
class SerialConfig(PipelineConfig):
    """Trains in one process: off-policy, on-policy or from a dataset, as the policy declares."""

    logger: tuple[ComponentConfig, ...] = components(
        "logger",
        default=("tensorboard", "console"),
        help="loggers for metrics, besides metrics.jsonl",
    )
    dataset: ComponentConfig | None = component(
        "dataset",
        help="recorded samples, for policies that learn offline or from demonstrations",
        optional=True,
    )
    expert: ComponentConfig | None = component(
        "policy",
        help="policy that shows its actions, instead of a dataset: {type: expert, run: RUN}",
        optional=True,
    )
    expert_episodes: int = option(10, "episodes that the expert shows", ge=1)
    final_eval: bool = option(True, "evaluate once more when a budget ends the training")
    async_mode: bool = option(
        False, "collect, learn and evaluate at the same time, see the page about middleware"
    )
    n_async_workers: int = option(3, "threads of async_mode", ge=1)
    async_lag: int = option(
        1, "task steps that collecting may be ahead of learning in async_mode", ge=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields loggers that are named twice."""
        yield from repeated_loggers(self.logger)

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.serial.pipeline import SerialPipeline

        return SerialPipeline(self)


@frozen(kw_only=True)
class SerialOnPolicyConfig(SerialConfig):
    """Trains on-policy in one process: collects and learns in turn, without a buffer."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline

        return OnPolicyPipeline(self)


@frozen(kw_only=True)
class SerialDynaConfig(SerialConfig):
    """Trains in one process from collected samples and from simulated ones of a world model."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.serial.dyna import DynaPipeline

        return DynaPipeline(self)


@frozen(kw_only=True)
class SerialOfflineConfig(SerialConfig):
    """Trains from a dataset in one process; environments only evaluate."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.serial.offline import OfflinePipeline

        return OfflinePipeline(self)
