"""The task loop: middleware in order, a fresh context in every step."""

from dicore.task.context import Context, OfflineRLContext, OnlineRLContext
from dicore.task.declare import middleware
from dicore.task.state import TaskState
from dicore.task.task import Task, task
from dicore.task.timer import StepTimer

__all__ = [
    "Context",
    "OfflineRLContext",
    "OnlineRLContext",
    "StepTimer",
    "Task",
    "TaskState",
    "middleware",
    "task",
]
