"""Behavioural cloning from observation (Torabi et al. 2018, arXiv:1805.01954), BCO(alpha).

An inverse model learns from own steps which action leads from s to s'. The actions of the
demonstrations are not used: the policy clones those that the inverse model finds for them.

    L = E_own[-log p(a|s, s')] + E_demo[-log pi(a'|s)],  a' the mode of p(.|s, s')

Both are learned all the time, and the policy's own steps become like those shown.

Shapes: B samples, A actions or dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.imitation import bc_error
from dicore_plugins.policies.imitation.bc import CloningPolicy
from dicore_plugins.policies.imitation.bco_config import BCOConfig
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations

__all__ = ["BCOPolicy"]


class BCOPolicy(FromDemonstrations, CloningPolicy):
    """Cloning of actions that an inverse model infers."""

    config_class: ClassVar[type[PolicyConfig]] = BCOConfig
    _cfg: BCOConfig

    network_has = ("inverse",)

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        demo, obs, criterion = batch["demo"], batch["obs"], self._cfg.learn.criterion
        output = self._model.inverse(obs, batch["next_obs"], learns=demo == 0)
        mask = mask_of(obs)
        inverse_loss, _ = bc_error(
            output, self._action_index(batch), _mean_of(1 - demo), mask, criterion
        )
        inferred = self._mode_of(output, mask)
        cloning_loss, _ = bc_error(self._acted(obs), inferred, _mean_of(demo), mask, criterion)
        total = inverse_loss + cloning_loss
        return {"total_loss": total, "inverse_loss": inverse_loss, "bc_loss": cloning_loss}

    def _mode_of(self, output: Mapping[str, Tree], mask: Tree) -> Any:
        """Returns the most likely actions, as the network's distribution has them."""
        logit, mean = output.get("logit"), output.get("mean")
        args = None if mean is None else self._actions.within(mean.detach())
        if logit is None:
            return args
        if not isinstance(logit, Tensor):
            masks = [None] * len(logit) if mask is None else mask
            heads = [_best(*pair) for pair in zip(logit, masks, strict=True)]
            return torch.stack(heads, 1)
        best = _best(logit, mask)
        return best if args is None else {"action_type": best, "action_args": args}


def _mean_of(chosen: Tensor) -> Tensor:
    """Returns the factors that make the mean over a batch that over the chosen samples."""
    return chosen * (len(chosen) / chosen.sum().clamp(min=1))


def _best(logit: Tensor, mask: Tree) -> Tensor:
    allowed = logit if mask is None else logit.masked_fill(mask == 0, -torch.inf)
    return allowed.detach().argmax(1)
