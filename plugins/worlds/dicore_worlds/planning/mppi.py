"""Model predictive path integral control in latent space (Williams et al. 2015; TD-MPC2, 3.3).

Action sequences of H steps are drawn around a mean, beside those of the policy, and weighted by the
return that the model predicts for them:

    mu = sum_i w_i a_i,   sigma^2 = sum_i w_i (a_i - mu)^2,   w_i ~ exp(temperature (G_i - max G))

over the best of them, several times. The mean of the next step begins with that of this one.

Shapes: B states, N sequences, H steps, A action values, I iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["MPPI", "Planned"]


class Planned(NamedTuple):
    """A plan.

    Args:
        action: [B, A] in [-1, 1]; the first one.
        mean: [B, H, A]; the means after the last iteration.
        std: [B, H, A]; the standard deviations.
    """

    action: Tensor
    mean: Tensor
    std: Tensor


class MPPI(NamedTuple):
    """How plans are made.

    Args:
        iterations: I.
        num_samples: Sequences that are drawn in each iteration.
        num_elites: Sequences that the next mean and deviation are made of.
        min_std: Lowest standard deviation.
        max_std: First and highest standard deviation.
        temperature: How much better sequences count more.
    """

    iterations: int
    num_samples: int
    num_elites: int
    min_std: float
    max_std: float
    temperature: float

    def plan(
        self,
        value: Callable[[Tensor], Tensor],
        mean: Tensor,
        noise: Tensor,
        proposed: Tensor,
        uniform: Tensor | None = None,
    ) -> Planned:
        """Searches for the best sequences.

        Args:
            value: Returns of sequences, [B, N, H, A] to [B, N].
            mean: [B, H, A]; the first mean.
            noise: [B, I, num_samples, H, A] of a standard normal distribution.
            proposed: [B, P, H, A]; further sequences, of the policy.
            uniform: [B] in [0, 1); draws one of the best sequences; None: the mean is taken.
        """
        std = torch.full_like(mean, self.max_std)
        best = score = mean
        for number in range(self.iterations):
            drawn = mean.unsqueeze(1) + std.unsqueeze(1) * noise[:, number]
            tried = torch.cat([proposed, drawn.clamp(-1, 1)], 1)
            returns = value(tried)
            top = returns.topk(min(self.num_elites, tried.shape[1]), 1)
            index = top.indices[:, :, None, None].expand(-1, -1, *tried.shape[2:])
            best = tried.gather(1, index)
            score = (self.temperature * (top.values - top.values[:, :1])).softmax(1)
            weight = score[:, :, None, None]
            mean = (weight * best).sum(1)
            spread = (weight * (best - mean.unsqueeze(1)).square()).sum(1)
            std = spread.sqrt().clamp(self.min_std, self.max_std)
        if uniform is None:
            return Planned(mean[:, 0], mean, std)
        chosen = (score.cumsum(1)[:, :-1] <= uniform.unsqueeze(1)).sum(1)
        return Planned(best[torch.arange(len(best)), chosen, 0], mean, std)
