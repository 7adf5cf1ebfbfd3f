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
    from dicore_registry import default, register
    from dicore_registry.errors import MissingPackageError, UnknownComponentError
    from dicore_registry.known import known

    if name == "register":
        return register
    missing = f"module 'dicore' has no attribute '{name}'"
    if name.startswith("_"):
        raise AttributeError(missing)
    try:
        entry = default().find("api", name)
    except UnknownComponentError:
        dist = known("api").get(name)
        if dist is not None:
            raise MissingPackageError(f"'{name}' comes with {dist}: pip install {dist}") from None
        raise AttributeError(missing) from None
    if entry.attr != name:  # names of entries are compared in lower case
        raise AttributeError(missing)
    return default().load(entry)


def __dir__() -> list[str]:
    from dicore_registry import default

    added = (entry.attr for entry in default().entries("api") if entry.status == "ok")
    return sorted({*globals(), *__all__, *added})
