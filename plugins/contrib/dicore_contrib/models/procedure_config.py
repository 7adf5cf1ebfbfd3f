"""Options of the network of procedure cloning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config import ComponentConfig, frozen, option
from dicore.errors import ConfigError
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["ProcedureModelConfig"]


@frozen(kw_only=True)
class ProcedureModelConfig(ComponentConfig):
    """Convolutions that predict the next step of a search over cells (Yang et al. 2022)."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation, (rows, columns, channels); None: read from the env", ge=1
    )
    action_shape: int | None = option(None, "number of actions; None: read from the env", ge=1)
    units: int = option(32, "channels of the hidden layers", ge=1)
    layers: int = option(2, "hidden layers, the first of which sees the cells around", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        sizes = (self.obs_shape,) if isinstance(self.obs_shape, int) else self.obs_shape
        if sizes is not None and not 1 <= len(sizes) <= 3:
            yield "obs_shape", f"must be (rows, columns, channels), got {self.obs_shape}"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_contrib.models.procedure import ProcedureNet

        if self.obs_shape is None or self.action_shape is None:
            raise ConfigError("model.obs_shape and model.action_shape must be given")
        return ProcedureNet(self.obs_shape, self.action_shape, units=self.units, layers=self.layers)
