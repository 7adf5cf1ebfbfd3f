"""Options of the network of MuZero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem, obs_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["MuZeroModelConfig"]


@frozen(kw_only=True)
class MuZeroModelConfig(ComponentConfig):
    """Latent model for planning (MuZero): representation, dynamics and prediction by MLPs."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(None, "number of actions; None: read from the env", ge=1)
    latent: int = option(64, "numbers of a latent state", ge=2)
    units: int = option(128, "units of each hidden layer", ge=1)
    layers: int = option(1, "hidden layers of each MLP", ge=1)
    cnn_depth: int = option(24, "channels after the first convolution, of images", ge=1)
    bins: int = option(101, "bins of rewards and values; an odd number", ge=3)
    largest: float = option(
        8.0, "symlog of the largest reward or value that can be predicted; 8: 2980", gt=0
    )
    projects: bool = option(
        True, "have the layers that learn.consistency_weight needs; False: it must be 0"
    )

    value_prefix: int = option(
        0,
        "steps over which an LSTM predicts sums of rewards, where it begins anew (EfficientZero);"
        " 0: each reward is predicted, and searches are faster",
        ge=0,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, "impala", channels_last=True)
        ):
            yield "obs_shape", problem
        if self.bins % 2 == 0:
            yield "bins", f"must be odd, so that 0 is a bin, got {self.bins}"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore.errors import ConfigError
        from dicore_worlds.models.muzero import MuZeroNet

        problem = obs_shape_problem(self.obs_shape, "impala", channels_last=True)
        if problem is not None:
            raise ConfigError(f"model.obs_shape: {problem}")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        assert self.obs_shape is not None
        return MuZeroNet(
            self.obs_shape,
            self.action_shape,
            latent=self.latent,
            units=self.units,
            layers=self.layers,
            cnn_depth=self.cnn_depth,
            bins=self.bins,
            largest=self.largest,
            projects=self.projects,
            value_prefix=self.value_prefix,
        )
