"""Compares the tested versions of all dependencies with known vulnerabilities.

    python release/audit.py --advisories all.zip

The database is a file or folder of advisories in the OSV format (https://ossf.github.io/osv-schema):
a zip archive or folder of JSON files, as osv.dev publishes one of PyPI, or one JSON file with a
list. Nothing is fetched. Without a database it says "not audited", and never that nothing was
found; `--strict` ends with 1 then. Versions are those of `constraints.txt`, or of `--packages`.

Ends with 1 if a version is affected, unless `release/accepted.toml` names the advisory and why:
`"GHSA-…" = "only its server is affected, which dicore does not start"`.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
_PIN = re.compile(r"(?m)^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;#]+)")


@dataclass(frozen=True)
class Finding:
    """A version that an advisory affects.

    Args:
        package: Name of the package.
        version: Its version.
        advisory: Identifier of the advisory.
        summary: What it is about.
    """

    package: str
    version: str
    advisory: str
    summary: str


def pins(text: str) -> dict[str, str]:
    """Returns the versions of packages in a file of constraints, by normalized name."""
    return {canonicalize_name(name): version for name, version in _PIN.findall(text)}


def advisories(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the advisories of a database.

    Raises:
        SystemExit: it cannot be read, or has none.
    """
    count = 0
    try:
        for text in _texts(path):
            found = json.loads(text)
            for each in found if isinstance(found, list) else [found]:
                _ = each["id"], each.get("affected", [])
                count += 1
                yield each
    except (OSError, zipfile.BadZipFile, ValueError, LookupError, TypeError) as error:
        raise SystemExit(f"{path}: no database of OSV advisories: {error}") from error
    if not count:
        raise SystemExit(f"{path}: has no advisory, so it says nothing")


def findings(packages: Mapping[str, str], found: Iterator[dict[str, Any]]) -> Iterator[Finding]:
    """Yields which versions are affected by which advisory; withdrawn ones do not count.

    Args:
        packages: Versions by normalized name.
        found: The advisories.
    """
    for each in found:
        if each.get("withdrawn"):
            continue
        for affected in each.get("affected", []):
            told = affected.get("package", {})
            name = canonicalize_name(str(told.get("name", "")))
            if told.get("ecosystem") != "PyPI" or name not in packages:
                continue
            version = packages[name]
            if version in affected.get("versions", []) or _in_ranges(version, affected):
                summary = str(each.get("summary") or each.get("details") or "")
                yield Finding(name, version, str(each["id"]), summary.strip().partition("\n")[0])
                break


def _in_ranges(text: str, affected: Mapping[str, Any]) -> bool:
    version = Version(text)
    for each in affected.get("ranges", []):
        inside = False
        events = [(kind, point) for event in each["events"] for kind, point in event.items()]
        for kind, point in sorted(events, key=lambda event: _place(event[1])):
            try:
                bound = Version("0" if point == "0" else point)
            except InvalidVersion:
                continue  # of git: other ranges or `versions` have it too
            if kind == "introduced" and version >= bound:
                inside = True
            elif (kind == "fixed" and version >= bound) or (
                kind == "last_affected" and version > bound
            ):
                inside = False
        if inside and each.get("type") != "GIT":
            return True
    return False


def _place(point: str) -> Version:
    try:
        return Version(point)
    except InvalidVersion:
        return Version("0")


def _texts(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        yield from (file.read_bytes() for file in sorted(path.rglob("*.json")))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist() if name.endswith(".json"))
    else:
        yield path.read_bytes()


def audit(packages: Mapping[str, str], path: Path | None, accepted: Mapping[str, str]) -> int:
    """Prints what is affected; returns the number of findings that nobody accepted."""
    if path is None:
        print(f"not audited: {len(packages)} packages, no database of advisories was given")
        return 0
    count, bad = 0, 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for each in advisories(path):
            count += 1
            yield each

    for each in findings(packages, counted()):
        why = accepted.get(each.advisory)
        bad += why is None
        what = f"accepted: {why}" if why else each.summary
        print(f"{each.package} {each.version}: {each.advisory}: {what}")
    print(f"{len(packages)} packages, {count} advisories of {path.name}: {bad} not accepted")
    return bad


def main() -> None:
    """Reads the arguments and audits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--advisories", type=Path, help="zip archive, folder or file of OSV JSON")
    parser.add_argument("--packages", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--strict", action="store_true", help="end with 1 without a database")
    given = parser.parse_args()
    accepted = tomllib.loads((ROOT / "release/accepted.toml").read_text(encoding="utf-8"))
    packages = pins(given.packages.read_text(encoding="utf-8"))
    bad = audit(packages, given.advisories, accepted)
    raise SystemExit(1 if bad or (given.strict and given.advisories is None) else 0)


if __name__ == "__main__":
    main()
