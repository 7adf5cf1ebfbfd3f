"""Optimizers for flat parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.optimizers.config import (
        AdamConfig,
        AdamWConfig,
        RMSpropConfig,
        SGDConfig,
        build_optimizer,
        optimizer_of,
        optimizer_problems,
    )
    from dicore_plugins.optimizers.flat import FlatAdam, FlatOptimizer, FlatRMSprop, FlatSGD
    from dicore_plugins.optimizers.foreign import ForeignOptimizer

__all__ = [
    "AdamConfig",
    "AdamWConfig",
    "FlatAdam",
    "FlatOptimizer",
    "FlatRMSprop",
    "FlatSGD",
    "ForeignOptimizer",
    "RMSpropConfig",
    "SGDConfig",
    "build_optimizer",
    "optimizer_of",
    "optimizer_problems",
]

_HOMES = {
    ".config": (
        "AdamConfig",
        "AdamWConfig",
        "RMSpropConfig",
        "SGDConfig",
        "build_optimizer",
        "optimizer_of",
        "optimizer_problems",
    ),
    ".flat": (
        "FlatAdam",
        "FlatOptimizer",
        "FlatRMSprop",
        "FlatSGD",
    ),
    ".foreign": ("ForeignOptimizer",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
