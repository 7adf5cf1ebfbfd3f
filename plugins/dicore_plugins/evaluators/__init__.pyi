from dicore_compat.evaluators.battle.config import BattleEvaluatorConfig as BattleEvaluatorConfig
from dicore_compat.evaluators.battle.evaluator import BattleEvaluator as BattleEvaluator
from dicore_plugins.evaluators.fqe.config import FQEConfig as FQEConfig
from dicore_plugins.evaluators.fqe.evaluator import FQEvaluator as FQEvaluator
from dicore_plugins.evaluators.fqe.evaluator import StateActionValue as StateActionValue
from dicore_plugins.evaluators.interaction.config import (
    InteractionEvaluatorConfig as InteractionEvaluatorConfig,
)
from dicore_plugins.evaluators.interaction.evaluator import (
    BaseSerialEvaluator as BaseSerialEvaluator,
)
from dicore_plugins.evaluators.interaction.evaluator import (
    InteractionEvaluator as InteractionEvaluator,
)
from dicore_plugins.evaluators.metric.config import MetricEvaluatorConfig as MetricEvaluatorConfig
from dicore_plugins.evaluators.metric.evaluator import Accuracy as Accuracy
from dicore_plugins.evaluators.metric.evaluator import IMetric as IMetric
from dicore_plugins.evaluators.metric.evaluator import MetricEvaluator as MetricEvaluator
from dicore_plugins.evaluators.scheduled import VectorEvalMonitor as VectorEvalMonitor
