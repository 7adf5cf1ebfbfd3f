"""Options of the network of DreamerV3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from dicore.config import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.models import action_shape_problem, obs_shape_problem

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel

__all__ = ["SIZES", "DreamerModelConfig"]

SIZES = {
    "XS": {"deter": 256, "units": 256, "layers": 1, "cnn_depth": 24},
    "S": {"deter": 512, "units": 512, "layers": 2, "cnn_depth": 32},
    "M": {"deter": 1024, "units": 640, "layers": 3, "cnn_depth": 48},
    "L": {"deter": 2048, "units": 768, "layers": 4, "cnn_depth": 64},
}
"""Sizes of the paper (arXiv:2301.04104v1, table B.1)."""


@frozen(kw_only=True)
class DreamerModelConfig(ComponentConfig):
    """Latent world model with an actor and a critic (DreamerV3), for vectors and images."""

    conv: ClassVar[str] = "impala"
    """The convolutions of `dicore_plugins` that take images of the same least size."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of actions, or of their values; None: read from the env", ge=1
    )
    continuous: bool = option(False, "whether actions are real numbers; read from the env")
    size: Literal["XS", "S", "M", "L"] = option(
        "XS", "sizes of the layers, as in the paper; larger models learn from fewer env steps"
    )
    deter: int | None = option(None, "units of the recurrent state; None: as size says", ge=1)
    units: int | None = option(None, "units of each hidden layer; None: as size says", ge=1)
    layers: int | None = option(None, "hidden layers of each MLP; None: as size says", ge=1)
    cnn_depth: int | None = option(
        None, "channels after the first convolution; None: as size says", ge=1
    )
    groups: int = option(32, "categorical variables of a latent state", ge=1)
    classes: int = option(32, "classes of each of them", ge=2)
    uniform: float = option(
        0.01, "share of the uniform distribution in latent states and actions", ge=0, lt=1
    )
    bins: int = option(255, "bins of rewards and values; an odd number", ge=3)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support; missing shapes are bound later."""
        if self.obs_shape is not None and (
            problem := obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
        ):
            yield "obs_shape", problem
        if self.bins % 2 == 0:
            yield "bins", f"must be odd, so that 0 is a bin, got {self.bins}"

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of the layers by name."""
        given = {
            "deter": self.deter,
            "units": self.units,
            "layers": self.layers,
            "cnn_depth": self.cnn_depth,
        }
        return {
            name: SIZES[self.size][name] if size is None else size for name, size in given.items()
        }

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore.errors import ConfigError
        from dicore_worlds.models.dreamer import DreamerNet

        problem = obs_shape_problem(self.obs_shape, self.conv, channels_last=True)
        if problem is not None:
            raise ConfigError(f"model.obs_shape: {problem}")
        if self.action_shape is None:
            raise ConfigError(f"model.action_shape: {action_shape_problem(None)}")
        assert self.obs_shape is not None
        return DreamerNet(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            continuous=self.continuous,
            groups=self.groups,
            classes=self.classes,
            uniform=self.uniform,
            bins=self.bins,
            **self.sizes(),
        )
