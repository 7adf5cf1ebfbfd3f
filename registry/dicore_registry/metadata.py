"""Finds the installed distributions; reads the metadata of each on demand.

Folders on the path are listed here, because importing `importlib.metadata` takes longer. Zip
files, eggs and custom finders are left to `importlib.metadata`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dicore_registry.requirements import Requirement, dist_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution

FIRST_PARTY = frozenset(
    {
        *("dicore", "dicore-plugins", "dicore-dist"),
        *("dicore-tools", "dicore-compat", "dicore-agents", "dicore-worlds", "dicore-contrib"),
        "dicore-contrib-envs",
    }
)


_ENDINGS: Final = (".dist-info", ".egg-info")
_HEADERS: Final = frozenset({"name", "version", "requires-dist", "provides-extra"})
_DIGITS: Final = re.compile(r"([0-9]+)")


class Line(NamedTuple):
    """One line of `entry_points.txt`, as written."""

    group: str
    name: str
    value: str


class Dist:
    """One installed distribution; reads each metadata file once, on first use.

    Args:
        source: The path of its `.dist-info` or `.egg-info`, or a distribution found by
            `importlib.metadata`.
    """

    def __init__(self, source: str | Distribution) -> None:
        self._source = None if isinstance(source, str) else source
        place = source if isinstance(source, str) else getattr(source, "_path", None)
        self.place = os.fspath(place) if isinstance(place, str | os.PathLike) else ""
        self._unread: dict[str, str] = {}

    @cached_property
    def name(self) -> str:
        """The normalised name, from the folder's name if it ends with `.dist-info`."""
        stem, ending = os.path.splitext(os.path.basename(self.place))  # noqa: PTH119, PTH122
        header = "" if ending == ".dist-info" else (self._headers.get("name") or [""])[0]
        return dist_name(header or stem.partition("-")[0])

    @cached_property
    def version(self) -> str:
        """The version, as written."""
        return (self._headers.get("version") or [""])[0]

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """All valid requirements, including those of extras."""
        lines = [*self._headers.get("requires-dist", []), *self._legacy[0]]
        return tuple(found for found in map(Requirement.parse, lines) if found is not None)

    @cached_property
    def extras(self) -> frozenset[str]:
        """The names of its extras, normalised."""
        declared = [*self._headers.get("provides-extra", []), *self._legacy[1]]
        return frozenset(dist_name(extra) for extra in declared)

    @cached_property
    def _legacy(self) -> tuple[list[str], list[str]]:
        """Requirements and extras in the `requires.txt` of an `.egg-info`, as `Requires-Dist`."""
        needs: list[str] = []
        extras: list[str] = []
        if self.place.endswith(".dist-info") or "requires-dist" in self._headers:
            return needs, extras
        condition = ""
        for raw in self.read("requires.txt").splitlines():
            line = raw.strip()
            if line.startswith("["):  # [extra], [extra:marker] or [:marker]
                extra, _, marker = line.strip("[]").partition(":")
                extras += filter(None, [extra])
                parts = (f"({marker})" * bool(marker), f'extra == "{extra}"' * bool(extra))
                condition = " and ".join(filter(None, parts))
            elif line and not line.startswith("#"):
                needs.append(f"{line}; {condition}" if condition else line)
        return needs, extras

    @cached_property
    def origin(self) -> dict[str, Any]:
        """From `direct_url.json`: `editable`, and `commit` if installed from git."""
        import json

        try:
            facts = json.loads(self.read("direct_url.json") or "{}")
        except ValueError:
            facts = {}
        origin: dict[str, Any] = {"editable": bool(_inside(facts, "dir_info", "editable"))}
        if commit := _inside(facts, "vcs_info", "commit_id"):
            origin["commit"] = commit
        return origin

    @property
    def first_party(self) -> bool:
        """Whether it is part of dicore; its names have priority."""
        return self.name in FIRST_PARTY

    @property
    def lines(self) -> list[Line]:
        """The lines of `entry_points.txt` whose group begins with `dicore`."""
        return self._declared[0]

    @property
    def fault(self) -> str:
        """The problem with `entry_points.txt`, if the file concerns dicore; "" for none."""
        return self._declared[1]

    @cached_property
    def _declared(self) -> tuple[list[Line], str]:
        text = self.read("entry_points.txt")
        if not text and "entry_points.txt" in self._unread:
            return [], f"entry_points.txt cannot be read: {self._unread['entry_points.txt']}"
        found: list[Line] = []
        fault = ""
        if "dicore" not in text.lower():
            return found, fault
        group = ""
        for raw in text.splitlines():
            line = raw.strip()
            if not line or line[0] in "#;":
                continue
            name, equals, value = line.partition("=")
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
            elif line.startswith("[") or not (group and equals and name):
                if "[" in name or "]" in name:
                    group = ""  # half a header: the group of the next lines is unknown
                fault = fault or f"entry_points.txt is damaged at {line[:80]!r}"
            elif group.lower().startswith("dicore"):
                found.append(Line(group, name.strip(), value.strip()))
        return found, fault

    def read(self, file: str) -> str:
        """Returns the text of a metadata file; "" if it does not exist or cannot be read.

        Args:
            file: Its name; "" for an `.egg-info` that is a single file.
        """
        if self._source is not None and not self.place:
            return self._source.read_text(file) or ""
        try:
            return text_of(f"{self.place}/{file}" if file else self.place)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            self._unread[file] = error.strerror or type(error).__name__
            return ""

    @cached_property
    def _headers(self) -> dict[str, list[str]]:
        headers: dict[str, list[str]] = {}
        text = self.read("METADATA") or self.read("PKG-INFO") or self.read("")
        for line in text.partition("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            if (key := name.lower()) in _HEADERS:  # none of these is folded
                headers.setdefault(key, []).append(value.strip())
        return headers


def text_of(file: str) -> str:
    """Returns a text as `open` reads it, in half the time; raises OSError."""
    with open(file, "rb", 0) as stream:  # noqa: PTH123
        text = stream.read().decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _inside(facts: Any, table: str, key: str) -> Any:
    """Returns `facts[table][key]`; None if it does not exist."""
    inner = facts.get(table) if isinstance(facts, Mapping) else None
    return inner.get(key) if isinstance(inner, Mapping) else None


def installed(sources: Iterable[Distribution] | None = None) -> dict[str, Dist]:
    """Returns the distributions by normalised name; the first on the path wins.

    Args:
        sources: The distributions; None for all that Python finds.
    """
    found: dict[str, Dist] = {}
    for dist in everywhere() if sources is None else map(Dist, sources):
        if dist.name:
            found.setdefault(dist.name, dist)
    return found


def everywhere() -> Iterator[Dist]:
    """Yields all distributions that Python finds, in the order of the path."""
    for finder in sys.meta_path:
        if getattr(finder, "find_distributions", None) is None:
            continue
        if getattr(finder, "__module__", "") == "_frozen_importlib_external":
            for folder in dict.fromkeys(sys.path):
                if isinstance(folder, str):  # Python ignores other types
                    yield from _in_folder(folder or ".")
        else:
            yield from _of_finder(finder)


def _in_folder(folder: str) -> Iterator[Dist]:
    """Yields the distributions in a folder or an archive on the path."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except NotADirectoryError:
        names = None
    except OSError:
        return
    if names is None or folder.lower().endswith(".egg"):
        yield from _of_finder(sys.modules["_frozen_importlib_external"].PathFinder, [folder])
        return
    ours = [name for name in names if name.lower().endswith(_ENDINGS) and not _is_leftover(name)]
    # `listdir` has no order; of two versions the later one comes first and wins.
    for name in sorted(ours, key=_by_number, reverse=True):
        yield Dist(f"{folder}/{name}")


def _is_leftover(name: str) -> bool:
    """Returns whether pip renamed a folder that it could not delete."""
    return name.startswith("~")


def _by_number(name: str) -> list[str | int]:
    """Sort key by which 0.9 precedes 0.10."""
    return [int(part) if part.isdecimal() else part for part in _DIGITS.split(name)]


def _of_finder(finder: Any, path: list[str] | None = None) -> Iterator[Dist]:
    """Yields the distributions of a finder, until it raises."""
    from importlib.metadata import DistributionFinder

    about = DistributionFinder.Context
    context = about() if path is None else about(path=path)
    try:
        yield from map(Dist, finder.find_distributions(context))
    except Exception:  # a broken finder, or a file that is not an archive
        return
