"""Tries plugin packages with versions of dicore, Python and NumPy, and writes a table.

    python release/compatibility.py examples/plugins/* -o compatibility.md
    python release/compatibility.py acme-rl/ other_rl-1.0-py3-none-any.whl --dicore wheels/0.1 \
        --dicore wheels/0.2 --python python3.11 --python python3.12

A plugin is a source folder, which is built, or a wheel. A folder of `--dicore` has the wheels of
one version; without it, those of this checkout are built. Each version is installed once per Python
and NumPy with what it requires, and each plugin into a new environment on top of that, with what it
requires itself. A source folder with `tests/` is tested by these, from elsewhere; of a wheel,
`dicore check` runs the suites. Beside the table, `compatibility.json` has the same.

Ends with 1 if a pair fails. Versions that a plugin excludes are not tried; the oldest and the
newest version that it allows are named if they were not given.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from layers import install, layer
from matrix import NUMPYS, PYTHONS, UNTRIED, interpreter, obstacle, tested_torch
from packaging.metadata import Metadata
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from dist import EXTRAS, PROJECTS, ROOT, new_environment, run

_PATIENCE_S = 1800
"""Longest time of the tests of one pair."""
_EXCLUDED = "excluded"


@dataclass(frozen=True)
class Plugin:
    """A package to try.

    Args:
        name: Its name.
        version: Its version.
        wheel: Its wheel.
        requires: Its requirements that do not depend on an extra.
        allows: Which versions of dicore it allows.
        tests: Its tests; None: the suites of its components.
    """

    name: str
    version: str
    wheel: Path
    requires: tuple[str, ...]
    allows: SpecifierSet
    tests: Path | None


@dataclass(frozen=True)
class Row:
    """What came of a pair.

    Args:
        plugin: Name and version of the package.
        dicore: Version of dicore.
        python: Name of the interpreter.
        numpy: Requirement of NumPy.
        outcome: `ok (…)`, `failed: …`, `excluded: …`, or why it was not tried.
    """

    plugin: str
    dicore: str
    python: str
    numpy: str
    outcome: str

    @property
    def failed(self) -> bool:
        """Whether it was tried and did not work."""
        return not self.outcome.startswith(("ok", _EXCLUDED, *UNTRIED))


def read_plugin(path: Path, wheels: Path) -> Plugin:
    """Returns a plugin package; one of a source folder is built into `wheels`."""
    wheel, tests = path, path / "tests"
    if path.is_dir():
        before = {*wheels.glob("*.whl")}
        run([sys.executable, "-m", "build", "-n", "-w", "-o", str(wheels), str(path.resolve())])
        [wheel] = {*wheels.glob("*.whl")} - before
    name, version, *_ = parse_wheel_filename(wheel.name)
    needs = [need for need in _metadata(wheel).requires_dist or () if "extra" not in str(need)]
    allows = [need.specifier for need in needs if need.name == "dicore"]
    return Plugin(
        name=name,
        version=str(version),
        wheel=wheel.resolve(),
        requires=tuple(str(need) for need in needs),
        allows=allows[0] if allows else SpecifierSet(),
        tests=tests.resolve() if tests.is_dir() else None,
    )


def version_of(folder: Path) -> str:
    """Returns which version of dicore the wheels of a folder are.

    Raises:
        SystemExit: the folder has not exactly one wheel of dicore.
    """
    found = [parse_wheel_filename(each.name) for each in folder.glob("dicore-*.whl")]
    if len(found) != 1:
        raise SystemExit(f"--dicore {folder}: {len(found)} wheels of dicore, expected one version")
    return str(found[0][1])


def not_given(allows: SpecifierSet, given: Sequence[str], released: Sequence[str]) -> list[str]:
    """Returns the oldest and the newest released versions that a plugin allows and nobody gave."""
    allowed = sorted(allows.filter(released), key=Version)
    ends = dict.fromkeys([*allowed[:1], *allowed[-1:]])
    return [each for each in ends if each not in given]


def tried(plugin: Plugin, below: str, place: Path) -> str:
    """Installs a plugin on top of an environment and tests it; returns the outcome.

    Args:
        plugin: The package.
        below: The interpreter of the environment with dicore.
        place: An empty folder.
    """
    inside = layer(place / "env", below)
    if problem := install(inside, str(plugin.wheel)):
        return f"failed: not installed: {_last(problem)}"
    work = place / "work"
    work.mkdir()
    words = [inside, "-c", "import sys; from dicore.cli import main; sys.exit(main())"]
    words += ["check", plugin.name]
    if plugin.tests is not None:  # a copy: nothing beside them may be imported
        shutil.copytree(plugin.tests, work / "tests")
        words = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    try:
        done = _run(words, work)
    except subprocess.TimeoutExpired:
        return f"failed: its tests did not end in {_PATIENCE_S} s"
    return outcome(done.returncode, done.stdout, done.stderr)


def outcome(code: int, stdout: str, stderr: str) -> str:
    """Returns `ok` with what the tests counted, or the first failure, from what they printed."""
    counted = re.findall(r"(?m)^(\d+ (?:passed|components?)\b.*?)(?: in [\d.]+s.*)?$", stdout)
    if not code:
        return f"ok ({counted[-1]})" if counted else "failed: no test was run"
    failures = re.findall(r"(?m)^(?:FAILED|ERROR) (.*)$", stdout)
    failures += re.findall(r"(?m)^(\S+ \S+: failed.*)$", stdout)
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"failed: {failures[0]}{more}" if failures else f"failed: {_last(stdout + stderr)}"


def rows_of(
    plugins: Sequence[Plugin], folder: Path, python: str, numpy: str, place: Path, *, cuda: bool
) -> Iterator[Row]:
    """Yields what comes of each plugin with one version of dicore, Python and NumPy."""
    dicore = version_of(folder)
    below, why = _below(plugins, folder, python, numpy, place, cuda=cuda)
    for plugin in plugins:
        label = f"{plugin.name} {plugin.version}"
        if not plugin.allows.contains(dicore, prereleases=True):
            result = f"{_EXCLUDED}: it requires dicore{plugin.allows}"
        elif below is None:
            result = why
        else:
            with tempfile.TemporaryDirectory(prefix="dicore-plugin-") as temporary:
                result = tried(plugin, below, Path(temporary))
        print(f"{label:<24} dicore {dicore} {python} {numpy}: {result}", flush=True)
        yield Row(label, dicore, python, numpy, result)


def _below(
    plugins: Sequence[Plugin], folder: Path, python: str, numpy: str, place: Path, *, cuda: bool
) -> tuple[str | None, str]:
    """Installs one version of dicore; returns the interpreter, or why there is none."""
    found = interpreter(python)
    if found is None:
        return None, "not installed"
    own = {parse_wheel_filename(each.name)[0]: each for each in folder.glob("*.whl")}
    others = [need for each in plugins for need in each.requires if not need.startswith("dicore")]
    wheels = [f"{file}{EXTRAS.get(name.replace('-', '_'), '')}" for name, file in own.items()]
    wanted = [*wheels, *dict.fromkeys(others), numpy, tested_torch(), "pytest>=8"]
    against = obstacle(found, wanted, cuda=cuda)
    if against is not None:
        return None, against
    inside = new_environment(place, found)
    if problem := install(inside, *wanted):
        return None, f"failed: dicore cannot be installed: {_last(problem)}"
    return inside, ""


def table(rows: Sequence[Row], missing: Sequence[str]) -> str:
    """Returns the rows as Markdown, and a line for each version that was not tried."""
    lines = ["| plugin | dicore | Python | NumPy | outcome |", "|---|---|---|---|---|"]
    for row in rows:
        cells = row.plugin, row.dicore, row.python, row.numpy, row.outcome
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", *missing]).rstrip() + "\n"


def _write(out: Path, rows: Sequence[Row], missing: Sequence[str]) -> None:
    out.write_text(table(rows, missing), encoding="utf-8")
    facts = {"rows": [asdict(row) for row in rows], "not_given": missing}
    out.with_suffix(".json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _metadata(wheel: Path) -> Metadata:
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        [name] = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Metadata.from_email(archive.read(name), validate=False)


def _run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own words
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def main(given: argparse.Namespace) -> None:
    """Tries all pairs and writes the table."""
    with tempfile.TemporaryDirectory(prefix="dicore-compatibility-") as temporary:
        folder = Path(temporary)
        (folder / "plugins").mkdir()
        plugins = [read_plugin(each, folder / "plugins") for each in given.plugin]
        folders = given.dicore or [folder / "dicore"]
        for project in () if given.dicore else PROJECTS:
            words = ["-n", "-w", "-o", str(folder / "dicore"), str(project)]
            run([sys.executable, "-m", "build", *words])
        versions = [version_of(each) for each in folders]
        missing = [
            f"{each.name} {each.version} allows dicore {version}, which was not given."
            for each in plugins
            for version in not_given(each.allows, versions, given.released)
        ]
        rows: list[Row] = []
        for number, (python, numpy, each) in enumerate(
            (p, n, f) for p in given.python or PYTHONS for n in given.numpy or NUMPYS
            for f in folders
        ):  # fmt: skip
            place = folder / str(number)
            rows += rows_of(plugins, each, python, numpy, place, cuda=given.cuda)
            shutil.rmtree(place, ignore_errors=True)  # each holds a torch
            _write(given.out, rows, missing)  # whatever comes later
    failed = [row for row in rows if row.failed]
    print(f"{given.out}: {len(rows)} pairs, {len(failed)} failed")
    raise SystemExit(1 if failed else 0)


def _released() -> list[str]:
    """Returns the versions that were tagged in this checkout."""
    done = _run(["git", "tag", "--list", "v*"], ROOT)
    return [line.removeprefix("v") for line in done.stdout.split()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plugin", type=Path, nargs="+", help="source folder or wheel")
    parser.add_argument("--dicore", type=Path, action="append", default=[], help="folder of wheels")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--numpy", action="append", default=[], help="requirement, numpy<2")
    parser.add_argument("--released", action="append", default=None, help="version; default: tags")
    parser.add_argument("--cuda", action="store_true", help="install CUDA, where torch brings it")
    parser.add_argument("-o", "--out", type=Path, default=Path("compatibility.md"))
    arguments = parser.parse_args()
    if arguments.released is None:
        arguments.released = _released()
    main(arguments)
