"""Facts about a plugin package, from the metadata of a wheel or of an installed distribution.

Nothing of the package is imported. What its files say is a claim of its author, but a badge whose
files were changed is none, and one that is signed can be checked.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs

from dicore.errors import UsageError
from dicore_registry import default
from dicore_registry.entry_status import RESERVED

__all__ = ["BADGE", "FORMAT", "Package", "digest_of", "folder_of", "installed", "read_wheel"]

FORMAT: Final = 1
"""Version of badges and of the index."""
BADGE: Final = "dicore-badge.json"
"""File in the import package that `dicore check --badge` writes."""
TIERS: Final = (
    "no plugin", "metadata", "suites pass", "verified result", "benchmark row",
)  # fmt: skip
"""What each tier says, from 0 on."""
_MOST_BYTES: Final = 1 << 22
_GROUP: Final = "dicore."
_LEFT_OUT: Final = ("__pycache__", BADGE, "dicore-badge.svg")


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
            return _package(inside.distribution, inside.files, inside.read)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise UsageError(f"{file}: no wheel: {error}") from error


def installed(name: str) -> Package:
    """Returns the facts about an installed package.

    Raises:
        UsageError: there is no such package.
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

    def read(path: str) -> bytes:
        top, _, rest = path.partition("/")
        folder = folders[top]
        assert folder is not None
        return (folder / rest).read_bytes()

    return _package(found, files, read)


def folder_of(module: str) -> Path | None:
    """Returns the folder of an import package that is installed, without importing it."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def digest_of(files: Iterator[str] | list[str], read: Callable[[str], bytes]) -> str:
    """Returns a hash of the files of import packages, without badges and bytecode.

    Args:
        files: Paths that begin with the import package.
        read: Returns the content of one.
    """
    whole = sha256()
    for path in sorted(files):
        if not {*path.split("/")} & {*_LEFT_OUT} and not path.endswith(".pyc"):
            whole.update(f"{path}\0{sha256(read(path)).hexdigest()}\n".encode())
    return whole.hexdigest()


class _Zipped:
    """The metadata and files of a wheel."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        folders = {name.split("/")[0] for name in archive.namelist()}
        found = sorted(name for name in folders if name.endswith(".dist-info"))
        if len(found) != 1:
            raise ValueError(f"{len(found)} folders .dist-info")
        self._archive = archive
        for name in ("METADATA", "entry_points.txt", "RECORD"):
            with_name = f"{found[0]}/{name}"
            if with_name in archive.namelist():
                self._check(with_name)
        self.distribution = PathDistribution(zipfile.Path(file, f"{found[0]}/"))
        self.files = [name for name in archive.namelist() if not name.endswith("/")]

    def read(self, path: str) -> bytes:
        return self._archive.read(path)

    def _check(self, path: str) -> None:
        size = self._archive.getinfo(path).file_size
        if size > _MOST_BYTES:
            raise ValueError(f"{path} has {size} bytes, expected at most {_MOST_BYTES}")


def _tops(of: Distribution) -> list[str]:
    targets = _components(of).values()
    return sorted({re.split(r"[.:\s\[]", target.strip())[0] for target in targets} - {""})


def _components(of: Distribution) -> dict[str, str]:
    lines = [each for each in of.entry_points if each.group.startswith(_GROUP)]
    return dict(sorted((f"{e.group.removeprefix(_GROUP)}/{e.name}", e.value) for e in lines))


def _package(of: Distribution, files: list[str], read: Callable[[str], bytes]) -> Package:
    told: Any = of.metadata
    components = _components(of)
    needs = [line for line in of.requires or () if "extra ==" not in line]
    bounds = [re.match(r"dicore\b(?!-)\s*(\[[^]]*\])?\s*\(?([^;)]*)", line) for line in needs]
    dicore = next((each[2].strip() for each in bounds if each), None)
    badge, why = _badge(told["Name"], told["Version"], _tops(of), files, read)
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
        problems=(*_problems(components, dicore, told), *why),
        badge=badge,
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
    name: str, version: str, tops: list[str], files: list[str], read: Callable[[str], bytes]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the badge of a package if it is of these files, and what is wrong with it."""
    own = [path for path in files if path.split("/")[0] in tops]
    found = [path for path in own if path in {f"{top}/{BADGE}" for top in tops}]
    if not found:
        return {}, ()
    try:
        badge = json.loads(read(found[0])[:_MOST_BYTES])
        stated = badge["format"], badge["name"], badge["version"], badge["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}, (f"{found[0]}: not what dicore check --badge writes",)
    if stated != (FORMAT, name, version, digest_of(own, read)):
        return {}, (f"{found[0]}: of other files or another version; run dicore check --badge",)
    return badge, ()
