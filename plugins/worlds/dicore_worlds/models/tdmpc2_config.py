"""Options of the network of TD-MPC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem, obs_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["TDMPC2ModelConfig"]


@frozen(kw_only=True)
class TDMPC2ModelConfig(ComponentConfig):
    """Latent model without a decoder, Q networks and a policy (TD-MPC2), for vectors and images."""

    conv: ClassVar[str] = "impala"

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of action values; None: read from the env", ge=1
    )
    latent: int = option(512, "numbers of a latent state; a multiple of simplex", ge=2)
    simplex: int = option(8, "numbers of a latent state that add up to 1", ge=2)
    units: int = option(512, "units of each hidden layer; fewer are faster on a CPU", ge=1)
    encoder_units: int = option(256, "units of the hidden layer of the encoder", ge=1)
    cnn_depth: int = option(24, "channels after the first convolution, of images", ge=1)
    num_critics: int = option(5, "number of Q networks", ge=2)
    bins: int = option(101, "bins of rewards and values; an odd number", ge=3)
    largest: float = option(
        8.0, "symlog of the largest reward or value that can be predicted; 8: 2980", gt=0
    )
    log_std_min: float = option(-10.0, "lowest log standard deviation of the policy")
    log_std_max: float = option(2.0, "highest log standard deviation of the policy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
        ):
            yield "obs_shape", problem
        if self.bins % 2 == 0:
            yield "bins", f"must be odd, so that 0 is a bin, got {self.bins}"
        if self.latent % self.simplex:
            yield "latent", f"must be a multiple of simplex = {self.simplex}, got {self.latent}"
        if self.log_std_min >= self.log_std_max:
            yield "log_std_min", f"must be < log_std_max = {self.log_std_max}"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore.errors import ConfigError
        from dicore_worlds.models.tdmpc2 import TDMPC2Net

        problem = obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
        if problem is not None:
            raise ConfigError(f"model.obs_shape: {problem}")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        assert self.obs_shape is not None
        return TDMPC2Net(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            latent=self.latent,
            simplex=self.simplex,
            units=self.units,
            encoder_units=self.encoder_units,
            cnn_depth=self.cnn_depth,
            num_critics=self.num_critics,
            bins=self.bins,
            largest=self.largest,
            log_std=(self.log_std_min, self.log_std_max),
        )
