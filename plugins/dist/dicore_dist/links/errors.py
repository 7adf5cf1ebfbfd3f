"""Errors of processes that exchange messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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


_OUTPUT: Final = "see the output of the process in which it failed"


class RemoteTaskError(DicoreError):
    """A task failed in another process; text, hint and exit code are those of its error."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> RemoteTaskError:
        """Returns the error of an answer that `failure_of` made."""
        made = cls(str(content["error"]), hint=str(content.get("hint") or _OUTPUT))
        if content.get("exit_code") in CODES:
            made.exit_code = int(content["exit_code"])
        return made

    def named(self, process: str, tries: int, log: Path) -> RemoteTaskError:
        """Returns this error with the process that raised it.

        Args:
            process: Its name.
            tries: How often it raised such errors in a row.
            log: Where it wrote the traceback; it may be on another machine.
        """
        times = f", {tries} times in a row" if tries > 1 else ""
        seen = f"see {log}" if log.is_file() else _OUTPUT
        hint = seen if self.hint == _OUTPUT else f"{self.hint}; {seen}"
        made = type(self)(f"{process}: {self.message}{times}", hint=hint, context=self.context)
        made.exit_code = self.exit_code
        made.__cause__ = self
        return made


def failure_of(error: BaseException) -> dict[str, object]:
    """Returns an error as the answer to a task."""
    name = type(error).__name__
    if not isinstance(error, DicoreError):
        return {"error": f"{name}: {error}", "exit_code": 1}
    return {
        "error": f"{name}: {error.message}",
        "hint": error.hint,
        "exit_code": error.exit_code,
    }


class WorkerError(DicoreError):
    """A worker process ended before its work was done."""
