"""The role of middleware of deque buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dicore_registry import Contract, Kind

__all__ = ["KIND", "IBufferMiddleware"]

KIND = Kind(
    name="buffer_middleware",
    summary="changes what a deque buffer does: limits, priorities, copies, groups",
    contract="dicore_compat.deque.interface:IBufferMiddleware",
    suite="dicore_compat.deque.contract:BufferMiddlewareContract",
)

Chain = Callable[..., Any]
"""The rest of an action: the next middleware, or the buffer itself."""


class IBufferMiddleware(Contract, Protocol):
    """What `buffer.use` takes.

    The component is a function that returns it, or its class. It gets the buffer as the part
    `buffer_`; its other typed keyword parameters are its options. One with a state has `state_dict`
    and `load_state_dict`.
    """

    def __call__(self, action: str, chain: Chain, *args: object, **kwargs: object) -> object:
        """Handles an action of the buffer.

        Args:
            action: push, sample, update, delete or clear.
            chain: Goes on with the action; called once with the arguments, changed or not.
            *args: Positional arguments of the action.
            **kwargs: Keyword arguments of the action.

        Returns:
            What `chain` returned, changed or not.
        """
