"""Model wrappers: layers around a shared model that change its behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.model_wrappers.base import BaseWrapper, model_wrap, register_wrapper
    from dicore_plugins.model_wrappers.by_env import EnvStates

__all__ = ["BaseWrapper", "EnvStates", "model_wrap", "register_wrapper"]

_HOMES = {
    ".base": ("BaseWrapper", "model_wrap", "register_wrapper"),
    ".by_env": ("EnvStates",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
