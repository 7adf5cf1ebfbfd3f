"""Networks and helpers for them; each name imports its module on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.model_wrappers.base import model_wrap, register_wrapper
    from dicore_plugins.models.create import create_model
    from dicore_plugins.models.dqn.config import DQNModelConfig
    from dicore_plugins.models.dqn.model import DQN
    from dicore_plugins.models.encoders.nested import Nested
    from dicore_plugins.models.flat import Flat

__all__ = [
    "DQN",
    "DQNModelConfig",
    "Flat",
    "Nested",
    "create_model",
    "model_wrap",
    "register_wrapper",
]

__getattr__ = lazy(
    __name__,
    {
        "DQN": ".dqn.model",
        "DQNModelConfig": ".dqn.config",
        "Flat": ".flat",
        "Nested": ".encoders.nested",
        "create_model": ".create",
        "model_wrap": "dicore_plugins.model_wrappers.base",
        "register_wrapper": "dicore_plugins.model_wrappers.base",
    },
)
