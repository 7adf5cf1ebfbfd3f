"""Options of the network of augmented random search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config import ComponentConfig, frozen, option
from dicore.errors import ConfigError
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["ARSModelConfig"]


@frozen(kw_only=True)
class ARSModelConfig(ComponentConfig):
    """A linear policy, or one with hidden layers, whose outputs are nearly 0 at first."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation, a vector; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of actions or of action values; None: read from the env", ge=1
    )
    hidden_size_list: tuple[int, ...] = option(
        (), "units of the hidden layers, with tanh; none: a linear policy", ge=1
    )
    continuous: bool = option(False, "actions are real numbers; read from the env")
    bias: bool = option(True, "add a constant to each unit")
    obs_norm: bool = option(
        False, "normalise observations by the mean and deviation of those seen (V2 of the paper)"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if isinstance(self.obs_shape, tuple) and len(self.obs_shape) != 1:
            yield (
                "obs_shape",
                f"must be a vector, got {self.obs_shape}; flatten it in an env wrapper",
            )

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_contrib.models.ars import ARSNet

        for path, problem in self.check():
            raise ConfigError(f"model.{path}: {problem}")
        if self.obs_shape is None:
            raise ConfigError("model.obs_shape: must be given")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        size = self.obs_shape if isinstance(self.obs_shape, int) else self.obs_shape[0]
        return ARSNet(
            size, self.action_shape, self.hidden_size_list,
            continuous=self.continuous, bias=self.bias, obs_norm=self.obs_norm,
        )  # fmt: skip
