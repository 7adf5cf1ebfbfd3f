"""Trains the runs of a plan that have no record yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dicore.errors import DicoreError
from dicore.run.launch import TrainRequest, described
from dicore_tools.multi_seed.process_pool import ProcessPool, SeedRun
from dicore_tools.results.plan import Plan, Row
from dicore_tools.results.records import Record, RecordFile, measure

__all__ = ["Finished", "missing_runs", "train_missing"]


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended; `record` is None if it failed or was interrupted."""

    row: Row
    seed: int
    record: Record | None
    error: str = ""
    exit_code: int = 0


def missing_runs(plan: Plan, rows: Sequence[Row], file: RecordFile) -> list[tuple[Row, int]]:
    """Returns the rows and seeds without a record of the present settings."""
    found = file.read()
    pairs = [(row, seed) for row in rows for seed in row.seeds]
    return [(row, seed) for row, seed in pairs if (row.name, plan.settings(row), seed) not in found]


def train_missing(
    plan: Plan,
    pairs: Sequence[tuple[Row, int]],
    file: RecordFile,
    runs: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    trust: bool = False,
    after: Callable[[Finished], None] = lambda finished: None,
) -> list[Finished]:
    """Trains runs, one process each, and adds a record of each to the file.

    A run that was interrupted earlier is resumed. A signal makes the running ones save and stop.

    Args:
        plan: The plan.
        pairs: Rows and seeds to train.
        file: Receives the records.
        runs: Folder of the run folders, `ROW-SETTINGS/seed_N`.
        jobs: Number of runs in parallel.
        overwrite: Train again what is already there.
        trust: Run code that the configs of runs to be resumed name by path.
        after: Called after each run.
    """
    asked: dict[int, tuple[Row, int]] = {}
    requests: list[TrainRequest] = []
    for row, seed in pairs:
        folder = runs / f"{row.name}-{plan.settings(row)}" / f"seed_{seed}"
        request = row.request(seed, folder)
        request = replace(request, exist="overwrite" if overwrite else "resume", trust=trust)
        requests.append(request)
        asked[id(requests[-1])] = row, seed
    ended = []
    with ProcessPool(jobs) as pool:
        for request, run in pool.run(requests):
            finished = _finished(plan, *asked[id(request)], run, file)
            ended.append(finished)
            after(finished)
    return ended


def _finished(plan: Plan, row: Row, seed: int, run: SeedRun, file: RecordFile) -> Finished:
    if run.status != "done" or run.folder is None:
        return Finished(row, seed, None, run.error or run.status, run.exit_code or 1)
    try:
        record = measure(
            Path(run.folder),
            trust=True,  # trained just now, which refused what the row does not name
            row=row.name,
            settings=plan.settings(row),
            env=plan.task(row),
            policy=plan.algorithm(row),
            seed=seed,
            n_episode=row.n_episode,
            metrics=row.check_metrics,
        )
        file.add(record)
    except (DicoreError, OSError, KeyError, ValueError) as error:
        code = error.exit_code if isinstance(error, DicoreError) else 1
        return Finished(row, seed, None, described(error), code)
    return Finished(row, seed, record)
