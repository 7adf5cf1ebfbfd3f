"""Errors of processes that exchange messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dicore.errors import CheckpointError, DicoreError, UsageError

__all__ = [
    "AuthenticationError",
    "PeerError",
    "RemoteTaskError",
    "WorkerError",
    "failure_of",
]


CODES: Final = (DicoreError.exit_code, CheckpointError.exit_code)
"""Exit codes of errors in another process; what the user got wrong is told before there is one."""


class PeerError(DicoreError, ConnectionError):
    """Another process cannot be reached, or does not answer."""


class AuthenticationError(UsageError):
    """The other process has another token or another version of the protocol."""


class RemoteTaskError(DicoreError):
    """A task failed in another process; text and exit code are those of the original error."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> RemoteTaskError:
        """Returns the error of an answer that `failure_of` made."""
        made = cls(str(content["error"]))
        if content.get("exit_code") in CODES:
            made.exit_code = int(content["exit_code"])
        return made


def failure_of(error: BaseException) -> dict[str, object]:
    """Returns an error as the answer to a task."""
    text = error.message if isinstance(error, DicoreError) else str(error)
    code = error.exit_code if isinstance(error, DicoreError) else 1
    return {"error": f"{type(error).__name__}: {text}", "exit_code": code}


class WorkerError(DicoreError):
    """A worker process ended before its work was done."""
