"""Networks and helpers for them; each name imports its module on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.model_wrappers.base import model_wrap, register_wrapper
    from dicore_plugins.models.create import create_model
    from dicore_plugins.models.dqn.config import DQNModelConfig
    from dicore_plugins.models.dqn.model import DQN, QHead
    from dicore_plugins.models.encoders.conv import NatureConv
    from dicore_plugins.models.encoders.mlp import MLP, initialise
    from dicore_plugins.models.encoders.nested import Nested
    from dicore_plugins.models.flat import Flat
    from dicore_plugins.models.shapes import (
        action_shape_problem,
        action_start,
        discrete_shape,
        obs_shape_problem,
        observation_options,
    )

__all__ = [
    "DQN",
    "MLP",
    "DQNModelConfig",
    "Flat",
    "NatureConv",
    "Nested",
    "QHead",
    "action_shape_problem",
    "action_start",
    "create_model",
    "discrete_shape",
    "initialise",
    "model_wrap",
    "obs_shape_problem",
    "observation_options",
    "register_wrapper",
]

_HOMES = {
    ".create": ("create_model",),
    ".dqn.config": ("DQNModelConfig",),
    ".dqn.model": (
        "DQN",
        "QHead",
    ),
    ".encoders.conv": ("NatureConv",),
    ".encoders.mlp": (
        "MLP",
        "initialise",
    ),
    ".encoders.nested": ("Nested",),
    ".flat": ("Flat",),
    ".shapes": (
        "action_shape_problem",
        "action_start",
        "discrete_shape",
        "obs_shape_problem",
        "observation_options",
    ),
    "dicore_plugins.model_wrappers.base": (
        "model_wrap",
        "register_wrapper",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
