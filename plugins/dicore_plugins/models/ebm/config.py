"""Options of the energy-based model of actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.models.shapes import (
    Part,
    action_shape_problem,
    obs_shape_problem,
    part_problem,
)


@frozen(kw_only=True)
class EBMConfig(ComponentConfig):
    """Energy-based model: scores pairs of an observation and an action (Florence et al. 2021)."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
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
    conv: Literal["auto", "nature", "impala", "small"] = option(
        "auto",
        "CNN for images: nature (Mnih et al. 2015), impala (residual; Espeholt et al. 2018), small"
        " (one layer, for grids); auto: nature from 36 x 36 pixels, smaller ones are flattened",
    )
    obs_parts: tuple[Part, ...] | None = option(
        None,
        "leaves of Discrete, MultiDiscrete, Dict and Tuple observations: (keys, width, category"
        " counts, category starts); None: read from the env",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        if self.obs_shape is not None and (problem := obs_shape_problem(self.obs_shape, self.conv)):
            yield "obs_shape", problem
        if self.action_shape is not None and (problem := action_shape_problem(self.action_shape)):
            yield "action_shape", problem
        for at, part in enumerate(self.obs_parts or ()):
            if problem := part_problem(part):
                yield f"obs_parts.{at}", problem

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.ebm.model import EBM

        return EBM(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            continuous=bool(self.continuous),
            hidden_size_list=self.hidden_size_list,
            activation=self.activation,
            obs_parts=self.obs_parts,
            conv=self.conv,
        )
