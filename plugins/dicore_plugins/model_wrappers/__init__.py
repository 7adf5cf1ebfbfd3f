"""Model wrappers: layers around a shared model that change its behaviour."""

from dicore_plugins.model_wrappers.base import BaseWrapper, model_wrap, register_wrapper

__all__ = ["BaseWrapper", "model_wrap", "register_wrapper"]
