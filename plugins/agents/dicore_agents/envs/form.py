"""The form that environments of several agents have: one Dict of what all agents see.

Shapes: A agents, n actions, D numbers that an agent sees, S of the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, MultiBinary

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["Actions", "Floats", "Seen", "agents_space", "numbers", "turn_mask"]

Floats: TypeAlias = npt.NDArray[np.float32]
Actions: TypeAlias = npt.NDArray[np.int64]
Seen: TypeAlias = dict[str, npt.NDArray[np.generic]]


def agents_space(
    obs: Box, *, alive: bool = False, masked: int | None = None, state: Box | None = None
) -> Dict:
    """Returns the observation space of an environment of several agents.

    Args:
        obs: What agents see, [A, ...].
        alive: Whether agents can die or come late.
        masked: n, if some actions are forbidden at times.
        state: The state of all agents, [S].

    Returns:
        Dict with `obs`, and where they exist `alive` [A], `action_mask` [A, n] and `state` [S].
    """
    agents = obs.shape[0]
    parts: dict[str, Space] = {"obs": obs}
    if alive:
        parts["alive"] = MultiBinary(agents)
    if masked is not None:
        parts["action_mask"] = MultiBinary([agents, masked])
    if state is not None:
        parts["state"] = state
    return Dict(parts)


def numbers(*shape: int, low: float = 0.0, high: float = 1.0) -> Box:
    """Returns the space of float32 numbers between two bounds."""
    return Box(low, high, shape, np.float32)


def turn_mask(agents: int, to_play: int, legal: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Returns the masks of a game of turns, int8 [A, n].

    Who waits may choose action 0 alone, which is ignored: its choice carries no gradient, its value
    is that of the position, and what the others win or lose in its wait arrives at it.

    Args:
        agents: A.
        to_play: Number of the agent whose turn it is.
        legal: Its actions, int8 [n].
    """
    mask = np.zeros((agents, len(legal)), np.int8)
    mask[:, 0] = 1
    mask[to_play] = legal
    return mask
