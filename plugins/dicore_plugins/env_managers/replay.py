"""Brings a running episode back: by the state of its environment, or by its actions."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from dicore.data import State, StateDict, Tree, tree_row
from dicore_plugins.env_managers.faults import described

if TYPE_CHECKING:
    from dicore_plugins.env_managers.observations import Leaf, Nested

__all__ = ["load_state", "repeated", "same", "state_of"]

_LOG = logging.getLogger("dicore.env")


def state_of(env: Any) -> StateDict | None:
    """Returns the state of an environment with `get_state` and `set_state`; None: it has none.

    The state of its random generator `np_random` is added. A wrapper hides these methods, because
    they do not save its own state.
    """
    if not _supports_state(env):
        return None
    rng = vars(env).get("_np_random")
    generator = None if rng is None else copy.deepcopy(rng.bit_generator.state)
    return {"env": copy.deepcopy(dict(env.get_state())), "np_random": generator}


def load_state(env: Any, state: State) -> None:
    """Restores what `state_of` returned."""
    env.set_state(state["env"])
    if state["np_random"] is not None:
        env.np_random.bit_generator.state = state["np_random"]


def _supports_state(env: Any) -> bool:
    """Returns whether an environment is a `SupportsState`; MuJoCo's `set_state` takes more."""
    kind = type(env)
    if not callable(getattr(kind, "get_state", None)) or not hasattr(kind, "set_state"):
        return False
    try:
        inspect.signature(env.set_state).bind({})
        inspect.signature(env.get_state).bind()
    except (TypeError, ValueError):
        return False
    return True


def repeated(
    pool: Any, storage: Leaf | Nested, env_id: int, actions: Sequence[Tree], ready: Tree
) -> bool:
    """Steps an environment and writes its last observation; returns whether it can go on.

    Args:
        pool: The environments; see `EnvPool`.
        storage: Of the observations.
        env_id: The environment, which was reset.
        actions: Those of its episode.
        ready: Observations [N, ...].
    """
    for number, action in enumerate(actions, 1):
        _, obs, _, _, ended, raised = pool.step([env_id], [action])
        if raised:
            why = described(raised[0])
            _LOG.warning("env %d: its running episode cannot be replayed: %s", env_id, why)
            return False
        if number == len(actions):
            last = obs[0] if obs.__class__ is list else tree_row(obs, 0)
            if ended or storage.fault(last) is not None:
                return False
            storage.write(ready, env_id, last)
    return True


def same(obs: Tree, other: Tree) -> bool:
    """Returns whether two observations are equal."""
    leaves, others = optree.tree_leaves(obs), optree.tree_leaves(other)
    return len(leaves) == len(others) and all(map(np.array_equal, leaves, others))
