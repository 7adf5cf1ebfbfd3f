"""World models: learned dynamics of an environment, for simulated rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.world_models.ensemble.config import EnsembleConfig
    from dicore_plugins.world_models.ensemble.model import EnsembleWorldModel
    from dicore_plugins.world_models.ensemble.network import GaussianEnsemble

__all__ = ["EnsembleConfig", "EnsembleWorldModel", "GaussianEnsemble"]

_HOMES = {
    ".ensemble.config": ("EnsembleConfig",),
    ".ensemble.model": ("EnsembleWorldModel",),
    ".ensemble.network": ("GaussianEnsemble",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
