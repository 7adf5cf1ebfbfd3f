"""What measures a policy over whole episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.evaluators.interaction.evaluator import (
        BaseSerialEvaluator,
        InteractionEvaluator,
    )
    from dicore_plugins.evaluators.vector_eval_monitor import VectorEvalMonitor

__all__ = [
    "BaseSerialEvaluator",
    "InteractionEvaluator",
    "VectorEvalMonitor",
]

__getattr__ = lazy(
    __name__,
    {
        "BaseSerialEvaluator": ".interaction.evaluator",
        "InteractionEvaluator": ".interaction.evaluator",
        "VectorEvalMonitor": ".vector_eval_monitor",
    },
)
