"""dicore: reinforcement learning assembled by name.

The core holds contracts, the compiled config, the task loop and the run; every concrete part is a
plugin. Importing this package imports neither numpy nor torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dicore.agent import Agent
    from dicore_registry import register

__all__ = ["Agent", "__version__", "register"]

__version__ = "0.1.0"


_HOMES = {"Agent": "dicore.agent", "register": "dicore_registry"}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dicore' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
