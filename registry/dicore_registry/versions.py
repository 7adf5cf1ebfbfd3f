"""Versions and version ranges (PEP 440), enough to say whether an installed package fits.

`packaging` does this too, but importing it costs as much as the whole of `dicore list` may.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

_CLAUSE: Final = re.compile(r"(===|==|!=|<=|>=|~=|<|>)\s*([^\s,]+)")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)*")
_PHASES: Final = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled when a version is met that is more than numbers: it takes its time."""
    return re.compile(
        r"""v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
        (?:[-_.]?(?P<phase>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre>\d*))?
        (?:-(?P<implicit_post>\d+)|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*)))?
        (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?
        (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
        re.VERBOSE | re.IGNORECASE,
    )


class Version:
    """One version, ordered as PEP 440 says.

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
        """Reads everything but the release, which it returns."""
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
        """Epoch and release, trailing zeros cut."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        return self.epoch, release

    @property
    def public(self) -> tuple[object, ...]:
        """What orders versions when their local parts do not count."""
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
        """What orders versions in full."""
        return (*self.public, self.local)


def satisfies(version: str, specifier: str) -> bool:
    """Says whether a version lies in a range such as `>=0.1,<0.2`; pre-releases count.

    Raises:
        ValueError: the version or the range cannot be read.
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
        bound.dev = 0  # 0.2rc1 comes before 0.2, and is not below it in the sense of a range
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
