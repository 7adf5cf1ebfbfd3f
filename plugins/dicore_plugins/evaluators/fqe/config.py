"""Options of fitted Q evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.evaluator import ISerialEvaluator


@frozen(kw_only=True)
class FQEConfig(ComponentConfig):
    """Estimates the return of the policy from the dataset alone: fitted Q (Le et al. 2019)."""

    needs_dataset: ClassVar[bool] = True
    """Its `build` takes the part `dataset`."""

    eval_freq: int = option(5000, "gradient updates between evaluations", ge=1, unit="updates")
    stop_estimate: float = option(
        float("inf"),
        "estimated discounted return at which training stops; not that of env.stop_value",
    )
    updates: int = option(
        2000,
        "updates of the evaluation's Q network per evaluation; it goes on from the one before",
        ge=1,
    )
    batch_size: int = option(256, "samples per update of the evaluation", ge=1)
    learning_rate: float = option(1e-3, "learning rate of the evaluation", gt=0, lt=float("inf"))
    target_theta: float = option(
        0.01, "soft-update coefficient tau of the target network (Polyak averaging)", gt=0, le=1
    )
    hidden_size_list: tuple[int, ...] = option(
        (128, 128), "units of each hidden layer of the evaluation's Q network", ge=1
    )
    discount_factor: float = option(
        0.99, "discount of the estimated return", ge=0, le=1, follows="policy.discount_factor"
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> ISerialEvaluator:
        """Returns the evaluator; `parts` are `dataset`, `policy` (an eval mode), `env_manager`."""
        from dicore_plugins.evaluators.fqe.evaluator import FQEvaluator

        given = (None, None) if ctx is None else (ctx.observation_space, ctx.action_space)
        spaces = dict(zip(("observation_space", "action_space"), given, strict=True))
        return FQEvaluator(self, **{**spaces, **parts})
