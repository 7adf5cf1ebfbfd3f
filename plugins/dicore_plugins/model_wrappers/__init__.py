"""Layers around a shared model that give it another behaviour; nothing is copied."""

from dicore_plugins.model_wrappers.base import model_wrap, register_wrapper

__all__ = ["model_wrap", "register_wrapper"]
