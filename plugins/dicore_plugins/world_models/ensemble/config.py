"""Options of the ensemble of probabilistic networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.world_model import IWorldModel


__all__ = ["EnsembleConfig"]


@frozen(kw_only=True)
class EnsembleConfig(ComponentConfig):
    """Ensemble of Gaussian networks of next observation and reward (Chua et al. 2018)."""

    ensemble_size: int = option(7, "number of networks", ge=1)
    elite_size: int = option(
        5, "networks that predict: those with the least error on held-out samples", ge=1
    )
    hidden_size_list: tuple[int, ...] = option(
        (200, 200), "units of each hidden layer of each network", ge=1
    )
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "gelu", "activation function of the hidden layers"
    )
    train_freq: int = option(
        250, "env steps between two trainings; lower it for sample efficiency", ge=1,
        unit="env steps",
    )  # fmt: skip
    batch_size: int = option(64, "samples per gradient update of each network", ge=1)
    learning_rate: float = option(1e-3, "learning rate", gt=0, lt=float("inf"))
    weight_decay: float = option(1e-5, "factor of the squared weights (decoupled)", ge=0)
    holdout: float = option(0.2, "share of the samples that only measure the error", gt=0, lt=1)
    max_holdout: int = option(5_000, "largest number of such samples", ge=1)
    patience: int = option(
        10, "epochs without an improvement by 1 % after which a training ends", ge=1
    )
    max_epoch: int = option(100, "largest number of epochs of a training", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        if self.elite_size > self.ensemble_size:
            yield "elite_size", f"must be <= ensemble_size = {self.ensemble_size}"

    def build(self, ctx: BuildContext, **parts: object) -> IWorldModel:
        """Builds the model for the spaces of `ctx`."""
        from dicore_plugins.world_models.ensemble.model import EnsembleWorldModel

        return EnsembleWorldModel(
            self,
            observation_space=ctx.observation_space,
            action_space=ctx.action_space,
            device=ctx.device,
            **parts,
        )
