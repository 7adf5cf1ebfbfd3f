"""Sums of the algorithms of this package."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["contrastive_energy_error", "cosine_schedule", "linear_schedule", "reverse_step"]


def cosine_schedule(count: int) -> Tensor:
    """Computes how much of a sample is left after each step of a diffusion.

    Nichol and Dhariwal 2021, arXiv:2102.09672, equation 17: with f(t) = cos^2((t / K + 0.008) /
    1.008 pi / 2), the share of noise that step t adds is min(1 - f(t + 1) / f(t), 0.999).

    Args:
        count: K, number of steps.

    Returns:
        float32 [K], falling; the product of the shares of the sample that are left.
    """
    place = torch.arange(count + 1, dtype=torch.float64) / count
    left = torch.cos((place + 0.008) / 1.008 * math.pi / 2).square()
    return (left[1:] / left[:-1]).clamp(min=1e-3).cumprod(0).float()


def linear_schedule(time: Tensor) -> Tensor:
    """Computes how much of a sample is left at times of a diffusion whose rate rises linearly.

    Song et al. 2021, arXiv:2011.13456, equation 32, with rates beta from 0.1 to 20: a sample x
    becomes alpha x + sigma z of a standard normal z, where log alpha = -(20 - 0.1) t^2 / 4
    - 0.1 t / 2, and sigma^2 = 1 - alpha^2.

    Args:
        time: t, float [...]; 0: the sample, 1: noise.

    Returns:
        alpha^2, float [...].
    """
    return torch.exp(-(20 - 0.1) / 2 * time.square() - 0.1 * time)


def contrastive_energy_error(energy: Tensor, value: Tensor, beta: float) -> Tensor:
    """Computes how far energies are from the values of the actions before noise was added.

    Lu et al. 2023, arXiv:2304.12824, equation 12: the cross-entropy over K actions of each state,
    -sum_k softmax_k(beta Q_k) log softmax_k(f_k).

    Args:
        energy: f, float [B, K]; of noisy actions, all of a state at one time.
        value: Q, float [B, K]; of the actions.
        beta: Inverse temperature.

    Returns:
        The mean over the states, a scalar.
    """
    share = (beta * value).softmax(1)
    return -(share * energy.log_softmax(1)).sum(1).mean()


def reverse_step(
    sample: Tensor, noise: Tensor, left: Tensor, left_before: Tensor, drawn: Tensor, eta: float
) -> Tensor:
    """Computes a sample before some steps of a diffusion from that after them.

    Song et al. 2021 (DDIM, arXiv:2010.02502), equations 12 and 16. With eta = 1 and steps that
    follow each other it is DDPM (Ho et al. 2020), with eta = 0 it is deterministic. What the
    clean sample would be is clipped to [-1, 1] first.

        x0 = clip((x - sqrt(1 - a) e) / sqrt(a)),   e' = (x - sqrt(a) x0) / sqrt(1 - a)
        s = eta sqrt((1 - b) / (1 - a)) sqrt(1 - a / b)
        x_before = sqrt(b) x0 + sqrt(1 - b - s^2) e' + s z

    Args:
        sample: x, float [...].
        noise: e, the noise that is thought to be in it.
        left: a; share of the clean sample, a scalar.
        left_before: b; the share before the steps; 1 before the first one.
        drawn: z, of a standard normal distribution.
        eta: 0 to 1.

    Returns:
        float [...].
    """
    clean = ((sample - (1 - left).sqrt() * noise) / left.sqrt()).clamp(-1, 1)
    noise = (sample - left.sqrt() * clean) / (1 - left).sqrt()
    std = eta * ((1 - left_before) / (1 - left) * (1 - left / left_before)).sqrt()
    rest = (1 - left_before - std.square()).clamp(min=0).sqrt()
    return left_before.sqrt() * clean + rest * noise + std * drawn
