"""Options of the reward model PDEIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config import ComponentConfig, component, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.reward_model import IRewardModel

__all__ = ["PDEILConfig"]


@frozen(kw_only=True)
class PDEILConfig(ComponentConfig):
    """Rewards steps by densities of an expert's steps and of the agent's states (Liu 2021)."""

    needs_expert: ClassVar[bool] = True

    expert: Any = component(
        "dataset", help="steps of an expert, as dicore collect writes them", optional=True
    )
    relabel: bool = option(
        False,
        "estimate rewards whenever samples are drawn from the replay buffer, by the model as it"
        " then is; False: once, when they are collected",
    )
    alpha: float = option(
        0.5,
        "share of the expert's states in the denominator; 1: the agent's states do not count, the"
        " reward is the probability of the expert's action",
        ge=0,
        le=1,
    )
    limit: float = option(10.0, "largest reward; larger ones are clipped", gt=0)
    ridge: float = option(
        1e-3, "added to the variances of normalised numbers; raise it if rewards are mostly 0", gt=0
    )
    replay_buffer_size: int = option(
        5_000, "newest samples whose states are the agent's", ge=2, unit="samples"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`; loads the expert's data."""
        from dicore_contrib.reward_models.pdeil import PDEIL
        from dicore_plugins.reward_models import opened, spaces_of

        return PDEIL(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)
