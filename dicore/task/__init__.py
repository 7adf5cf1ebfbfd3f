"""The task loop: middleware in order, a fresh context in every step."""

from dicore.task.context import Context, OfflineRLContext, OnlineRLContext
from dicore.task.middleware import middleware
from dicore.task.task import StepInterrupted, Task, TaskState, task

__all__ = [
    "Context", "OfflineRLContext", "OnlineRLContext", "StepInterrupted", "Task", "TaskState",
    "middleware", "task",
]  # fmt: skip
