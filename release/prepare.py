"""Prepares a release on this machine; nothing is uploaded: `make release VERSION=0.2.0`.

    python -m release.prepare 0.2.0 --check       # says all that is in the way, changes nothing
    python -m release.prepare 0.2.0               # versions, changelog, surface, wheels, site, tag

Dependencies are audited (`release/audit.py`). Versions are written to all distributions, fragments
of `changes/` go to the changelog, the public surface is recorded (`release/api.json`), wheels and
archives are built twice, checked, installed and run (`release/dist.py`), the documentation is built
as a version of the site, and all of it is a commit with a tag. A step that fails, and Ctrl-C, end
it and take back what it wrote; so does
`git restore --staged --worktree .` after a kill.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version as installed
from pathlib import Path

from packaging.version import InvalidVersion, Version

__all__ = ["join_unreleased", "obstacles", "taken_back", "write_version"]

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r'(?m)^(version = |version: |__version__ = )("?)([\w.+!-]+)("?)$')
_BOUND = re.compile(r"(\bdicore(?:-[a-z-]+)?(?:\[[\w,-]+\])?)>=\d+\.\d+,<\d+\.\d+\b")
_FRAGMENT = re.compile(r"[\w-]+\.(added|changed|deprecated|removed|fixed|security)\.md")


def versioned(root: Path) -> list[Path]:
    """Returns the files that state the version."""
    names = ("", "agents", "compat", "dist", "tools", "worlds", "contrib")
    projects = (root, *(root / "plugins" / name for name in names), root / "contrib_envs")
    return [*(each / "pyproject.toml" for each in projects), root / "CITATION.cff",
            root / "dicore/__init__.py"]  # fmt: skip


def bounded(root: Path) -> list[Path]:
    """Returns the files with bounds on dicore: projects, templates, pages, and their tests."""
    words = ["grep", "-lE", r"dicore[][a-z,-]*>=[0-9.]+,<[0-9.]+", "--"]
    places = ["*.toml", "*.tmpl", "*.py", "*.md", ":!CHANGELOG.md", ":!changes", ":!tests/release"]
    command = ["git", *words, *places]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603
    return [root / line for line in done.stdout.splitlines()]


def obstacles(version: str, root: Path = ROOT) -> Iterator[str]:
    """Yields what is in the way of a release.

    Args:
        version: What is to be released, `MAJOR.MINOR.PATCH`.
        root: The checkout.
    """
    try:
        wanted = Version(version)
    except InvalidVersion:
        yield f"{version}: not a version; expected MAJOR.MINOR.PATCH"
        return
    if str(wanted) != version or len(wanted.release) != 3:
        yield f"{version}: write it as MAJOR.MINOR.PATCH"
    now = {file: _stated(file) for file in versioned(root)}
    different = {found for found in now.values() if found != _stated(root / "pyproject.toml")}
    if different:
        yield f"the distributions state different versions: {sorted({*now.values()})}"
    older = [Version(found) for found in now.values() if Version(found) > wanted]
    if older:
        yield f"{version}: {max(older)} is stated already"
    if _git(root, "status", "--porcelain"):
        yield "the checkout has changes that are not committed: git status"
    if f"v{version}" in _git(root, "tag", "--list").split():
        yield f"v{version}: there is such a tag"
    elif _git(root, "log", "-1", "--format=%s").strip() == f"release: {version}":
        yield f"v{version}: committed already; git tag -a v{version} -m 'dicore {version}'"
    yield from _wrong_fragments(root)
    runs = root / "tests/release/recorded" / ".".join(map(str, wanted.release[:2]))
    if not runs.is_dir():
        place = runs.relative_to(root)
        yield f"{place}: no runs of this version; python -m tests.release.record_runs {place}"


def _wrong_fragments(root: Path) -> Iterator[str]:
    for file in sorted((root / "changes").glob("*")):
        if file.name != "README.md" and not _FRAGMENT.fullmatch(file.name):
            yield f"changes/{file.name}: not NAME.KIND.md with a KIND of changes/README.md"
        elif not file.read_text(encoding="utf-8").strip():
            yield f"changes/{file.name}: empty"


def write_version(version: str, root: Path = ROOT) -> None:
    """Writes a version, and the bounds between the distributions, into all files that state it."""
    major, minor, _ = Version(version).release
    bound = rf"\g<1>>={major}.{minor},<{major}.{minor + 1}"
    for file in bounded(root):
        text = file.read_text(encoding="utf-8")
        file.write_text(_BOUND.sub(bound, text), encoding="utf-8")
    for file in versioned(root):
        text = file.read_text(encoding="utf-8")
        text = _VERSION.sub(rf"\g<1>\g<2>{version}\g<4>", text, count=1)
        file.write_text(text, encoding="utf-8")


def join_unreleased(version: str, file: Path) -> None:
    """Puts what the changelog says of a version as "not released" under its release.

    Args:
        version: What is released; its section is the first.
        file: The changelog.
    """
    text = file.read_text(encoding="utf-8")
    before, title, said = text.partition(f"\n## {version} (not released)\n")
    if not title:
        return
    said, mark, older = said.partition("\n## ")
    head, heading, rest = before.partition("\n### ")
    file.write_text(f"{head.rstrip()}\n{said.rstrip()}\n{heading}{rest.rstrip()}\n{mark}{older}",
                    encoding="utf-8")  # fmt: skip


@contextmanager
def taken_back(root: Path = ROOT) -> Iterator[None]:
    """Takes back what was written within, if it does not end well; the checkout was clean."""
    try:
        yield
    except BaseException:
        _git(root, "restore", "--staged", "--worktree", ".")
        print("not released: all files are as they were", flush=True)
        raise


def prepare(version: str, site: Path) -> None:
    """Writes, builds, checks, commits and tags; ends with the code of the first failure."""
    python = sys.executable
    with taken_back():
        write_version(version)
        _run([python, "-m", "towncrier", "build", "--yes", "--version", version])
        join_unreleased(version, ROOT / "CHANGELOG.md")
        if installed("dicore") != version:
            _install()
        _run([python, "-m", "release.surface"])
        _run([python, "-m", "release.surface", "--record"])
        _run([python, "release/dist.py"])
        _run([python, "-m", "docs.generate.site", "-o", str(site)])
        _run(["git", "commit", "-aqm", f"release: {version}"])
    _run(["git", "tag", "-a", f"v{version}", "-m", f"dicore {version}"])
    print(f"v{version} is tagged here; dist/ has the files with SHA256SUMS, {site} the site")


def _install() -> None:
    """Installs the distributions again, so that their metadata have the version."""
    folders = [str(file.parent) for file in versioned(ROOT) if file.name == "pyproject.toml"]
    words = [word for folder in folders for word in ("-e", folder)]
    _run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", *words]
    )


def _stated(file: Path) -> str:
    found = _VERSION.search(file.read_text(encoding="utf-8"))
    return found[3] if found else "0"


def _git(root: Path, *words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def _run(words: Sequence[str]) -> None:
    print("$", *words, flush=True)
    code = subprocess.run(words, cwd=ROOT, check=False).returncode  # noqa: S603 - our own words
    if code:
        raise SystemExit(code)


def main() -> None:
    """Says what is in the way, or prepares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--advisories", help="database for release/audit.py")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="folder of the site")
    arguments = parser.parse_args()
    from release.surface import broken, recorded, removals, surface

    found = [*obstacles(arguments.version), *broken(recorded(), surface(), removals())]
    if found:
        raise SystemExit("\n".join(found))
    if arguments.check:
        print(f"nothing is in the way of {arguments.version}")
        return
    database = ["--advisories", arguments.advisories] if arguments.advisories else []
    _run([sys.executable, "release/audit.py", "--optional", *database])
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    prepare(arguments.version, arguments.site)


if __name__ == "__main__":
    main()
