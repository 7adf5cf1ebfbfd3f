"""Env transports: they carry actions to the environments of workers, and the results back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.env_managers.transports.interface import EnvLayout, IEnvTransport

__all__ = ["EnvLayout", "IEnvTransport"]

__getattr__ = lazy(__name__, {".interface": ("EnvLayout", "IEnvTransport")})
