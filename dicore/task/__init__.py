"""The task loop: middleware in order, a fresh context in every step."""

from dicore.task.context import Context, OfflineRLContext, OnlineRLContext
from dicore.task.declare import middleware
from dicore.task.state import TaskState
from dicore.task.task import Task, task

__all__ = [
    "Context",
    "OfflineRLContext",
    "OnlineRLContext",
    "Task",
    "TaskState",
    "middleware",
    "task",
]
