"""Requirements of distributions (`Requires-Dist`, PEP 508) and version ranges (PEP 440).

`packaging` does this too, but importing it takes as long as `dicore list` may.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

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


_ONE_EXTRA: Final = re.compile(r"""extra\s*==\s*(["'])([\w.-]+)\1""")


@cache
def dist_name(name: str) -> str:
    """Returns the normalised name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Requirement(NamedTuple):
    """One line of `Requires-Dist`.

    Args:
        name: The required distribution, normalised.
        extras: Its required extras.
        specifier: The range of versions; "" for all.
        marker: The condition; "" for always.
    """

    name: str
    extras: tuple[str, ...]
    specifier: str
    marker: str

    @classmethod
    def parse(cls, text: str) -> Requirement | None:
        """Parses a line; returns None if it is not a requirement."""
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            return None
        extras = tuple(dist_name(extra) for extra in re.findall(r"[\w.-]+", match["extras"] or ""))
        specifier = re.sub(r"\s+", "", match["specifier"] or "")
        return cls(dist_name(match["name"]), extras, specifier, (match["marker"] or "").strip())

    def applies(self, extra: str = "") -> bool:
        """Returns whether the marker holds for an extra; False if it is invalid."""
        if not self.marker:
            return True
        try:
            return _Marker(self.marker, extra).holds()
        except ValueError:
            return False

    def only_for(self, extra: str) -> bool:
        """Returns whether this is required by `extra`, but not without it."""
        simple = _ONE_EXTRA.fullmatch(self.marker)  # as almost all are: much faster
        if simple is not None:
            return dist_name(simple[2]) == dist_name(extra)
        return "extra" in self.marker and self.applies(extra) and not self.applies()


def fits(version: str, specifier: str) -> bool:
    """Returns whether a version lies in a range; True if either is invalid."""
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
            raise ValueError("text after the end of the marker")
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
                raise ValueError("unclosed parenthesis")
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
            raise ValueError("incomplete marker")
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
        raise ValueError(f"unknown marker variable '{name}'")
    return facts[name]


_CLAUSE: Final = re.compile(r"(===|==|!=|<=|>=|~=|<|>)\s*([^\s,]+)")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)*")
_PHASES: Final = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


@cache
def _pattern() -> re.Pattern[str]:
    """Compiles the full pattern, on the first version with more than numbers."""
    return re.compile(
        r"""v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
        (?:[-_.]?(?P<phase>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre>\d*))?
        (?:-(?P<implicit_post>\d+)|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*)))?
        (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?
        (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
        re.VERBOSE | re.IGNORECASE,
    )


class Version:
    """One version, with the order of PEP 440.

    Raises:
        ValueError: the text is not a version.
    """

    __slots__ = ("dev", "epoch", "local", "post", "pre", "release")

    def __init__(self, text: str) -> None:
        text = text.strip()
        self.epoch = 0
        self.pre: tuple[str, int] | None = None
        self.post: int | None = None
        self.dev: int | None = None
        self.local: tuple[tuple[int, int, str], ...] = ()
        release = text if _PLAIN.fullmatch(text) else self._read(text)
        self.release = tuple(int(number) for number in release.split("."))

    def _read(self, text: str) -> str:
        """Parses everything but the release, which it returns."""
        match = _pattern().fullmatch(text)
        if match is None:
            raise ValueError(f"not a version: {text!r}")
        part = match.groupdict()
        self.epoch = int(part["epoch"] or 0)
        phase = (part["phase"] or "").lower()
        self.pre = (_PHASES.get(phase, phase), int(part["pre"] or 0)) if phase else None
        post = part["implicit_post"] or (part["post"] and (part["post_number"] or "0"))
        self.post = int(post) if post else None
        self.dev = int(part["dev_number"] or 0) if part["dev"] else None
        local = re.split(r"[-_.]", part["local"].lower()) if part["local"] else []
        self.local = tuple((1, int(x), "") if x.isdigit() else (0, 0, x) for x in local)
        return str(part["release"])

    @property
    def base(self) -> tuple[int, tuple[int, ...]]:
        """Epoch and release, without trailing zeros."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        return self.epoch, release

    @property
    def public(self) -> tuple[object, ...]:
        """Sort key without the local part."""
        if self.pre is not None:
            phase = self.pre
        elif self.post is None and self.dev is not None:
            phase = ("", 0)  # a development release comes before every pre-release
        else:
            phase = ("z", 0)
        post = -1 if self.post is None else self.post
        dev = (1, 0) if self.dev is None else (0, self.dev)
        return (*self.base, phase, post, dev)

    @property
    def key(self) -> tuple[object, ...]:
        """Sort key with the local part."""
        return (*self.public, self.local)


def satisfies(version: str, specifier: str) -> bool:
    """Returns whether a version lies in a range such as `>=0.1,<0.2`, pre-releases included.

    Raises:
        ValueError: the version or the range is invalid.
    """
    if _CLAUSE.sub("", specifier).strip(" ,"):
        raise ValueError(f"not a version range: {specifier!r}")
    return all(_holds(version, sign, bound) for sign, bound in _CLAUSE.findall(specifier))


def _holds(version: str, sign: str, bound: str) -> bool:
    if sign == "===":
        return version.strip().lower() == bound.lower()
    if bound.endswith(".*"):
        inside = _same_prefix(Version(version), Version(bound[:-2]))
        return inside if sign == "==" else not inside
    return _TESTS[sign](Version(version), Version(bound))


def _same_prefix(version: Version, prefix: Version) -> bool:
    wanted = prefix.release
    have = (*version.release, *(0 for _ in wanted))[: len(wanted)]
    return version.epoch == prefix.epoch and have == wanted


def _equal(version: Version, bound: Version) -> bool:
    return version.key == bound.key if bound.local else version.public == bound.public


def _below(version: Version, bound: Version) -> bool:
    if bound.pre is None and bound.dev is None:
        bound.dev = 0  # PEP 440: <0.2 excludes 0.2rc1
    return _less(version.public, bound.public)


def _above(version: Version, bound: Version) -> bool:
    if bound.dev is not None:
        bound.dev += 1
    elif bound.post is not None:
        bound.post, bound.dev = bound.post + 1, 0
    else:
        own_post = (version.base, version.pre) == (bound.base, bound.pre)
        return _less(bound.public, version.public) and not own_post
    return not _less(version.public, bound.public)


def _compatible(version: Version, bound: Version) -> bool:
    prefix = Version(".".join(map(str, bound.release[:-1])))
    prefix.epoch = bound.epoch
    return not _less(version.public, bound.public) and _same_prefix(version, prefix)


def _less(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return left < right


_TESTS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    "==": _equal,
    "!=": lambda version, bound: not _equal(version, bound),
    "<": _below,
    ">": _above,
    "<=": lambda version, bound: not _less(bound.public, version.public),
    ">=": lambda version, bound: not _less(version.public, bound.public),
    "~=": _compatible,
}
