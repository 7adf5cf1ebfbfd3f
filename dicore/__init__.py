"""dicore: a modular reinforcement-learning framework; every concrete part is a plugin.

Importing this package imports neither numpy nor torch. Other packages add public names by entry
points of group `dicore.api`: `from dicore import Agent` requires `dicore-tools`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore_registry import register

__all__ = ["__version__", "register"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports a public name on first use: `register`, or an entry of group `dicore.api`."""
    if name == "register":
        from dicore_registry import register

        return register
    if name.startswith("_"):
        raise AttributeError(f"module 'dicore' has no attribute '{name}'")
    from dicore_registry.public_names import attribute

    return attribute(name)


def __dir__() -> list[str]:
    from dicore_registry import default

    added = (entry.attr for entry in default().entries("api") if entry.status == "ok")
    return sorted({*globals(), *__all__, *added})
