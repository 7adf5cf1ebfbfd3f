"""What steps many environments as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.env_managers.base.manager import BaseEnvManager
    from dicore_plugins.env_managers.vector import build_env, get_vec_env_setting

__all__ = ["BaseEnvManager", "build_env", "get_vec_env_setting"]

__getattr__ = lazy(
    __name__,
    {
        "BaseEnvManager": ".base.manager",
        "build_env": ".vector",
        "get_vec_env_setting": ".vector",
    },
)
