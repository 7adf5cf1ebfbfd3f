"""Spaces that policies are tried with: which, what is drawn from them, and whether it fits.

Shapes: K environments, `...` one observation or action.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Tree, tree_row
from dicore.testing.compare import array
from dicore.testing.suite import expect

if TYPE_CHECKING:
    from dicore.interfaces.env import Space

__all__ = ["draw", "expect_legal", "pairs", "teams"]


def pairs() -> Iterator[tuple[object, object]]:
    """Yields pairs of an observation and an action space; the usual ones first."""
    from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

    low, high = np.array([-2, 0], np.float32), np.array([2, 1], np.float32)
    amount = Box(low, high)
    actions = [
        Discrete(3),
        Box(-1.0, 1.0, (2,), np.float32),
        amount,
        MultiDiscrete([3, 2]),
        Dict(kind=Discrete(3), amount=amount),
        Tuple((Discrete(3), amount)),
        Dict({"action_type": Discrete(3), "action_args": amount}),
    ]
    vector = Box(-1.0, 1.0, (4,), np.float32)
    for observation in (
        vector,
        Dict(vector=vector, category=Discrete(3)),
        Box(0, 255, (4, 84, 84), np.uint8),
        Box(0, 255, (84, 84, 3), np.uint8),
    ):
        yield from ((observation, action) for action in actions)


def teams() -> Iterator[tuple[object, ...]]:
    """Yields the arguments of `EnvSpec` of teams of three agents; discrete actions first."""
    from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

    rows, state = Box(-1.0, 1.0, (3, 4), np.float32), Box(-1.0, 1.0, (5,), np.float32)
    names, rewards = ("left", "middle", "right"), Box(-np.inf, np.inf, (3,), np.float32)
    for action in (MultiDiscrete([2, 2, 2]), Box(-2.0, 2.0, (3, 2), np.float32)):
        masked = {"action_mask": MultiBinary([3, 2])} if isinstance(action, MultiDiscrete) else {}
        seen = Dict({"obs": rows, "alive": MultiBinary(3), "state": state, **masked})
        yield seen, action, None, state, names
        yield Dict(obs=rows), action, rewards, None, names


def draw(space: Any, count: int, rng: np.random.Generator) -> Tree:
    """Draws observations [K, ...] from a space."""
    parts = getattr(space, "spaces", None)
    if isinstance(parts, tuple):
        return tuple(draw(each, count, rng) for each in parts)
    if parts is not None:
        drawn = {name: draw(each, count, rng) for name, each in parts.items()}
        if "action_mask" in drawn and type(space["action_mask"]).__name__ == "MultiBinary":
            drawn["action_mask"][..., 0] = 1  # else nothing would be allowed
        if "alive" in drawn:
            drawn["alive"][..., 0] = 1  # samples may cross steps in which nobody acts
        return drawn
    if type(space).__name__ == "MultiBinary":
        return rng.integers(0, 2, (count, *space.shape), space.dtype)
    if hasattr(space, "n"):
        return space.start + rng.integers(0, space.n, count)
    if hasattr(space, "nvec"):
        return rng.integers(0, space.nvec, (count, *space.nvec.shape)).astype(space.dtype)
    if np.dtype(space.dtype).kind in "iu":
        return rng.integers(0, 256, (count, *space.shape), np.uint8).astype(space.dtype)
    return rng.uniform(-1, 1, (count, *space.shape)).astype(space.dtype)


def expect_legal(space: Space, actions: Tree, row: int, where: str) -> None:
    """Asserts that the action in a row of [K, ...] is in its space, with a dtype of its kind."""
    parts = getattr(space, "spaces", None)
    if parts is None:
        action = array(tree_row(actions, row))
        same = action.dtype.kind == np.dtype(space.dtype).kind
        expect(same, f"{where}: actions are {action.dtype}, the space is {space.dtype}")
        legal = action.shape == space.shape and space.contains(action.astype(space.dtype))
        if not legal:  # only then is the text made, which takes longer than all else here
            expect(False, f"{where} gets {action!r}, not of {space}")
        return
    named = dict(enumerate(parts)) if isinstance(parts, tuple) else parts
    kind = (tuple, list) if isinstance(parts, tuple) else dict
    fits = isinstance(actions, kind) and len(actions) == len(named)
    expect(fits, f"{where} gets {type(actions).__name__}, not parts of {space}")
    for name, part in named.items():
        expect_legal(part, actions[name], row, where)
