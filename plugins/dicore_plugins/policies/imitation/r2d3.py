"""R2D3: recurrent Q-learning from demonstrations (Paine et al. 2019, arXiv:1909.01387).

R2D2 with a fixed share of demonstrations in each batch (`other.replay_buffer.demo.share`), so that
rewards that are hard to find are seen from the first update on. The large-margin loss of DQfD can
be added.

Shapes: B sequences, U = unroll_len, A actions, H heads.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, tree_map
from dicore_plugins.functional.imitation import large_margin_error
from dicore_plugins.functional.td import legal
from dicore_plugins.policies.imitation.demonstrations import FromDemonstrations
from dicore_plugins.policies.imitation.r2d3_config import R2D3Config
from dicore_plugins.policies.value.r2d2 import R2D2Policy

__all__ = ["R2D3Policy"]


class R2D3Policy(FromDemonstrations, R2D2Policy):
    """R2D2 from two buffers."""

    config_class: ClassVar[type[PolicyConfig]] = R2D3Config
    _cfg: R2D3Config

    def _shown_loss(
        self,
        values: list[Tensor],
        action: Tensor,
        factor: Tensor | None,
        batch: Batch,
        steps: slice,
    ) -> Tensor | None:
        """Computes the large-margin loss of the demonstrations; see `R2D2Policy`."""
        learn = self._cfg.learn
        if not learn.margin_weight:
            return None
        demo = batch["demo"].transpose(0, 1)[steps]
        obs = tree_map(lambda leaf: leaf.transpose(0, 1)[steps], batch["obs"])
        weight = (demo if factor is None else demo * factor).reshape(-1)
        losses = [
            large_margin_error(
                q.flatten(0, 1), action[..., head].reshape(-1), weight, margin=learn.margin
            )
            for head, q in enumerate(legal([each[: len(demo)] for each in values], obs))
        ]
        return learn.margin_weight * torch.stack(losses).mean()
