"""Errors of processes that exchange messages."""

from __future__ import annotations

from dicore.errors import DicoreError, UsageError

__all__ = ["AuthenticationError", "FrameError", "PeerError", "RemoteTaskError", "WorkerError"]


class FrameError(DicoreError, ValueError):
    """Received bytes are not a valid message."""


class PeerError(DicoreError, ConnectionError):
    """Another process cannot be reached, or does not answer."""


class AuthenticationError(UsageError):
    """The other process has another token or another version of the protocol."""


class RemoteTaskError(DicoreError):
    """A task failed in another process; the text is that of the original error."""


class WorkerError(DicoreError):
    """A worker process ended before its work was done."""
