"""Options of the network of AlphaZero."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["BoardModelConfig"]


@frozen(kw_only=True)
class BoardModelConfig(ComponentConfig):
    """Policy and value of boards (AlphaZero): an MLP, or residual convolutions before it."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(None, "number of actions; None: read from the env", ge=1)
    blocks: int = option(
        0, "residual blocks of two convolutions of the board; 0: an MLP alone", ge=0
    )
    channels: int = option(32, "channels of convolutions", ge=1)
    units: int = option(128, "units of each hidden layer of the MLP", ge=1)
    layers: int = option(2, "hidden layers of the MLP", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if self.obs_shape is not None and (problem := self._obs_problem()):
            yield "obs_shape", problem

    def _obs_problem(self) -> str | None:
        shape = self.obs_shape
        if shape is None:
            return "is missing; set it (a run reads it from the env)"
        sizes = (shape,) if isinstance(shape, int) else shape
        if not sizes or prod(sizes) < 1:
            return f"must have at least one number, got {shape!r}"
        if self.blocks and len(sizes) != 3:
            return f"must be (planes, height, width) for convolutions, got {shape!r}"
        return None

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore.errors import ConfigError
        from dicore_worlds.models.board import BoardNet

        if problem := self._obs_problem():
            raise ConfigError(f"model.obs_shape: {problem}")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        assert self.obs_shape is not None
        return BoardNet(
            self.obs_shape,
            self.action_shape,
            blocks=self.blocks,
            channels=self.channels,
            units=self.units,
            layers=self.layers,
        )
