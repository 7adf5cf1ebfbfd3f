"""The role of message queues: what carries the events of tasks in several processes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dicore_registry import Contract, Kind

__all__ = ["KIND", "IMessageQueue"]

KIND = Kind(
    name="message_queue",
    summary="publishes and receives messages by topic, between processes",
    contract="dicore_compat.comm.interface:IMessageQueue",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IMessageQueue(Contract, Protocol):
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
