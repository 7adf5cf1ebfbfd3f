"""A short version of a table as the gate of a release: trains rows and compares with intervals."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from dicore.config.paths import flatten
from dicore.errors import UsageError
from dicore_tools.results.expected import (
    Expected,
    Finding,
    compared,
    is_whole,
    options_of,
    read_expected,
    recorded,
    write_expected,
)
from dicore_tools.results.plan import Plan, Row
from dicore_tools.results.records import Record, RecordFile
from dicore_tools.results.training import Finished, missing_runs, train_missing

__all__ = ["Gate", "installed_code"]

_LIBRARIES = ("torch", "numpy", "gymnasium")
_INPUT = re.compile(r"(^|[._])(path|load_data)$")
"""Names of options that name files from which a training reads: a data set, samples, parameters."""
_OUTPUT = re.compile(r"replay_path$")
_CHUNK_BYTES = 1 << 20


class Gate:
    """Trains the first seeds of rows and compares what they measure with intervals.

    Runs and records are kept by the code that trained them, and the content of the files from which
    the rows read: the check goes on where it was interrupted, and begins again when either has
    changed. Data sets that an id names (Minari) are not read for this.

    Args:
        plan: The plan.
        rows: The rows to check.
        expected: The file of the intervals.
        runs: Folder of the run folders and records, in a folder of the code.
    """

    def __init__(self, plan: Plan, rows: Sequence[Row], expected: Path, runs: Path) -> None:
        self._plan, self.rows, self.expected = plan, rows, expected
        asked = repr(
            [
                (row.name, row.max_env_step, row.check_metrics, _inputs(plan, row))
                for row in plan.rows
            ]
        )
        code = hashlib.sha256(f"{installed_code()}{asked}".encode()).hexdigest()[:12]
        self._runs = runs / f"check-{code}"
        self.file = RecordFile(self._runs / "records.jsonl")

    def pairs(self, *, all_seeds: bool) -> list[tuple[Row, int]]:
        """Returns the rows and seeds that a check trains, or a recording."""
        return [
            (row, seed)
            for row in self.rows
            for seed in (row.seeds if all_seeds else row.seeds[: row.check_seeds])
        ]

    def missing(self, *, all_seeds: bool) -> list[tuple[Row, int]]:
        """Returns those of `pairs` without a record of this code."""
        found = missing_runs(self._plan, self.rows, self.file)
        return [pair for pair in self.pairs(all_seeds=all_seeds) if pair in found]

    def train(
        self,
        pairs: Sequence[tuple[Row, int]],
        *,
        jobs: int,
        overwrite: bool,
        after: Callable[[Finished], None],
    ) -> list[Finished]:
        """Trains runs, one process each, and adds their records."""
        return train_missing(
            self._plan, pairs, self.file, self._runs, jobs=jobs, overwrite=overwrite, after=after
        )

    def check_expected(self) -> None:
        """Compares options and measures of the rows with those that were recorded.

        Raises:
            UsageError: rows have no intervals, or those of other options or measures; or an
                interval has no finite bounds.
        """
        expected = read_expected(self.expected)
        odd = [row.name for row in self.rows if not self._is_current(row, expected)]
        if odd:
            raise UsageError(
                f"{self.expected}: no intervals for the present options of {', '.join(odd)}",
                hint="if the options were meant to change, record these rows again:"
                f" --check --record {_only(odd)}",
            )
        if broken := [row.name for row in self.rows if not is_whole(expected[row.name], row)]:
            raise UsageError(
                f"{self.expected}: not one finite interval for each measure of {', '.join(broken)}:"
                " curve, last and check_metrics",
                hint=f"record these rows again: --check --record {_only(broken)}",
            )

    def _is_current(self, row: Row, expected: Mapping[str, Expected]) -> bool:
        each = expected.get(row.name)
        return each is not None and each.options == options_of(self._plan, row)

    def findings(self) -> list[Finding]:
        """Returns every measure of the rows beside its interval."""
        return [*compared(self.rows, read_expected(self.expected), self._records())]

    def record(self) -> None:
        """Writes the intervals of the rows.

        Raises:
            UsageError: a row has fewer than three seeds, or a measure is not finite.
        """
        write_expected(self.expected, recorded(self._plan, self.rows, self._records()))

    def _records(self) -> list[Record]:
        keys = {(row.name, self._plan.settings(row)) for row in self.rows}
        return [each for each in self.file.read().values() if (each.row, each.settings) in keys]


def _only(names: Sequence[str]) -> str:
    return " ".join(f"--only {name}" for name in names)


def _inputs(plan: Plan, row: Row) -> dict[str, str]:
    """Returns a hash of each file or folder that the config of a row names, by the option."""
    named = {
        option: Path(value)
        for option, value in flatten(plan.configs[row.name].cfg).items()
        if isinstance(value, str) and value
        and _INPUT.search(option) and not _OUTPUT.search(option)
    }  # fmt: skip
    return {option: _content(path) for option, path in named.items() if path.exists()}


def _content(path: Path) -> str:
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(path).as_posix()} {file.stat().st_size}\n".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
    return digest.hexdigest()


def installed_code() -> str:
    """Returns a hash of the sources of all packages with components, and of the libraries."""
    digest = hashlib.sha256()
    for name in _LIBRARIES:
        digest.update(f"{name} {_version(name)}\n".encode())
    for package in sorted(_packages()):
        for folder in _folders(package):
            for file in sorted(folder.rglob("*.py")):
                digest.update(f"{package}/{file.relative_to(folder).as_posix()}\n".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _packages() -> set[str]:
    """Returns the top packages of everything that is registered."""
    found = {
        each.value.partition(":")[0].partition(".")[0]
        for dist in metadata.distributions()
        for each in dist.entry_points
        if each.group.partition(".")[0] == "dicore" and ":" in each.value
    }
    return {"dicore", "dicore_registry", *found}


def _folders(package: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # a broken package: it registers, and cannot be imported
        return
    yield from map(Path, (spec.submodule_search_locations or ()) if spec else ())
