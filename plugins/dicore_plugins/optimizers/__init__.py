"""Optimizers for flat parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.optimizers.config import build_optimizer
    from dicore_plugins.optimizers.flat import FlatAdam, FlatOptimizer, FlatRMSprop, FlatSGD
    from dicore_plugins.optimizers.foreign import ForeignOptimizer

__all__ = [
    "FlatAdam",
    "FlatOptimizer",
    "FlatRMSprop",
    "FlatSGD",
    "ForeignOptimizer",
    "build_optimizer",
]

__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(__all__, ".flat"),
        "ForeignOptimizer": ".foreign",
        "build_optimizer": ".config",
    },
)
