"""Options of the interaction evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.evaluator import ISerialEvaluator


@frozen(kw_only=True)
class InteractionEvaluatorConfig(ComponentConfig):
    """Runs whole episodes in separate environments; training stops when `stop_value` is reached."""

    eval_freq: int | None = option(
        None,
        "gradient updates between evaluations; None: 1000, and evaluations take at most eval_share"
        " of the env steps",
        ge=1,
        unit="updates",
    )
    eval_env_step: int | None = option(
        None, "env steps between evaluations; replaces eval_freq", ge=1, unit="env steps"
    )
    eval_share: float = option(
        0.1, "evaluation steps per training step at most, if neither interval is given", gt=0
    )
    eval_at_start: bool = option(False, "evaluate before the first update too")
    n_episode: int = option(10, "episodes per evaluation", ge=1, follows="env.n_evaluator_episode")
    stop_value: float = option(
        float("inf"), "mean episode return at which training stops", follows="env.stop_value"
    )
    measure: Literal["return", "win_rate", "reward_per_step"] = option(
        "return",
        "what is compared with stop_value and chooses the best checkpoint: mean return, share of"
        " won episodes (info is_success, success or won), or mean reward per env step",
    )
    consecutive: int = option(1, "consecutive evaluations that must reach stop_value", ge=1)
    max_episode_steps: int = option(
        30_000, "longer episodes are truncated, with a warning", ge=1, unit="env steps"
    )
    fixed_starts: bool = option(
        False, "use the same episode seeds in every evaluation, to compare results"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialEvaluator:
        """Returns the evaluator; `parts` are `env_manager` and `policy` (an eval mode)."""
        from dicore_plugins.evaluators.interaction.evaluator import InteractionEvaluator

        return InteractionEvaluator(self, **parts)
