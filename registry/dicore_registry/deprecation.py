"""What stands in the place of a component that has another name now, or is gone.

double_dqn_old = renamed("double_dqn", since="0.3")
ddqn = removed("use double_dqn", since="0.5")
"""

from __future__ import annotations

from typing import NamedTuple


class Renamed(NamedTuple):
    """Target of a retired name that still works.

    Args:
        to: The name that replaces it, of the same kind.
        since: Version of the distribution that renamed it.
    """

    to: str
    since: str


class Removed(NamedTuple):
    """Target of a name that works no more.

    Args:
        text: What to do instead.
        since: Version of the distribution that removed it.
    """

    text: str
    since: str


def renamed(to: str, *, since: str) -> Renamed:
    """Declares that a component goes by another name: it works and warns once."""
    return Renamed(to, since)


def removed(text: str, *, since: str) -> Removed:
    """Declares that a component is gone: asking for it is an error with this text."""
    return Removed(text, since)
