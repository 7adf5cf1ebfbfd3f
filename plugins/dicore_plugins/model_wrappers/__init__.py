"""Model wrappers: layers around a shared model that change its behaviour."""

from dicore_plugins.model_wrappers.base import model_wrap, register_wrapper

__all__ = ["model_wrap", "register_wrapper"]
