"""Trajectories as flat keys, after Digideep: `/observations`, `/masks`, `/agents/<name>/actions`.

Entry t of a chunk is what is known when step t begins: its observation, the mask (0: an episode
has finished before this observation), the actions and what else the agents chose; and the reward
and the infos of that step. A chunk has T + 1 entries: the last one is the half step, of which only
observation and mask are known yet, and it is the first entry of the next chunk.

Shapes: B workers, T steps; `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Tree
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail

__all__ = ["blank", "flat_keys", "nested_keys", "trajectory_of"]

Array = npt.NDArray[Any]

_OWN = {"obs", "reward", "end", "valid", "env_id", "done", "next_obs"}
_NAMES = {"action": "actions", "prev_state": "hidden_state", "hidden_state": "hidden_state"}


def blank(dtype: npt.DTypeLike) -> object:
    """Returns what stands for a missing value: NaN, the least integer, or False."""
    dtype = np.dtype(dtype)
    if np.issubdtype(dtype, np.floating):
        return np.nan
    return False if dtype == np.bool_ else np.iinfo(dtype).min


def flat_keys(tree: Tree, prefix: str = "") -> dict[str, Any]:
    """Returns the leaves of nested dicts by their path, `/agents/a/actions`.

    Raises:
        SchemaError: a key is not a string, or contains a slash.
    """
    if not isinstance(tree, Mapping):
        return {prefix: tree}
    found: dict[str, Any] = {}
    for key, below in tree.items():
        if not isinstance(key, str) or "/" in key:
            raise SchemaError(f"'{prefix}' has the key {key!r}; expected a string without '/'")
        found |= flat_keys(below, f"{prefix}/{key}")
    return found


def nested_keys(chunk: Mapping[str, object]) -> dict[str, object]:
    """Returns nested dicts of flat keys; the inverse of `flat_keys`."""
    tree: dict[str, Any] = {}
    for path, leaf in chunk.items():
        *above, last = path.strip("/").split("/")
        at = tree
        for key in above:
            at = at.setdefault(key, {})
        at[last] = leaf
    return tree


def trajectory_of(
    block: Batch,
    tail: Tail,
    *,
    agents: Sequence[str] = ("agent",),
    infos: Sequence[str] = (),
    masks: Array | None = None,
    last: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Converts a collector's block to a chunk of trajectories.

    Args:
        block: Columns [T, B, ...] with obs, action, reward, done and end. Further columns are
            artifacts of the agents. Of several agents, `action` and the artifacts are dicts by
            name.
        tail: What follows the block.
        agents: Names of the agents.
        infos: Columns that are infos of the environment, not artifacts.
        masks: 0 or 1 [B]; masks of the first entry: those of the last one of the chunk before.
            None: 0, episodes begin.
        last: What else is known of the half step, arrays [B, ...] by flat key: the values of its
            observations, for instance.

    Returns:
        Arrays [B, T + 1, ...]: `/observations` (or `/observations/<k>`), `/masks` and `/rewards`
        [B, T + 1, 1], `/infos/<k>`, `/agents/<name>/actions`, `/agents/<name>/hidden_state`,
        `/agents/<name>/artifacts/<k>`; and `/infos/terminated` [B, T + 1, 1], which tells
        terminations from truncations. What is not known of the half step is NaN (or the least
        integer).

    Raises:
        SchemaError: a column lacks the part of an agent.
    """
    end = np.asarray(block["end"])
    workers = end.shape[1]
    first = np.zeros(workers) if masks is None else np.asarray(masks).reshape(workers)
    rows = {
        **flat_keys(block["obs"], "/observations"),
        "/rewards": _column(block["reward"]),
        "/infos/terminated": _column(np.asarray(block["done"], np.float32)),
    }
    half = {**flat_keys(tail.obs, "/observations"), **(last or {})}
    for name, column in block.items():
        if name in infos:
            leaves = flat_keys(column, f"/infos/{name}")
            rows |= {key: _column(leaf) for key, leaf in leaves.items()}
        elif name not in _OWN:
            rows |= _of_agents(name, column, agents)
    chunk = {key: _entries(np.asarray(each), half.get(key)) for key, each in rows.items()}
    mask = np.concatenate([first[None], 1.0 - end]).astype(np.float32)
    return {**chunk, "/masks": np.ascontiguousarray(mask.T[:, :, None])}


def _column(values: Tree) -> Array:
    """Returns [T, B] as [T, B, 1]."""
    array = np.asarray(values)
    return array[..., None] if array.ndim == 2 else array


def _of_agents(name: str, column: Tree, agents: Sequence[str]) -> dict[str, object]:
    """Returns a column of one or several agents by flat keys."""
    found: dict[str, Any] = {}
    for agent in agents:
        of_agent = column
        if len(agents) > 1:
            if not isinstance(column, Mapping) or agent not in column:
                raise SchemaError(f"the column '{name}' has no part of the agent '{agent}'")
            of_agent = column[agent]
        below = _NAMES.get(name, f"artifacts/{name}")
        leaves = flat_keys(of_agent, f"/agents/{agent}/{below}")
        found |= {key: _column(leaf) for key, leaf in leaves.items()}
    return found


def _entries(rows: Array, half: Any) -> Array:
    """Returns rows [T, B, ...] and the half step [B, ...] as [B, T + 1, ...]."""
    steps, workers, *item = rows.shape
    out = np.empty((workers, steps + 1, *item), rows.dtype)
    out[:, :steps] = rows.swapaxes(0, 1)
    out[:, steps] = blank(rows.dtype) if half is None else np.reshape(half, (workers, *item))
    return out
