"""Options of the decision transformer."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.shapes import (
    Part,
    mask_problems,
    obs_parts_option,
    obs_shape_option,
    obs_shape_problem,
)

__all__ = ["DTModelConfig"]


@frozen(kw_only=True)
class DTModelConfig(ComponentConfig):
    """Causal transformer over returns to go, observations and actions (Chen et al. 2021)."""

    obs_shape: int | tuple[int, ...] | None = obs_shape_option()
    action_shape: int | None = option(
        None, "number of actions, or of continuous action values; None: read from the env", ge=1
    )
    continuous: bool | None = option(None, "continuous actions in [-1, 1]; None: read from the env")
    hidden_size: int = option(128, "width of the transformer", ge=1)
    num_layers: int = option(3, "number of transformer layers", ge=1)
    num_heads: int = option(1, "attention heads; they divide hidden_size", ge=1)
    max_timestep: int = option(
        4096, "steps of an episode that have embeddings of their own; later ones share the last",
        ge=1, unit="env steps",
    )  # fmt: skip
    obs_parts: tuple[Part, ...] | None = obs_parts_option()
    obs_norm: bool | None = option(
        None,
        "normalise observations by the mean and variance of those it learned from; None: unless"
        " there are images",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        if self.hidden_size % self.num_heads:
            yield "num_heads", f"must divide hidden_size = {self.hidden_size}"
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, channels_last=True)
        ):
            yield "obs_shape", problem
        yield from mask_problems(self)

    build = builds_network("dicore_plugins.models.imitation.dt:DecisionTransformer")
