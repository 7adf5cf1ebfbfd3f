"""Options of the metric evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.evaluator import ISerialEvaluator


@frozen(kw_only=True)
class MetricEvaluatorConfig(ComponentConfig):
    """Compares the outputs of the policy with a data set by a metric (supervised learning)."""

    needs_dataset: ClassVar[bool] = True
    """Its `build` takes the part `dataset`."""

    eval_freq: int = option(1000, "gradient updates between evaluations", ge=1, unit="updates")
    stop_value: float = option(
        float("inf"),
        "value of the metric at which training stops, or a better one",
        follows="env.stop_value",
    )
    batch_size: int = option(1024, "samples per forward of the policy", ge=1)
    label: str = option("action", "column of the data set that outputs are compared with")

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialEvaluator:
        """Returns the evaluator; `parts` are `dataset`, `policy` (an eval mode), `metric`."""
        from dicore_plugins.evaluators.metric.evaluator import MetricEvaluator

        return MetricEvaluator(self, **parts)
