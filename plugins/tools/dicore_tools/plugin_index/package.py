"""Facts about a plugin package, from the metadata of a wheel or of an installed distribution.

Nothing of the package is imported. What its files say is a claim of its author, but a badge whose
files were changed is none, and one that is signed can be checked.
"""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import attrs

from dicore.errors import UsageError
from dicore_registry import default
from dicore_registry.entry_status import RESERVED
from dicore_tools.foreign import one_line

__all__ = [
    "BADGE", "FORMAT", "PICTURE", "Package", "digest_of", "folder_of", "installed", "read_wheel",
    "tops_of",
]  # fmt: skip

FORMAT: Final = 1
"""Version of badges and of the index."""
BADGE: Final = "dicore-badge.json"
"""File in the import package that `dicore check --badge` writes."""
TIERS: Final = (
    "no plugin", "metadata", "suites pass", "verified result", "benchmark row",
)  # fmt: skip
"""What each tier says, from 0 on."""
_MOST_BYTES: Final = 1 << 22
_CHUNK_BYTES: Final = 1 << 20
_GROUP: Final = "dicore."
_CACHE: Final = "__pycache__"
PICTURE: Final = "dicore-badge.svg"
_COUNTS: Final = ("passed", "failed", "skipped")
Open = Callable[[str], IO[bytes]]


_BROKEN: Final = (
    OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, LookupError,
    ValueError, TypeError,
)  # fmt: skip
"""What reading a damaged or encrypted wheel raises."""


@attrs.frozen(kw_only=True)
class Package:
    """A distribution that declares components of dicore.

    Args:
        name: Its name.
        version: Its version.
        summary: One line about it.
        licence: Its licence, as its metadata state it; "" if they do not.
        url: Its first project URL; "" without one.
        dicore: Which versions of dicore it accepts, as a specifier; "" for any.
        python: Which versions of Python it accepts.
        components: `kind/name` and target of each.
        problems: What is wrong with its metadata.
        badge: What `dicore check --badge` found of these very files; empty without one.
        rows: Rows of a benchmark whose components come from it.
        notes: Why a badge that it holds does not count.
    """

    name: str
    version: str
    summary: str
    licence: str
    url: str
    dicore: str
    python: str
    components: Mapping[str, str]
    problems: tuple[str, ...] = ()
    badge: Mapping[str, Any] = attrs.field(factory=dict)
    rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tier(self) -> int:
        """1 metadata valid, 2 suites pass, 3 a result was verified, 4 row in a benchmark."""
        if self.problems or not self.components:
            return 0
        if not self.badge.get("passed") or self.badge.get("failed"):
            return 1
        if not self.badge.get("verified"):
            return 2
        return 4 if self.rows else 3

    def facts(self) -> dict[str, Any]:
        """Returns all of it as JSON has it, with the tier."""
        return {**attrs.asdict(self), "tier": self.tier}


def read_wheel(file: Path) -> Package:
    """Returns the facts about the package in a wheel.

    Raises:
        UsageError: it is no wheel, or its metadata are too large.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            inside = _Zipped(file, archive)
            return _package(inside.distribution, inside.files, inside.open, inside.extra())
    except FileNotFoundError as error:
        raise UsageError(
            f"{file}: no such file", hint="name a wheel, or an installed package (dicore list)"
        ) from error
    except _BROKEN as error:
        raise UsageError(
            f"{file}: not a wheel: {one_line(_reason(error))}", hint="pip wheel . makes one"
        ) from error


def _reason(error: BaseException) -> object:
    return getattr(error, "strerror", None) or error


def installed(name: str) -> Package:
    """Returns the facts about an installed package.

    Raises:
        UsageError: there is no such package, or its metadata are damaged.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError as error:
        raise UsageError(f"{name}: no such package", hint="dicore list has those here") from error
    folders = {top: folder_of(top) for top in _tops(found)}
    files = [
        f"{top}/{path.relative_to(folder).as_posix()}"
        for top, folder in folders.items()
        if folder
        for path in folder.rglob("*")
        if path.is_file()
    ]

    def opened(path: str) -> IO[bytes]:
        top, _, rest = path.partition("/")
        folder = folders[top]
        assert folder is not None
        return (folder / rest).open("rb")

    try:
        return _package(found, files, opened)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{name}: its metadata are damaged: {one_line(error)}") from error


def folder_of(module: str) -> Path | None:
    """Returns the folder of an import package that is installed, without importing it."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def digest_of(files: Iterable[str], opened: Open, of: Distribution) -> str:
    """Returns a hash of what of a package runs, without badges and caches of bytecode.

    Args:
        files: Paths that begin with the import package.
        opened: Opens one to read.
        of: Its entry points and requirements are part of it: they name what runs.
    """
    whole = sha256()
    for path in sorted(files):
        parts = path.split("/")
        if _CACHE in parts or (len(parts) == 2 and parts[1] in (BADGE, PICTURE)):
            continue
        each = sha256()
        with opened(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                each.update(chunk)
        whole.update(f"{path}\0{each.hexdigest()}\n".encode())
    for point in sorted((e.group, e.name, e.value) for e in of.entry_points):
        whole.update("\0".join(["", *point, "\n"]).encode())
    for requirement in sorted(of.requires or ()):
        whole.update(f"\0\0{requirement}\n".encode())
    return whole.hexdigest()


class _Zipped:
    """The metadata and files of a wheel."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        folders = {name.split("/")[0] for name in archive.namelist()}
        found = sorted(name for name in folders if name.endswith(".dist-info"))
        if len(found) != 1:
            raise ValueError(f"{len(found)} folders .dist-info")
        if len({*archive.namelist()}) != len(archive.namelist()):
            raise ValueError("two files of one name")
        self._archive, self._about = archive, found[0]
        for name in ("METADATA", "PKG-INFO", "entry_points.txt", "requires.txt", "RECORD"):
            with_name = f"{found[0]}/{name}"
            if with_name in archive.namelist():
                self._check(with_name)
        if f"{found[0]}/METADATA" not in archive.namelist():
            raise ValueError("there is no METADATA")
        self.distribution = PathDistribution(zipfile.Path(file, f"{found[0]}/"))
        self.files = [name for name in archive.namelist() if not name.endswith("/")]

    def open(self, path: str) -> IO[bytes]:
        return self._archive.open(path)

    def extra(self) -> list[str]:
        """Returns the files that are installed beside the import packages, or run unseen."""
        own = {*_tops(self.distribution), self._about}
        return [
            name
            for name in self.files
            if "/" not in name or name.split("/")[0] not in own or _CACHE in name.split("/")
        ]

    def _check(self, path: str) -> None:
        size = self._archive.getinfo(path).file_size
        if size > _MOST_BYTES:
            raise ValueError(f"{path} has {size} bytes, expected at most {_MOST_BYTES}")


