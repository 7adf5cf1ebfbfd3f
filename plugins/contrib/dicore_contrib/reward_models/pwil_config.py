"""Options of the reward model PWIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config import ComponentConfig, component, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.reward_model import IRewardModel

__all__ = ["PWILConfig"]


@frozen(kw_only=True)
class PWILConfig(ComponentConfig):
    """Rewards steps by how well they match an unused step of the expert (Dadashi et al. 2021)."""

    needs_expert: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True

    expert: Any = component(
        "dataset", help="steps of an expert, as dicore collect writes them", optional=True
    )
    horizon: int = option(1_000, "steps of an episode that are matched", ge=1, unit="env steps")
    expert_steps: int = option(1_000, "most steps of the expert that are used", ge=1)
    alpha: float = option(5.0, "largest reward", gt=0)
    beta: float = option(5.0, "sharpness of the reward", gt=0)

    def build(self, ctx: BuildContext | None, **parts: Any) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`; loads the expert's data."""
        from dicore_contrib.reward_models.pwil import PWIL
        from dicore_plugins.reward_models import opened, spaces_of

        return PWIL(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)
