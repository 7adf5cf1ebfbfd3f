"""Several seeds of one training: a run each in a folder of its own, and what they come to.

One run says little: five seeds of one algorithm can differ by more than two algorithms do
(Henderson et al. 2018, arXiv:1709.06560).
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path

from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore.run.launch import LaunchObserver, Outcome, TrainRequest, compile_request, launch
from dicore_tools.multi_seed.seed_run import SeedRun

__all__ = ["SUMMARIZED", "SeedRun", "Series", "run_series"]

SUMMARIZED = ("best_return", "env_step", "train_iter", "wall_s")
"""Numbers of a run's result that a summary tells median, mean and spread of."""


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of several seeds.

    Args:
        runs: One for each seed that was begun, in the order of the seeds.
        seeds: All seeds asked for.
        file: The summary, as JSON.
    """

    runs: list[SeedRun]
    seeds: tuple[int, ...]
    file: Path

    @property
    def solved(self) -> int:
        """Runs that reached the stop value."""
        return sum(bool(run.result.get("stop")) for run in self.runs)

    @property
    def exit_code(self) -> int:
        """That of the first run that did not end as it should; 130 where some did not begin."""
        cut = 130 if len(self.runs) < len(self.seeds) else 0
        return next((run.exit_code for run in self.runs if run.exit_code), cut)

    def summary(self) -> dict[str, dict[str, float]]:
        """Returns `median mean std min max` of each number, over the runs that have it.

        `std` is that of a sample (n - 1); 0 for one run.
        """
        found = {}
        for name in SUMMARIZED:
            values = [run.result[name] for run in self.runs if run.result.get(name) is not None]
            if values:
                found[name] = {
                    "median": float(statistics.median(values)),
                    "mean": float(statistics.fmean(values)),
                    "std": float(statistics.stdev(values)) if len(values) > 1 else 0.0,
                    "min": float(min(values)),
                    "max": float(max(values)),
                }
        return found

    def write(self) -> None:
        """Writes the summary.

        Raises:
            UsageError: the disk refuses.
        """
        content = {
            "seeds": list(self.seeds),
            "solved": self.solved,
            "summary": self.summary(),
            "runs": [asdict(run) for run in self.runs],
        }
        text = json.dumps(content, indent=2, ensure_ascii=False)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.file, text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise UsageError(
                f"{self.file}: cannot be written: {error.strerror or error}"
            ) from error


def run_series(
    request: TrainRequest,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    after: Callable[[SeedRun, Outcome | None], None] = lambda run, outcome: None,
    observer: LaunchObserver | None = None,
) -> Series:
    """Trains once for each seed.

    With `exp_name` DIR, the runs are `DIR/seed_0`, …, and the summary is `DIR/summary.json`; else
    the runs have their usual folders and the summary stands beside them. As with folders, one that
    stands there gets a numbered sibling, unless its runs were resumed or overwritten. A run that
    fails leaves the others alone; a signal ends all of them, each after saving.

    Args:
        request: What to train.
        seeds: The seeds, each once.
        jobs: Runs at a time; more than one take processes of their own.
        after: Called when a run has ended; the outcome is None for one in another process.
        observer: Receives start and end of each run in this process.

    Raises:
        UsageError: a seed is given twice, or a run should be resumed.
        ConfigError: the config is wrong; nothing was begun.
    """
    seeds = tuple(seeds)
    _check(request, seeds)
    base = compile_request(replace(request, seed=seeds[0])).exp_name
    requests = [
        replace(request, seed=seed, exp_name=None if base is None else f"{base}/seed_{seed}")
        for seed in seeds
    ]
    ended: list[SeedRun] = []
    for run, outcome in _in_turn(requests, observer) if jobs == 1 else _at_a_time(requests, jobs):
        ended.append(run)
        after(run, outcome)
    ended.sort(key=lambda run: seeds.index(run.seed))
    file = _summary_file(base, ended)
    again = request.exist in ("resume", "overwrite")
    series = Series(ended, seeds, file if again else _free(file))
    series.write()
    return series


def _check(request: TrainRequest, seeds: tuple[int, ...]) -> None:
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise UsageError(f"seed {twice[0]} is given twice: it would be the same run")
    if not seeds:
        raise UsageError("a series needs at least one seed")
    if request.resume is not None:
        raise UsageError(
            "a resumed run has its seed", hint="resume one at a time, or say --exist resume"
        )


def _in_turn(
    requests: Sequence[TrainRequest], observer: LaunchObserver | None
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    for request in requests:
        assert request.seed is not None
        try:
            outcome = launch(request, observer=observer)
        except Exception as error:
            yield SeedRun.failed(request.seed, error), None
            continue
        yield SeedRun.of(request.seed, outcome), outcome
        if outcome.exit_code:
            return


def _at_a_time(
    requests: Sequence[TrainRequest], jobs: int
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    from dicore_tools.multi_seed.process_pool import (
        Jobs,  # late: multiprocessing is needed for this alone
    )

    with Jobs(jobs) as pool:
        for run in pool.run(requests):
            yield run, None


def _summary_file(base: str | None, runs: Sequence[SeedRun]) -> Path:
    if base is not None:
        return Path(base) / "summary.json"
    folder = next((Path(run.folder) for run in runs if run.folder is not None), None)
    if folder is None:
        return Path("runs/summary.json")
    stem = re.sub(r"_s\d+(-\d+)?$", "", folder.name)
    return folder.with_name(f"{stem}_summary.json")


def _free(file: Path) -> Path:
    """Returns the first of `x.json`, `x-1.json`, `x-2.json`, … that is not there."""
    siblings = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(1))
    return next(path for path in chain([file], siblings) if not path.exists())
