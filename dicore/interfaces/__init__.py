"""Roles of the parts of a training: protocols, and the kinds under which components register."""

from inspect import isfunction
from typing import Any, Protocol


class Contract(Protocol):
    """Base of the protocols: a class that derives from one must implement all of its methods.

    Otherwise its instantiation raises `TypeError`, which names the missing methods.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Protocol in cls.__bases__:
            for name, member in vars(cls).items():
                method = getattr(member, "fget", member)  # of a property
                if isfunction(method) and (name[0] != "_" or name in ("__call__", "__len__")):
                    method.__isabstractmethod__ = True  # type: ignore[attr-defined]
