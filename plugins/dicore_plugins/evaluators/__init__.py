"""Evaluators: they run a policy over whole episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.evaluators.fqe.config import FQEConfig
    from dicore_plugins.evaluators.fqe.evaluator import FQEvaluator, StateActionValue
    from dicore_plugins.evaluators.interaction.config import InteractionEvaluatorConfig
    from dicore_plugins.evaluators.interaction.evaluator import (
        BaseSerialEvaluator,
        InteractionEvaluator,
        VectorEvalMonitor,
    )

__all__ = [
    "BaseSerialEvaluator",
    "FQEConfig",
    "FQEvaluator",
    "InteractionEvaluator",
    "InteractionEvaluatorConfig",
    "StateActionValue",
    "VectorEvalMonitor",
]

_HOMES = {
    ".fqe.config": ("FQEConfig",),
    ".fqe.evaluator": ("FQEvaluator", "StateActionValue"),
    ".interaction.config": ("InteractionEvaluatorConfig",),
    ".interaction.evaluator": (
        "BaseSerialEvaluator",
        "InteractionEvaluator",
        "VectorEvalMonitor",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
