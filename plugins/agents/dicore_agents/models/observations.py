"""What networks of teams read of observations: rows of agents, masks, and the state of all.

Shapes: B rows, A agents, D numbers of an observation, S of the state, n actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "agent_rows", "agent_rows_by_numpy", "alive_of", "mean_of_acting", "only_acting", "team_state",
    "value_of_team", "weight_of_acting",
]  # fmt: skip


def agent_rows(obs: Mapping[str, Tensor], ids: Tensor | None) -> Tensor:
    """Returns what each agent sees.

    Args:
        obs: Observations of the team: `obs` [B, A, ...].
        ids: float32 [A, A]; one-hot numbers of the agents to append; None: none.

    Returns:
        float32 [B, A, D], or [B, A, D + A]; zeros of agents that do not act.
    """
    rows = obs["obs"].flatten(2) if obs["obs"].dim() > 2 else obs["obs"].unsqueeze(2)
    rows = rows if rows.dtype is torch.float32 else rows.float()
    if "alive" in obs:  # what an agent sees that does not act has no meaning, and may be NaN
        rows = torch.where(obs["alive"].unsqueeze(2) > 0, rows, 0.0)
    if ids is None:
        return rows
    return torch.cat([rows, ids.expand(rows.shape[0], -1, -1)], 2)


def agent_rows_by_numpy(
    obs: Mapping[str, npt.NDArray[np.float32]], ids: npt.NDArray[np.float32] | None
) -> npt.NDArray[np.float32]:
    """Returns what each agent sees, of arrays; see `agent_rows`."""
    rows = np.asarray(obs["obs"], np.float32)
    rows = rows.reshape(*rows.shape[:2], -1)
    if "alive" in obs:
        rows = np.where(obs["alive"][..., None] > 0, rows, np.float32(0))
    if ids is None:
        return rows
    return np.concatenate([rows, np.broadcast_to(ids, (len(rows), *ids.shape))], 2)


def team_state(obs: Mapping[str, Tensor]) -> Tensor:
    """Returns the state of all agents, or their observations where the environment gives none.

    Args:
        obs: Observations of the team: `state` [B, ...], or `obs` [B, A, ...].

    Returns:
        float32 [B, S].
    """
    found = obs["state"] if "state" in obs else agent_rows(obs, None)
    return found.flatten(1).float()


def alive_of(obs: Mapping[str, Tensor]) -> Tensor | None:
    """Returns which agents act, float32 [B, A]; None if all always do."""
    return obs["alive"].float() if "alive" in obs else None


def weight_of_acting(obs: Mapping[str, Tensor]) -> Tensor | None:
    """Returns factors [B, A] whose mean is over the agents that act; None: all do."""
    alive = alive_of(obs)
    return None if alive is None else alive * (alive.numel() / alive.sum().clamp(min=1))


def only_acting(each: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Returns numbers [B, A] of agents, with 0 for those that do not act."""
    return torch.where(obs["alive"] > 0, each, 0.0) if "alive" in obs else each


def mean_of_acting(each: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Returns the means [B] of numbers [B, A] over the agents that act; 0 where none does."""
    alive = alive_of(obs)
    if alive is None:
        return each.mean(1)
    return only_acting(each, obs).sum(1) / alive.sum(1).clamp(min=1)


def value_of_team(each: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Returns values [B, A] of a team's return, at agents that do not act the mean of the others'.

    They are 0 where nobody acts.
    """
    if "alive" not in obs:
        return each
    return torch.where(obs["alive"] > 0, each, mean_of_acting(each, obs).unsqueeze(1))
