"""Options of the serial pipeline."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import components, frozen, option
from dicore.config.sections import PipelineConfig


@frozen(kw_only=True)
class SerialConfig(PipelineConfig):
    """Trains off-policy in one process: evaluates, collects and learns in turn."""

    logger: tuple[Any, ...] = components(
        "logger",
        default=("tensorboard", "console"),
        help="loggers for metrics, besides metrics.jsonl",
    )
    final_eval: bool = option(True, "evaluate once more when a budget ends the training")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Creates the pipeline."""
        from dicore_plugins.pipelines.serial.pipeline import SerialPipeline

        return SerialPipeline(self)
