"""Requirements as distributions declare them (`Requires-Dist`, PEP 508)."""

from __future__ import annotations

import os
import re
import sys
from typing import Final, NamedTuple

from dicore_registry.versions import satisfies

_REQUIREMENT: Final = re.compile(
    r"""\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*
    (?:\[(?P<extras>[^\]]*)\])?\s*
    (?:@\s*(?P<url>\S+)|\(?(?P<specifier>[^;()@]*)\)?)\s*
    (?:;(?P<marker>.*))?""",
    re.VERBOSE | re.DOTALL,
)
_MARKER_PART: Final = (
    r"\s*(?:(\(|\))|(and|or)\b|(===|==|!=|<=|>=|~=|<|>|not\s+in\b|in\b)"
    r"|\"([^\"]*)\"|'([^']*)'|([a-z_.]+))"
)


def dist_name(name: str) -> str:
    """Returns a distribution's name in the one spelling that the package index compares by."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Requirement(NamedTuple):
    """One line of `Requires-Dist`.

    Args:
        name: The distribution wanted, normalised.
        extras: The extras of it that are wanted.
        specifier: The versions allowed; "" for all.
        marker: When it applies; "" for always.
    """

    name: str
    extras: tuple[str, ...]
    specifier: str
    marker: str

    @classmethod
    def parse(cls, text: str) -> Requirement | None:
        """Reads a line; None if it is not a requirement."""
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            return None
        extras = tuple(dist_name(extra) for extra in re.findall(r"[\w.-]+", match["extras"] or ""))
        specifier = re.sub(r"\s+", "", match["specifier"] or "")
        return cls(dist_name(match["name"]), extras, specifier, (match["marker"] or "").strip())

    def applies(self, extra: str = "") -> bool:
        """Says whether the marker holds here when `extra` is asked for; unreadable ones do not."""
        if not self.marker:
            return True
        try:
            return _Marker(self.marker, extra).holds()
        except ValueError:
            return False

    def only_for(self, extra: str) -> bool:
        """Says whether this is wanted because of `extra` and not without it."""
        return "extra" in self.marker and self.applies(extra) and not self.applies()


def fits(version: str, specifier: str) -> bool:
    """Says whether a version lies in a range; what cannot be read is let through."""
    try:
        return satisfies(version, specifier)
    except ValueError:
        return True


class _Marker:
    """Evaluates a marker by recursive descent: `or` of `and` of comparisons or parentheses."""

    def __init__(self, text: str, extra: str) -> None:
        self._extra = dist_name(extra)
        self._tokens: list[tuple[str, str]] = []
        token = re.compile(_MARKER_PART)
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = token.match(text, at)
            if match is None:
                raise ValueError(f"not a marker: {text!r}")
            kinds = ("paren", "join", "sign", "text", "text", "name")
            group = match.lastindex or 0
            self._tokens.append((kinds[group - 1], match[group]))
            at = match.end()

    def holds(self) -> bool:
        value = self._either()
        if self._tokens:
            raise ValueError("something follows the marker")
        return value

    def _either(self) -> bool:
        value = self._both()
        while self._take("join", "or"):
            value = self._both() or value
        return value

    def _both(self) -> bool:
        value = self._single()
        while self._take("join", "and"):
            value = self._single() and value
        return value

    def _single(self) -> bool:
        if self._take("paren", "("):
            value = self._either()
            if not self._take("paren", ")"):
                raise ValueError("a parenthesis is left open")
            return value
        left, left_name = self._operand()
        kind, sign = self._next()
        right, right_name = self._operand()
        if kind != "sign":
            raise ValueError(f"not a comparison: {sign!r}")
        if "extra" in (left_name, right_name):
            left, right = dist_name(left), dist_name(right)
        return _compare(left, re.sub(r"\s+", " ", sign), right)

    def _operand(self) -> tuple[str, str]:
        kind, text = self._next()
        if kind == "text":
            return text, ""
        if kind != "name":
            raise ValueError(f"not a value: {text!r}")
        return (self._extra if text == "extra" else _environment(text)), text

    def _take(self, kind: str, text: str) -> bool:
        if self._tokens and self._tokens[0] == (kind, text):
            self._tokens.pop(0)
            return True
        return False

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise ValueError("the marker ends too early")
        return self._tokens.pop(0)


def _compare(left: str, sign: str, right: str) -> bool:
    if sign == "in":
        return left in right
    if sign == "not in":
        return left not in right
    try:
        return satisfies(left, sign + right)
    except ValueError:
        tests = {"==": left == right, "!=": left != right, "<": left < right, ">": left > right}
        tests |= {"<=": left <= right, ">=": left >= right, "===": left == right}
        return tests.get(sign, False)


def _environment(name: str) -> str:
    import platform

    facts = {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "implementation_name": sys.implementation.name,
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "python_full_version": platform.python_version(),
        "implementation_version": platform.python_version(),
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
    }
    if name not in facts:
        raise ValueError(f"no marker variable '{name}'")
    return facts[name]
