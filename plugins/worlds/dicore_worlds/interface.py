"""The contract of networks that imagine: states that are not seen, in tensors.

Shapes: T steps, B sequences, E features of an observation, A numbers of an action, D numbers of the
recurrent part of a state, G categorical variables with C classes each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["Imagined", "LatentActor", "LatentState", "Observed", "SupportsLatent"]


class LatentState(NamedTuple):
    """States of a latent model.

    Args:
        deter: float32 [..., D]; what is remembered.
        stoch: float32 [..., G * C]; what was drawn, one-hot.
    """

    deter: Tensor
    stoch: Tensor


class Observed(NamedTuple):
    """States of sequences that were seen.

    Args:
        state: [T, B, ...]; after each observation.
        posterior: float32 [T, B, G, C]; log-probabilities by what was seen.
        prior: float32 [T, B, G, C]; log-probabilities by what came before.
    """

    state: LatentState
    posterior: Tensor
    prior: Tensor


class Imagined(NamedTuple):
    """States of sequences that were imagined.

    Args:
        state: [T + 1, B, ...]; the first ones are those given.
        action: float32 [T, B, A]; what the actor chose in each state but the last ones.
    """

    state: LatentState
    action: Tensor


LatentActor = Callable[[LatentState], Tensor]
"""Chooses actions, float32 [B, A], in states [B, ...]."""


@runtime_checkable
class SupportsLatent(Protocol):
    """A network with states of its own, which predicts their future with and without observing."""

    def initial(self, count: int) -> LatentState:
        """Returns the states [B, ...] before the first observation of an episode."""

    def observe(self, embed: Tensor, action: Tensor, state: LatentState) -> Observed:
        """Follows sequences that were seen.

        Args:
            embed: float32 [T, B, E]; features of the observations.
            action: float32 [T, B, A]; the actions before them.
            state: [B, ...]; before the first action.
        """

    def imagine(self, state: LatentState, actor: LatentActor, horizon: int) -> Imagined:
        """Predicts `horizon` steps of what an actor would do from states [B, ...]."""
