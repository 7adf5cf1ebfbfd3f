"""Options of the network of MR.Q."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem, obs_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["MRQModelConfig"]


@frozen(kw_only=True)
class MRQModelConfig(ComponentConfig):
    """Embeddings of states and actions, Q networks and a policy (MR.Q), for vectors and images."""

    conv: ClassVar[str] = "nature"

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of actions or of action values; None: read from the env", ge=1
    )
    continuous: bool = option(False, "actions are real numbers; read from the env")
    state_features: int = option(512, "numbers of an embedded state; fewer are faster", ge=1)
    action_features: int = option(256, "numbers of an embedded action", ge=1)
    joint_features: int = option(512, "numbers of an embedded pair of state and action", ge=1)
    units: int = option(512, "units of each hidden layer; fewer are faster on a CPU", ge=1)
    bins: int = option(65, "bins of rewards; an odd number", ge=3)
    largest: float = option(
        10.0, "symlog of the largest reward that can be predicted; 10: 22025", gt=0
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
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
        from dicore_contrib.models.mrq import MRQNet

        problem = obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
        if problem is not None:
            raise ConfigError(f"model.obs_shape: {problem}")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        assert self.obs_shape is not None
        return MRQNet(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            continuous=self.continuous,
            state_features=self.state_features,
            action_features=self.action_features,
            joint_features=self.joint_features,
            units=self.units,
            bins=self.bins,
            largest=self.largest,
        )