def tops_of(components: Mapping[str, str]) -> list[str]:
    """Returns the import packages of components; a default names a component, not a module."""
    targets = (each for name, each in components.items() if not name.startswith("default/"))
    return sorted({re.split(r"[.:\s\[]", target.strip())[0] for target in targets} - {""})


def _tops(of: Distribution) -> list[str]:
    return tops_of(_components(of))


def _components(of: Distribution) -> dict[str, str]:
    lines = [each for each in of.entry_points if each.group.startswith(_GROUP)]
    return dict(sorted((f"{e.group.removeprefix(_GROUP)}/{e.name}", e.value) for e in lines))


def _package(
    of: Distribution, files: list[str], opened: Open, extra: Iterable[str] = ()
) -> Package:
    told: Any = of.metadata
    if not told["Name"] or not told["Version"]:
        raise ValueError("METADATA without Name or Version")
    components = _components(of)
    needs = [line for line in of.requires or () if "extra ==" not in line]
    bounds = [re.match(r"dicore\b(?!-)\s*(\[[^]]*\])?\s*\(?([^;)]*)", line) for line in needs]
    dicore = next((each[2].strip() for each in bounds if each), None)
    badge, notes = _badge(of, files, opened, [*extra])
    urls = told.get_all("Project-URL") or []
    return Package(
        name=told["Name"],
        version=told["Version"],
        summary=told["Summary"] or "",
        licence=told["License-Expression"] or told["License"] or "",
        url=urls[0].partition(",")[2].strip() if urls else told["Home-page"] or "",
        dicore=dicore or "",
        python=told["Requires-Python"] or "",
        components=components,
        problems=(*_problems(components, dicore, told),),
        badge=badge,
        notes=notes,
    )


def _problems(components: Mapping[str, str], dicore: str | None, told: Any) -> Iterator[str]:
    own = (name.removeprefix("kind/") for name in components if name.startswith("kind/"))
    kinds = {*default().kinds(), *own, *RESERVED}
    if not components:
        yield "declares no component: no entry point of a group dicore.KIND"
    for name, target in components.items():
        kind = name.partition("/")[0]
        if kind not in kinds:
            yield f"{name}: there is no kind '{kind}'"
        if not re.fullmatch(r"[\w.]+\s*(:\s*[\w.]+)?\s*(\[[\w\s,.-]*\])?", target):
            yield f"{name}: '{target}' is no target; expected module:attribute"
    if dicore is None and told["Name"] != "dicore":
        yield "does not require dicore; write dicore>=0.1,<0.2"
    elif dicore is not None and "<" not in dicore and "==" not in dicore and "~=" not in dicore:
        yield "requires dicore without an upper bound; write dicore>=0.1,<0.2"
    if not (told["License-Expression"] or told["License"]):
        yield "states no licence"
    if not told["Summary"]:
        yield "has no summary"


def _badge(
    of: Distribution, files: list[str], opened: Open, extra: list[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the badge of a package if it is of these files, and why one does not count."""
    told: Any = of.metadata
    tops = _tops(of)
    own = [path for path in files if path.split("/")[0] in tops]
    found = [path for path in own if path in {f"{top}/{BADGE}" for top in tops}]
    if not found:
        return {}, ()
    try:
        badge = _stated(found[0], opened)
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}, (f"{found[0]}: not what dicore check --badge writes",)
    if extra:
        more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
        return {}, (f"{found[0]}: says nothing of {extra[0]}{more}, beside the import package",)
    stated = badge["format"], badge["name"], badge["version"], badge["digest"]
    if stated != (FORMAT, told["Name"], told["Version"], digest_of(own, opened, of)):
        return {}, (f"{found[0]}: of other files or another version; run dicore check --badge",)
    badge.pop("signed_by", None)  # who signed it is found out, not told
    return badge, ()


def _stated(path: str, opened: Open) -> dict[str, Any]:
    """Returns what a badge says.

    Raises:
        ValueError: it is too large, or not JSON of a badge; also `LookupError`, `TypeError`.
    """
    with opened(path) as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(path)
    badge = dict(json.loads(text))
    _ = [badge[name] for name in ("format", "name", "version", "digest")]
    counted = all(type(badge[outcome]) is int for outcome in _COUNTS)
    if not counted or not isinstance(badge["verified"], dict | None):
        raise ValueError(path)
    return badge
