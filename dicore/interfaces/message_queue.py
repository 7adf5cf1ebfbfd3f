"""The message-queue role: publishes bytes by topic to subscribed processes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="message_queue",
    summary="publishes and receives messages by topic, between processes",
    contract="dicore.interfaces.message_queue:IMessageQueue",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IMessageQueue(Protocol):
    """Sends and receives bytes, without unpickling them."""

    def listen(self) -> None:
        """Starts to receive."""

    def publish(self, topic: str, data: bytes) -> None:
        """Sends to all subscribers of a topic."""

    def subscribe(self, topic: str) -> None:
        """Starts to receive the messages of a topic."""

    def unsubscribe(self, topic: str) -> None:
        """Stops to receive the messages of a topic."""

    def recv(self) -> tuple[str, bytes]:
        """Blocks until a message arrives; returns topic and message."""

    def stop(self) -> None:
        """Stops; later calls do nothing."""
