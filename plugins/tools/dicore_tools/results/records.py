"""Measured results as JSON lines: one record for each seed of each row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from dicore.config.convert import convert
from dicore.errors import UsageError
from dicore.run.atomic import read_json, read_regular, write_file
from dicore.run.folder import RunFolder
from dicore.run.log import read_metrics
from dicore_registry.explain import brief
from dicore_tools.evaluation.evaluate import evaluate
from dicore_tools.reports.curves import TAG

__all__ = ["Record", "RecordFile", "measure"]

_FRESH = 1_000_000
"""Added to the seed of a run: the seed of the episodes that measure its policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was measured with one seed of a row.

    Args:
        row: Name of the row.
        settings: Hash of the chosen options; see `Plan.settings`.
        env: Name of the environment.
        policy: Name of the algorithm.
        seed: Random seed of the run.
        stop: Whether an evaluation reached the stop value.
        env_step: Env steps at the end of the run.
        train_iter: Gradient updates.
        wall_s: Seconds of training with its evaluations.
        returns: Returns of the best checkpoint, on episodes that the training did not use.
        last_returns: Returns of the last checkpoint on the same episodes; empty: not measured.
        cpu_s: CPU seconds of training with its evaluations, of all processes; 0: not measured.
        curve: Env steps and mean return of each evaluation.
        logged: Mean of metrics over the second half of their lines; those that were asked for.
        git: Revision of the code, if any.
        versions: Version of each package.
        finished: When the run ended, in UTC.
    """

    row: str
    settings: str
    env: str
    policy: str
    seed: int
    stop: bool
    env_step: int
    train_iter: int
    wall_s: float
    returns: tuple[float, ...]
    last_returns: tuple[float, ...] = ()
    cpu_s: float = 0.0
    curve: tuple[tuple[int, float], ...] = ()
    logged: Mapping[str, float] = field(default_factory=dict)
    git: str | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    finished: str = ""

    @property
    def solved_step(self) -> int:
        """Env steps at the evaluation that reached the stop value; those of the run without one."""
        return self.curve[-1][0] if self.stop and self.curve else self.env_step

    @property
    def mean_return(self) -> float:
        """Mean of `returns`; NaN without any."""
        return sum(self.returns) / len(self.returns) if self.returns else math.nan

    @property
    def key(self) -> tuple[str, str, int]:
        """Row, settings and seed."""
        return self.row, self.settings, self.seed


class RecordFile:
    """A file of records, one JSON object a line.

    Args:
        path: The file; need not exist.

    Raises:
        UsageError: the file is not one of records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read()

    def read(self) -> dict[tuple[str, str, int], Record]:
        """Returns the records by row, settings and seed."""
        try:
            lines = read_regular(self.path).decode("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {self.path}: {error}") from error
        found = [self._parsed(line, number) for number, line in enumerate(lines, 1) if line.strip()]
        return {record.key: record for record in found}

    def _parsed(self, line: str, number: int) -> Record:
        try:
            hints = get_type_hints(Record)
            values = {name: convert(v, hints[name], name) for name, v in json.loads(line).items()}
            return Record(**values)
        except Exception as error:  # a line can lie in many ways
            raise UsageError(
                f"{self.path}:{number}: not a record of results: {brief(error)}",
                hint="remove the line; its run is then measured again",
            ) from error

    def add(self, record: Record) -> None:
        """Adds a record, in place of earlier ones of the same row and seed.

        Other processes may add records to the file at the same time.

        Raises:
            UsageError: the file cannot be written.
        """
        from filelock import FileLock

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_name(f".{self.path.name}.lock")
            with FileLock(lock):
                place = (record.row, record.seed)
                kept = [each for each in self.read().values() if (each.row, each.seed) != place]
                self._write([*kept, record])
                lock.unlink(missing_ok=True)  # within the lock: afterwards it may be another's
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _write(self, records: Iterable[Record]) -> None:
        ordered = sorted(records, key=lambda record: (record.row, record.seed))
        lines = [json.dumps(asdict(record), ensure_ascii=False) for record in ordered]
        write_file(self.path, "".join(f"{line}\n" for line in lines).encode())


def measure(folder: Path, *, trust: bool = False, **names: Any) -> Record:
    """Evaluates the best and the last checkpoint of a finished run on other episodes.

    Args:
        folder: The run folder.
        trust: Run code that its config names by path.
        **names: `row`, `settings`, `env`, `policy`, `seed`, `n_episode`, and `metrics`: the tags
            whose means are taken from the log.

    Raises:
        DicoreError: the run has no valid checkpoint, or its files cannot be read.
    """
    run, n_episode = RunFolder(folder), names.pop("n_episode")
    metrics: Sequence[str] = names.pop("metrics", ())
    saved = read_json(run.metadata)
    result = saved["result"]
    best, last = (
        evaluate(
            folder,
            n_episode=n_episode,
            seed=names["seed"] + _FRESH,
            load_path=each,
            trust=trust,
        )
        for each in (None, "final")
    )
    lines = [*read_metrics(run.metrics)]
    curve = [(line["step"], line[TAG]) for line in lines if TAG in line]
    return Record(
        **names,
        **{key: result[key] for key in ("stop", "env_step", "train_iter", "wall_s", "cpu_s")},
        returns=tuple(best.returns),
        last_returns=tuple(last.returns),
        curve=tuple((int(step), round(float(mean), 4)) for step, mean in sorted(curve)),
        logged={tag: _late_mean(lines, tag) for tag in metrics},
        git=saved.get("git"),
        versions=saved.get("versions", {}),
        finished=str(saved.get("finished") or ""),
    )


def _late_mean(lines: Sequence[Mapping[str, Any]], tag: str) -> float:
    """Returns the mean of a metric over the second half of its lines; NaN if it was not logged."""
    values = [float(line[tag]) for line in lines if tag in line]
    late = values[len(values) // 2 :]
    return sum(late) / len(late) if late else math.nan
