"""The role of a planner: it searches with a model before an action is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore_worlds.planning.tree import Leaf, PlanningModel

__all__ = ["KIND", "IPlanner", "Plan"]

KIND = Kind(
    name="planner",
    summary="searches with a model of the environment before an action is taken",
    contract="dicore_worlds.planning.interface:IPlanner",
    suite="dicore_worlds.planning.contract:PlannerContract",
)


@attrs.frozen
class Plan:
    """What a search from B states found.

    Args:
        action: int64 [B]; what to do.
        policy: float32 [B, A]; what the policy should learn: it sums to 1, and forbidden actions
            have 0.
        value: float32 [B]; expected return of who acts, by the search.
    """

    action: npt.NDArray[np.int64]
    policy: npt.NDArray[np.float32]
    value: npt.NDArray[np.float32]


@runtime_checkable
class IPlanner(Contract, Protocol):
    """Chooses actions by what a model says comes of them."""

    def plan(
        self,
        model: PlanningModel,
        root: Leaf,
        rng: np.random.Generator,
        *,
        explore: bool,
        temperature: float = 1.0,
    ) -> Plan:
        """Searches from B states.

        Args:
            model: Steps states.
            root: What the model says of the states. Of each, one action at least is allowed.
            rng: Draws noise and actions.
            explore: Explores, as when collecting; otherwise equal states have equal actions.
            temperature: Of the draw of explored actions: 0 takes the best, 1 draws as the search
                prefers.
        """
