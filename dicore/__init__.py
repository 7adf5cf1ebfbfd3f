"""dicore: reinforcement learning assembled by name.

The core holds contracts, the compiled config, the task loop and the run; every concrete part is a
plugin. Importing this package imports neither numpy nor torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dicore_registry import register

__all__ = ["__version__", "register"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Imports `register` when it is first asked for."""
    if name != "register":
        raise AttributeError(f"module 'dicore' has no attribute '{name}'")
    from dicore_registry import register

    return register
