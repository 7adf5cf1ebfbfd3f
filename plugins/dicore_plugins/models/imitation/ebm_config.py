"""Options of the energy-based model of actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.shapes import (
    Conv,
    Part,
    conv_option,
    obs_parts_option,
    obs_shape_option,
    shape_problems,
)


@frozen(kw_only=True)
class EBMConfig(ComponentConfig):
    """Energy-based model: scores pairs of an observation and an action (Florence et al. 2021)."""

    obs_shape: int | tuple[int, ...] | None = obs_shape_option()
    action_shape: int | None = option(
        None, "number of actions, or of continuous action values; None: read from the env", ge=1
    )
    continuous: bool | None = option(
        None, "actions are real numbers in [-1, 1]; None: read from the env"
    )
    hidden_size_list: tuple[int, ...] = option(
        (128, 128), "units of each hidden layer; the first sees observation and action", ge=1
    )
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "relu", "activation function of the hidden layers"
    )
    conv: Conv = conv_option()
    obs_parts: tuple[Part, ...] | None = obs_parts_option()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        yield from shape_problems(self)

    build = builds_network("dicore_plugins.models.imitation.ebm:EBM")
