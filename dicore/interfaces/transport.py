"""The transport role: requests and responses between processes or machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="transport",
    summary="sends requests and responses between processes",
    contract="dicore.interfaces.transport:ITransport",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class ITransport(Protocol):
    """Sends numbers, texts, lists and dicts, without unpickling."""

    def serve(self, name: str, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Calls `answer` for each request of this name; errors are returned as text."""

    def request(
        self, name: str, data: Mapping[str, Any], timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Sends a request and returns the response; `timeout` is in seconds, None: unlimited."""

    def close(self) -> None:
        """Stops; later calls do nothing."""
