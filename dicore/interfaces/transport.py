"""The transport role: requests and their answers between two processes or machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="transport",
    summary="requests and answers between machines",
    contract="dicore.interfaces.transport:ITransport",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class ITransport(Protocol):
    """Plain data (numbers, texts, lists, dicts) by name; nothing on the wire is unpickled."""

    def serve(self, name: str, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Answers requests of a name from now on.

        Args:
            name: Of the request.
            answer: Called with its data; what it raises goes to who asked, as text.
        """

    def request(
        self, name: str, data: Mapping[str, Any], timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Asks and returns the answer.

        Args:
            name: Of the request.
            data: What goes with it.
            timeout: Seconds after which it fails; None: never.
        """

    def close(self) -> None:
        """Ends; a second time does nothing."""
