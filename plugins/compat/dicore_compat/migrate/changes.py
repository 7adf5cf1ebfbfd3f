"""A config tree under conversion, and the list of what was changed in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from dicore_compat.migrate.read_config import ABSENT

__all__ = ["Change", "Tree", "leaves"]

Verdict = Literal["moved", "changed", "dropped", "lost"]


class Change(NamedTuple):
    """One difference between a foreign config and the config made of it.

    Args:
        path: Key path in the foreign config.
        verdict: `moved`: another place; `changed`: another value of the same meaning; `dropped`: it
            has no effect here; `lost`: dicore has nothing that does this.
        text: New place, value or reason.
    """

    path: str
    verdict: Verdict
    text: str

    def __str__(self) -> str:
        return f"{self.verdict:<7} {self.path}: {self.text}"


class Tree:
    """Nested dicts whose values are taken and put by path; each difference is noted.

    Args:
        values: The config; it is copied.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = _copy(values)
        self.changes: list[Change] = []
        self.entry = ""
        self.policy = ""

    def get(self, path: str, default: object = None) -> Any:
        """Returns a value or a subtree."""
        node: Any = self.values
        for key in path.split("."):
            if not isinstance(node, Mapping) or key not in node:
                return default
            node = node[key]
        return node

    def __contains__(self, path: str) -> bool:
        """Returns whether the path is set."""
        return self.get(path, self) is not self

    def put(self, path: str, value: Any) -> None:
        """Sets a value; missing levels are made."""
        *parents, last = path.split(".")
        node = self.values
        for key in parents:
            child = node.get(key)
            if not isinstance(child, dict):
                node[key] = child = {}
            node = child
        node[last] = value

    def pop(self, path: str) -> Any:
        """Removes a value and the levels that become empty; None if it was not set."""
        parent, _, last = path.rpartition(".")
        node = self.get(parent) if parent else self.values
        if not isinstance(node, dict) or last not in node:
            return None
        value = node.pop(last)
        if parent and not node:
            self.pop(parent)
        return value

    def note(self, path: str, verdict: Verdict, text: str) -> None:
        """Notes a difference."""
        self.changes.append(Change(path, verdict, text))

    def move(self, path: str, to: str, value: Any = None, verdict: Verdict = "moved") -> None:
        """Moves a value, if it is set; one that the new place has already remains there.

        Args:
            path: Old path.
            to: New path.
            value: Value at the new place; None: the old one.
            verdict: How the difference is called.
        """
        if path not in self:
            return
        old = self.pop(path)
        value = old if value is None else value
        if to in self and self.get(to) != value:
            self.note(path, "lost", f"{to} = {self.get(to)} is kept; {old} was set here too")
            return
        self.put(to, value)
        self.note(path, verdict, f"{to} = {value}")

    def drop(self, path: str, reason: str, verdict: Verdict = "dropped") -> None:
        """Removes a value, if it is set."""
        if path in self:
            value = self.pop(path)
            shown = "" if isinstance(value, Mapping | list) else f" (was {value})"
            self.note(path, verdict, f"{reason}{shown}")


def leaves(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yields the path and value of every leaf."""
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and ABSENT not in value:
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value
