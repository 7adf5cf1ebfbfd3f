"""Training in several processes: messages, roles, and the middleware that connects tasks."""

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.comm.bus import TcpQueue
    from dicore_plugins.comm.exchangers import (
        Barrier,
        ContextExchanger,
        ModelExchanger,
        PeriodicalModelExchanger,
    )
    from dicore_plugins.comm.parallel import Parallel
    from dicore_plugins.comm.router import EventRouter
    from dicore_plugins.comm.stores import (
        FileModelLoader,
        FileStorageLoader,
        SharedMemoryLoader,
        StorageLoader,
    )

__all__ = [
    "Barrier",
    "ContextExchanger",
    "EventRouter",
    "FileModelLoader",
    "FileStorageLoader",
    "ModelExchanger",
    "Parallel",
    "PeriodicalModelExchanger",
    "SharedMemoryLoader",
    "StorageLoader",
    "TcpQueue",
]

__getattr__ = lazy(
    __name__,
    {
        ".bus": ("TcpQueue",),
        ".exchangers": (
            "Barrier",
            "ContextExchanger",
            "ModelExchanger",
            "PeriodicalModelExchanger",
        ),
        ".parallel": ("Parallel",),
        ".router": ("EventRouter",),
        ".stores": (
            "FileModelLoader",
            "FileStorageLoader",
            "SharedMemoryLoader",
            "StorageLoader",
        ),
    },
)
