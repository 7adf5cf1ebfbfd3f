"""Options of the network of diffusion policies."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import ComponentConfig, frozen, option
from dicore_plugins.models import builds_network, obs_shape_problem

__all__ = ["DenoiserConfig"]

Part = tuple[tuple[str | int, ...], int, tuple[int, ...], tuple[int, ...]]
"""A leaf of an observation, as `dicore_plugins.models` describes it."""


@frozen(kw_only=True)
class DenoiserConfig(ComponentConfig):
    """Convolutions over the steps of a plan, which observations modulate (Chi et al. 2023)."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of continuous action values; None: read from the env", ge=1
    )
    obs_parts: tuple[Part, ...] | None = option(
        None, "leaves of categorical and nested observations; None: read from the env"
    )
    obs_norm: bool | None = option(
        None,
        "normalise observations by the mean and variance of those it learned from; None: unless"
        " there are images",
    )
    obs_steps: int = option(2, "last observations that a plan depends on", ge=1, unit="env steps")
    units: int = option(64, "channels of the convolutions; a multiple of 8", ge=8)
    blocks: int = option(3, "residual blocks, of two convolutions each", ge=1)
    kernel: int = option(5, "steps that a convolution sees; an odd number", ge=1)
    step_features: int = option(
        32, "numbers that describe the step of the diffusion; an even number", ge=4
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, channels_last=True)
        ):
            yield "obs_shape", problem
        if self.units % 8:
            yield "units", f"must be a multiple of 8, got {self.units}"
        if self.kernel % 2 == 0:
            yield "kernel", f"must be odd, got {self.kernel}"
        if self.step_features % 2:
            yield "step_features", f"must be even, got {self.step_features}"

    build = builds_network("dicore_contrib.models.denoiser:Denoiser")
