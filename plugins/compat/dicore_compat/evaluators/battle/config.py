"""Options of the battle evaluator."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import frozen, option
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.run.env_factory import BuildContext
from dicore_plugins.evaluators.interaction.config import InteractionEvaluatorConfig


@frozen(kw_only=True)
class BattleEvaluatorConfig(InteractionEvaluatorConfig):
    """Runs whole episodes of two policies in one environment; the first one is evaluated."""

    replay_path: str = option(
        "replays", "folder of the videos of evaluations with force_render=True"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialEvaluator:
        """Returns the evaluator; `policy` is a list of two eval modes, or one mode."""
        from dicore_compat.evaluators.battle.evaluator import BattleEvaluator

        return BattleEvaluator(self, **parts)
