"""Options of planners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore_worlds.planning.interface import IPlanner

__all__ = ["GumbelConfig", "PUCTConfig", "PlannerConfig"]


@frozen(kw_only=True)
class PlannerConfig(ComponentConfig):
    """Options that planners share."""

    simulations: int = option(
        25, "steps of the model per action; raise it for better and slower play", ge=1
    )
    least_range: float = option(
        0.01, "least range of Q values that is stretched to 0..1; a smaller one is noise", gt=0
    )


@frozen(kw_only=True)
class PUCTConfig(PlannerConfig):
    """Monte-Carlo tree search by PUCT (Schrittwieser et al. 2020)."""

    simulations: int = option(
        50, "steps of the model per action; raise it for better and slower play", ge=1
    )
    c1: float = option(1.25, "weight of the policy beside Q", ge=0)
    c2: float = option(19_652, "visits after which that weight grows", gt=0)
    noise_share: float = option(
        0.25, "share of Dirichlet noise in the root's policy when exploring", ge=0, le=1
    )
    noise_alpha: float = option(
        0.3, "concentration of the noise; about 10 / number of actions", gt=0
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IPlanner:
        """Creates the planner."""
        from dicore_worlds.planning.puct import PUCT

        return PUCT(self)


@frozen(kw_only=True)
class GumbelConfig(PlannerConfig):
    """Sequential halving with Gumbel noise (Danihelka et al. 2022)."""

    max_actions: int = option(16, "actions of the root that are tried at most", ge=1)
    c_visit: float = option(50, "visits of which Q has the weight before the first", ge=0)
    c_scale: float = option(
        0.1, "weight of Q beside the policy; 1 where the model is exact (board games)", gt=0
    )
    rescale: str = option(
        "tree", "whose Q values are stretched to 0..1: those of the tree, or of each node alone,"
        " which tells actions apart whose Q differ less than that of early and late states",
        choices=("tree", "node"),
    )  # fmt: skip

    def build(self, ctx: BuildContext | None, **parts: object) -> IPlanner:
        """Creates the planner."""
        from dicore_worlds.planning.gumbel import Gumbel

        return Gumbel(self)
