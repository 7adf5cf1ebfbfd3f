"""Trains with several seeds, one run folder per seed, and summarises the results.

A single run is not representative: seeds can differ more than algorithms (Henderson et al. 2018,
arXiv:1709.06560).
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path

from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore.run.launch import LaunchObserver, Outcome, TrainRequest, compile_request, launch
from dicore_tools.multi_seed.process_pool import ProcessPool, SeedRun

__all__ = ["SUMMARIZED", "SeedRun", "Series", "run_series"]

SUMMARIZED = ("best_return", "env_step", "train_iter", "wall_s")
"""Values of a run's result that the summary aggregates."""


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of several seeds.

    Args:
        runs: One per started seed, in the order of the seeds.
        seeds: All requested seeds.
        file: The summary file (JSON).
        measure: What `best_return` is of: `return`, `win_rate` or `reward_per_step`.
    """

    runs: list[SeedRun]
    seeds: tuple[int, ...]
    file: Path
    measure: str = "return"

    @property
    def solved(self) -> int:
        """Number of runs that reached the stop value."""
        return sum(bool(run.result.get("stop")) for run in self.runs)

    @property
    def exit_code(self) -> int:
        """Exit code of the first run that failed or was interrupted; 130 if some did not start."""
        otherwise = 130 if len(self.runs) < len(self.seeds) else 0
        return next((run.exit_code for run in self.runs if run.exit_code), otherwise)

    def summary(self) -> dict[str, dict[str, float]]:
        """Returns `median mean std min max` of each value, over the runs that have it.

        `std` is the sample standard deviation (n - 1); 0 for one run.
        """
        summary = {}
        for name in SUMMARIZED:
            values = [run.result[name] for run in self.runs if run.result.get(name) is not None]
            if values:
                summary[name] = {
                    "median": float(statistics.median(values)),
                    "mean": float(statistics.fmean(values)),
                    "std": float(statistics.stdev(values)) if len(values) > 1 else 0.0,
                    "min": float(min(values)),
                    "max": float(max(values)),
                }
        return summary

    def write(self) -> None:
        """Writes the summary file.

        Raises:
            UsageError: the file cannot be written.
        """
        content = {
            "seeds": list(self.seeds),
            "solved": self.solved,
            "measure": self.measure,
            "summary": self.summary(),
            "runs": [asdict(run) for run in self.runs],
        }
        text = json.dumps(content, indent=2, ensure_ascii=False)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.file, text.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise UsageError(f"cannot write {self.file}: {error.strerror or error}") from error


def run_series(
    request: TrainRequest,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    together: bool = False,
    after: Callable[[SeedRun, Outcome | None], None] = lambda run, outcome: None,
    observer: LaunchObserver | None = None,
) -> Series:
    """Trains one run per seed.

    With `exp_name` DIR, the run folders are `DIR/seed_0`, …, and the summary is
    `DIR/summary.json`; otherwise the summary is next to the run folders. If the summary file
    exists, a number is appended to its name, unless the runs were resumed or overwritten. If a run
    fails, the other seeds still train; a signal makes all runs save and stop.

    Args:
        request: What to train.
        seeds: The seeds, without duplicates.
        jobs: Number of seeds to train in parallel, one process each; 1: in this process.
        together: Train all at once in this process, as one batched network.
        after: Called after each run; the outcome is None if the run had its own process.
        observer: Receives start and end of each run in this process.

    Raises:
        UsageError: a seed is given twice, or `request` resumes a run.
        ConfigError: the config is invalid, or cannot be trained together; no run was started.
    """
    seeds = tuple(seeds)
    _check(request, seeds, apart=together and jobs > 1)
    first = compile_request(replace(request, seed=seeds[0]))
    base = first.exp_name
    requests = [
        replace(request, seed=seed, exp_name=None if base is None else f"{base}/seed_{seed}")
        for seed in seeds
    ]
    ended: list[SeedRun] = []
    if together:
        runs = _together(requests, observer)
    else:
        runs = _in_turn(requests, observer) if jobs == 1 else _in_parallel(requests, jobs)
    for run, outcome in runs:
        ended.append(run)
        after(run, outcome)
    ended.sort(key=lambda run: seeds.index(run.seed))
    file = _summary_file(base, ended)
    reuse = request.exist in ("resume", "overwrite")
    measure = str(first.policy.eval.evaluator.get("measure", "return"))
    series = Series(ended, seeds, file if reuse else _unused(file), measure)
    series.write()
    return series


def _check(request: TrainRequest, seeds: tuple[int, ...], *, apart: bool) -> None:
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if repeated:
        raise UsageError(f"seed {repeated[0]} is given twice", hint="give each seed once")
    if apart:
        raise UsageError(
            "seeds are trained together in one process, or in several",
            hint="leave out --together or --jobs",
        )
    if not seeds:
        raise UsageError("no seeds given", hint="give at least one seed")
    if request.resume is not None:
        raise UsageError(
            "cannot resume a run with several seeds",
            hint="resume one run at a time, or use --exist resume",
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


def _together(
    requests: Sequence[TrainRequest], observer: LaunchObserver | None
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    if find_spec("dicore_plugins") is None:
        text = "--together updates the networks of dicore-plugins, which is not installed"
        raise UsageError(text, hint="pip install dicore-plugins")
    from dicore_tools.together.series import train_together

    return train_together(requests, observer)


def _in_parallel(
    requests: Sequence[TrainRequest], jobs: int
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    with ProcessPool(jobs) as pool:
        for _request, run in pool.run(requests):
            yield run, None


def _summary_file(base: str | None, runs: Sequence[SeedRun]) -> Path:
    if base is not None:
        return Path(base) / "summary.json"
    folder = next((Path(run.folder) for run in runs if run.folder is not None), None)
    if folder is None:
        return Path("runs/summary.json")
    stem = re.sub(r"_s\d+(-\d+)?$", "", folder.name)
    return folder.with_name(f"{stem}_summary.json")


def _unused(file: Path) -> Path:
    """Returns the first of `x.json`, `x-1.json`, `x-2.json`, … that does not exist."""
    siblings = (file.with_name(f"{file.stem}-{number}{file.suffix}") for number in count(1))
    return next(path for path in chain([file], siblings) if not path.exists())
