"""The network of diffusion policies (Chi et al. 2023, arXiv:2303.04137).

It predicts the noise in a plan, the actions of some steps, by convolutions over the steps. The last
observations and the step of the diffusion, through a small network, scale and shift the channels of
each block (FiLM). That of the paper is larger, has no network before FiLM for vectors, and halves
and doubles the number of steps.

Shapes: B plans, H steps of one, O observations, A action values, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Tree, tree_map
from dicore.errors import ConfigError
from dicore_contrib.models.denoiser_config import DenoiserConfig
from dicore_plugins.models import ObsEncoder

__all__ = ["Denoiser", "step_features"]

_GROUPS = 8


def step_features(step: Tensor, count: int) -> Tensor:
    """Describes steps of a diffusion by sines and cosines (Vaswani et al. 2017).

    Args:
        step: Any dtype [B]; from 0 to about 1000.
        count: F, an even number from 4 on.

    Returns:
        float32 [B, F].
    """
    half = count // 2
    rate = torch.exp(torch.arange(half, device=step.device) * (-math.log(10_000) / (half - 1)))
    angle = step.unsqueeze(1) * rate
    return torch.cat([angle.sin(), angle.cos()], 1)


class _Block(nn.Module):
    """Two convolutions beside a way past them; the condition modulates the channels between."""

    def __init__(self, units: int, kernel: int, condition: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(_GROUPS, units) for _ in range(2))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(units, units, kernel, padding=kernel // 2) for _ in range(2)
        )
        self.modulation = nn.Linear(condition, 2 * units)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Maps [B, C, H] and [B, F] to [B, C, H]."""
        scale, shift = self.modulation(F.mish(condition)).unsqueeze(-1).chunk(2, 1)
        y = self.convolutions[0](F.mish(self.norms[0](x))) * (1 + scale) + shift
        added: Tensor = x + self.convolutions[1](F.mish(self.norms[1](y)))
        return added


class Denoiser(nn.Module):
    """Predicts the noise that was added to plans.

    Args:
        obs_shape: An int or a tuple; unused if `obs_parts` is given.
        action_shape: A.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        obs_norm: Normalise observations by running statistics; None: unless there are images.
        obs_steps: O.
        units: C.
        blocks: Residual blocks.
        kernel: Steps that a convolution sees.
        step_features: Numbers that describe the step of the diffusion.

    Attributes:
        encode: Encoder of one observation; `encode.norm` has the statistics, or is None.

    Raises:
        ConfigError: a shape is missing or unsupported.
    """

    config_class: Any = DenoiserConfig

    def __init__(  # noqa: PLR0913 - one argument per option
        self, obs_shape: int | Sequence[int] | None, action_shape: int | None, *,
        obs_parts: Sequence[Any] | None = None, obs_norm: bool | None = None, obs_steps: int = 2,
        units: int = 64, blocks: int = 3, kernel: int = 5, step_features: int = 32,
    ) -> None:  # fmt: skip
        super().__init__()
        if action_shape is None:
            raise ConfigError("model.action_shape must be the number of action values, got None")
        encoder = ObsEncoder(obs_shape, obs_parts)
        if obs_norm or (obs_norm is None and not encoder.learned):
            encoder = ObsEncoder(obs_shape, obs_parts, normalise=True)
        self.encode, self.obs_steps, self.action_size = encoder, obs_steps, action_shape
        self._step_features, self._kernel = step_features, kernel
        self.of_step = nn.Sequential(
            nn.Linear(step_features, units), nn.Mish(), nn.Linear(units, units)
        )
        condition, wide = 2 * units, 4 * units
        self.of_both = nn.Sequential(
            nn.Linear(units + obs_steps * encoder.features, wide), nn.Mish(),
            nn.Linear(wide, wide), nn.Mish(), nn.Linear(wide, condition),
        )  # fmt: skip
        self.first = nn.Conv1d(action_shape, units, kernel, padding=kernel // 2)
        self.blocks = nn.ModuleList(_Block(units, kernel, condition) for _ in range(blocks))
        self.norm = nn.GroupNorm(_GROUPS, units)
        self.last = nn.Conv1d(units, action_shape, 1)

    def condition(self, obs: Tree) -> Tensor:
        """Encodes the last observations [B, O, ...], or a tree of these: [B, O * F]."""
        flat = self.encode.forward(tree_map(lambda leaf: leaf.flatten(0, 1), obs))
        found: Tensor = flat.unflatten(0, (-1, self.obs_steps)).flatten(1)
        return found

    def noise(self, plan: Tensor, step: Tensor, condition: Tensor) -> Tensor:
        """Predicts the noise in plans.

        Args:
            plan: [B, H, A]; noisy actions in units of their bounds.
            step: int64 [B]; steps of the diffusion.
            condition: [B, O * F]; of `condition`.

        Returns:
            [B, H, A].
        """
        of_step = self.of_step(step_features(step, self._step_features))
        seen = self.of_both(torch.cat([of_step, condition], 1))
        x = self.first(plan.transpose(1, 2))
        for block in self.blocks:
            x = block(x, seen)
        found: Tensor = self.last(F.mish(self.norm(x))).transpose(1, 2)
        return found

    def forward(self, obs: Tree) -> dict[str, Tensor]:
        """Predicts the noise in plans of ones, before any step, where nothing was seen before.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `noise` float32 [B, H, A] of the steps that a convolution sees.
        """
        repeated = tree_map(lambda leaf: torch.stack([leaf] * self.obs_steps, 1), obs)
        condition = self.condition(repeated)
        plan = condition.new_ones(len(condition), self._kernel, self.action_size)
        step = torch.zeros(len(condition), dtype=torch.int64, device=plan.device)
        return {"noise": self.noise(plan, step, condition)}
