"""Training in several processes: messages, roles, and the middleware that connects tasks."""

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.comm.bus import TcpQueue
    from dicore_plugins.comm.collector import (
        BaseCommCollector,
        CollectorSlave,
        FlaskFileSystemCollector,
    )
    from dicore_plugins.comm.commander import NaiveCommander, OneVsOneCommander, SoloCommander
    from dicore_plugins.comm.coordinator import Coordinator
    from dicore_plugins.comm.errors import (
        AuthenticationError,
        FrameError,
        PeerError,
        RemoteTaskError,
        WorkerError,
    )
    from dicore_plugins.comm.exchangers import (
        Barrier,
        ContextExchanger,
        ModelExchanger,
        PeriodicalModelExchanger,
    )
    from dicore_plugins.comm.http import HttpTransport
    from dicore_plugins.comm.learner import BaseCommLearner, FlaskFileSystemLearner, LearnerSlave
    from dicore_plugins.comm.master import Connection, Master, Slave, Task, TaskStatus
    from dicore_plugins.comm.operator import OperatorServer
    from dicore_plugins.comm.parallel import Parallel
    from dicore_plugins.comm.router import EventRouter
    from dicore_plugins.comm.stores import (
        FileModelLoader,
        FileStorageLoader,
        SharedMemoryLoader,
        StorageLoader,
    )

__all__ = [
    "AuthenticationError",
    "Barrier",
    "BaseCommCollector",
    "BaseCommLearner",
    "CollectorSlave",
    "Connection",
    "ContextExchanger",
    "Coordinator",
    "EventRouter",
    "FileModelLoader",
    "FileStorageLoader",
    "FlaskFileSystemCollector",
    "FlaskFileSystemLearner",
    "FrameError",
    "HttpTransport",
    "LearnerSlave",
    "Master",
    "ModelExchanger",
    "NaiveCommander",
    "OneVsOneCommander",
    "OperatorServer",
    "Parallel",
    "PeerError",
    "PeriodicalModelExchanger",
    "RemoteTaskError",
    "SharedMemoryLoader",
    "Slave",
    "SoloCommander",
    "StorageLoader",
    "Task",
    "TaskStatus",
    "TcpQueue",
    "WorkerError",
]

__getattr__ = lazy(
    __name__,
    {
        ".bus": ("TcpQueue",),
        ".collector": ("BaseCommCollector", "CollectorSlave", "FlaskFileSystemCollector"),
        ".commander": ("NaiveCommander", "OneVsOneCommander", "SoloCommander"),
        ".coordinator": ("Coordinator",),
        ".errors": (
            "AuthenticationError",
            "FrameError",
            "PeerError",
            "RemoteTaskError",
            "WorkerError",
        ),
        ".exchangers": (
            "Barrier",
            "ContextExchanger",
            "ModelExchanger",
            "PeriodicalModelExchanger",
        ),
        ".http": ("HttpTransport",),
        ".learner": ("BaseCommLearner", "FlaskFileSystemLearner", "LearnerSlave"),
        ".master": ("Connection", "Master", "Slave", "Task", "TaskStatus"),
        ".operator": ("OperatorServer",),
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
