"""Networks by name, and what is done with them; each name loads its module on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore_plugins.model_wrappers.wrap import model_wrap, register_wrapper
    from dicore_plugins.models.create import create_model
    from dicore_plugins.models.dqn.model import DQN
    from dicore_plugins.models.flat import Flat

__all__ = ["DQN", "Flat", "create_model", "model_wrap", "register_wrapper"]

_HOME = {
    "DQN": "dicore_plugins.models.dqn.model",
    "Flat": "dicore_plugins.models.flat",
    "create_model": "dicore_plugins.models.create",
    "model_wrap": "dicore_plugins.model_wrappers.wrap",
    "register_wrapper": "dicore_plugins.model_wrappers.wrap",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
