"""Evaluators: they run a policy over whole episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.evaluators.battle.config import BattleEvaluatorConfig
    from dicore_plugins.evaluators.battle.evaluator import BattleEvaluator
    from dicore_plugins.evaluators.fqe.config import FQEConfig
    from dicore_plugins.evaluators.fqe.evaluator import FQEvaluator, StateActionValue
    from dicore_plugins.evaluators.interaction.config import InteractionEvaluatorConfig
    from dicore_plugins.evaluators.interaction.evaluator import (
        BaseSerialEvaluator,
        InteractionEvaluator,
    )
    from dicore_plugins.evaluators.metric.config import MetricEvaluatorConfig
    from dicore_plugins.evaluators.metric.evaluator import Accuracy, IMetric, MetricEvaluator
    from dicore_plugins.evaluators.scheduled import VectorEvalMonitor

__all__ = [
    "Accuracy",
    "BaseSerialEvaluator",
    "BattleEvaluator",
    "BattleEvaluatorConfig",
    "FQEConfig",
    "FQEvaluator",
    "IMetric",
    "InteractionEvaluator",
    "InteractionEvaluatorConfig",
    "MetricEvaluator",
    "MetricEvaluatorConfig",
    "StateActionValue",
    "VectorEvalMonitor",
]

_HOMES = {
    ".battle.config": ("BattleEvaluatorConfig",),
    ".battle.evaluator": ("BattleEvaluator",),
    ".fqe.config": ("FQEConfig",),
    ".fqe.evaluator": ("FQEvaluator", "StateActionValue"),
    ".interaction.config": ("InteractionEvaluatorConfig",),
    ".interaction.evaluator": ("BaseSerialEvaluator", "InteractionEvaluator"),
    ".metric.config": ("MetricEvaluatorConfig",),
    ".metric.evaluator": ("Accuracy", "IMetric", "MetricEvaluator"),
    ".scheduled": ("VectorEvalMonitor",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
