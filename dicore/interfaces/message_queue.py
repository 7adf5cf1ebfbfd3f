"""The message-queue role: bytes by topic, from any process to all that listen."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="message_queue",
    summary="bytes by topic between processes",
    contract="dicore.interfaces.message_queue:IMessageQueue",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IMessageQueue(Protocol):
    """Carries messages; what they hold is never unpickled here."""

    def listen(self) -> None:
        """Begins to receive."""

    def publish(self, topic: str, data: bytes) -> None:
        """Sends to all that have subscribed."""

    def subscribe(self, topic: str) -> None:
        """Asks for the messages of a topic."""

    def unsubscribe(self, topic: str) -> None:
        """Asks for them no more."""

    def recv(self) -> tuple[str, bytes]:
        """Returns the next message with its topic; waits for one."""

    def stop(self) -> None:
        """Ends; a second time does nothing."""
