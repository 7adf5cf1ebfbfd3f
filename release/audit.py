"""Compares the tested versions of all dependencies with known vulnerabilities.

    python release/audit.py --advisories all.zip

The database is a file or folder of advisories in the OSV format (https://ossf.github.io/osv-schema):
a zip archive or folder of JSON files, as osv.dev publishes one of PyPI, or one JSON file with a
list. Nothing is fetched. Without a database it says "not audited", and never that nothing was
found; that ends with 1, too, unless `--optional` allows it. Versions are those of
`constraints.txt`, or of `--packages`.
A database without an advisory of PyPI, or whose newest one is older than `--most-days`, and a
file with a line that pins no version (`demo>=1.0`) are "not audited" too, which ends with 1.

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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
MOST_DAYS = 30
"""Age in days of the newest advisory from which on a database says nothing."""


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
    """Returns the versions of packages in a file of constraints, by normalized name.

    Raises:
        SystemExit: a line pins no version, or none does.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        told = re.sub(r"(^|\s)(#.*|--hash\S*|\\$)", "", line).strip()
        if not told:
            continue
        try:
            name, version = _pin(told)
        except ValueError as error:
            what = f"not audited: line {number}: {told!r}: expected NAME==VERSION"
            raise SystemExit(what) from error
        found[name] = version
    if not found:
        raise SystemExit("not audited: no package with a version")
    return found


def _pin(line: str) -> tuple[str, str]:
    asked = Requirement(line)
    ((sign, version),) = ((each.operator, each.version) for each in asked.specifier)
    if sign not in ("==", "==="):
        raise ValueError(f"{sign} pins nothing")
    return canonicalize_name(asked.name), str(Version(version))


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
            if not _is_pypi(affected) or name not in packages:
                continue
            version = packages[name]
            if _is_listed(version, affected) or _in_ranges(version, affected):
                summary = str(each.get("summary") or each.get("details") or "")
                yield Finding(name, version, str(each["id"]), summary.strip().partition("\n")[0])
                break


def _is_listed(text: str, affected: Mapping[str, Any]) -> bool:
    """Returns whether a version is listed, in any spelling, or without its local part."""
    spellings = {text, str(Version(text)), Version(text).public}
    wanted = {_place(each) or each for each in spellings}
    return any((_place(each) or each) in wanted for each in affected.get("versions", []))


def _in_ranges(text: str, affected: Mapping[str, Any]) -> bool:
    version = Version(text)
    for each in affected.get("ranges", []):
        if each.get("type") == "GIT":
            continue  # of commits: other ranges or `versions` have it too
        events = [(kind, point) for event in each["events"] for kind, point in event.items()]
        first = Version("0.dev0")
        inside = False
        for kind, point in sorted(events, key=lambda event: _place(event[1]) or first):
            bound = _place(point)
            if bound is None and kind == "introduced":
                return True  # it may be anywhere: better told once too often
            if bound is None:
                continue
            if kind == "introduced":
                inside |= point == "0" or version >= bound
            elif (kind == "fixed" and version >= bound) or (
                kind == "last_affected" and Version(version.public) > bound
            ):
                inside = False
        if inside:
            return True
    return False


def _place(point: str) -> Version | None:
    try:
        return Version(point)
    except InvalidVersion:
        return None


def _texts(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        yield from (file.read_bytes() for file in sorted(path.rglob("*.json")))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist() if name.endswith(".json"))
    else:
        yield path.read_bytes()


def not_audited(count: int, newest: str, most_days: int) -> str:
    """Returns why a database says nothing of the packages of today, or "".

    Args:
        count: Its advisories of PyPI.
        newest: Newest date of them, as ISO 8601; "": none.
        most_days: Greatest age in days.
    """
    if not count:
        return "the database has no advisory of PyPI"
    try:
        date = datetime.fromisoformat(newest)
    except ValueError:
        return "no advisory says when it was modified, so the database may be of any age"
    age = datetime.now(UTC) - (date if date.tzinfo else date.replace(tzinfo=UTC))
    if age > timedelta(days=most_days):
        return f"the newest advisory is of {newest}, {age.days} days old; expected {most_days}"
    return ""


def audit(
    packages: Mapping[str, str],
    path: Path | None,
    accepted: Mapping[str, str],
    most_days: int = MOST_DAYS,
) -> int:
    """Prints what is affected; returns the findings that nobody accepted, and 1 if not audited.

    Args:
        packages: Versions by normalized name.
        path: The database; None: nothing is audited.
        accepted: Reasons by advisory.
        most_days: Greatest age in days of the newest advisory.
    """
    if path is None:
        print(f"not audited: {len(packages)} packages, no database of advisories was given")
        return 1
    count, bad, newest = 0, 0, ""

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count, newest
        for each in advisories(path):
            if any(_is_pypi(affected) for affected in each.get("affected", [])):
                count += 1
                newest = max(newest, str(each.get("modified") or each.get("published") or ""))
            yield each

    for each in findings(packages, counted()):
        why = accepted.get(each.advisory)
        bad += why is None
        what = f"accepted: {why}" if why else each.summary
        print(f"{each.package} {each.version}: {each.advisory}: {what}")
    if why_not := not_audited(count, newest, most_days):
        print(f"not audited: {path.name}: {why_not}")
        return bad + 1
    of = f"{count} advisories of {path.name}, the newest of {newest}"
    print(f"{len(packages)} packages, {of}: {bad} not accepted")
    return bad


def _is_pypi(affected: Mapping[str, Any]) -> bool:
    return str(affected.get("package", {}).get("ecosystem", "")).partition(":")[0] == "PyPI"


def main() -> None:
    """Reads the arguments and audits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--advisories", type=Path, help="zip archive, folder or file of OSV JSON")
    parser.add_argument("--packages", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--optional", action="store_true", help="end with 0 without a database")
    parser.add_argument(
        "--most-days", type=int, default=MOST_DAYS, help="greatest age of the newest advisory"
    )
    given = parser.parse_args()
    accepted = tomllib.loads((ROOT / "release/accepted.toml").read_text(encoding="utf-8"))
    packages = pins(given.packages.read_text(encoding="utf-8"))
    bad = audit(packages, given.advisories, accepted, given.most_days)
    raise SystemExit(1 if bad and not (given.optional and given.advisories is None) else 0)


if __name__ == "__main__":
    main()
