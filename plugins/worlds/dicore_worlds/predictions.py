"""Predictions without looking: what a world model thinks that recorded actions lead to.

Shapes: B sequences, T steps, A numbers of an action, `...` one observation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dicore.errors import UsageError
from dicore_plugins.functional import inv_symlog
from dicore_worlds.interface import LatentState
from dicore_worlds.models.dreamer import DreamerNet

__all__ = ["open_loop"]


@torch.no_grad()
def open_loop(model: DreamerNet, obs: Tensor, action: Tensor, context: int) -> Tensor:
    """Predicts observations after the first ones of sequences, from the actions alone.

    The states of the context and of what follows are drawn by torch.

    Args:
        model: The network.
        obs: [B, T, ...]; what was seen. Only the first `context` steps are looked at.
        action: float32 [B, T, A]; the action after each observation, one-hot, or in [-1, 1].
        context: Observations that are looked at, from 1 to T - 1.

    Returns:
        float32 [B, T - context, P]; numbers of a vector in the units of the environment, or
        [B, T - context, C, H, W] images from 0 to 1.

    Raises:
        UsageError: nothing is looked at, or nothing is left to predict.
    """
    count, steps = action.shape[:2]
    if not 1 <= context < steps:
        raise UsageError(f"open_loop: context must be from 1 to {steps - 1}, got {context}")
    taken = action.transpose(0, 1)
    before = torch.cat([torch.zeros_like(taken[:1]), taken[: context - 1]])
    seen = obs[:, :context].transpose(0, 1)
    embed = model.encode(seen.flatten(0, 1)).unflatten(0, (context, count))
    observed = model.observe(embed, before, model.initial(count)).state
    known = iter(taken[context - 1 : -1])
    state = LatentState(observed.deter[-1], observed.stoch[-1])
    dream = model.imagine(state, lambda _: next(known), steps - context).state
    features = torch.cat(dream, -1)[1:].transpose(0, 1)
    found = model.decode(features.flatten(0, 1)).unflatten(0, (count, steps - context))
    return found + 0.5 if model.sees_images else inv_symlog(found)
