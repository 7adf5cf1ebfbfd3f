"""Output of `dicore train -s 0 -s 1 -s 2`: a line per run and a summary table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dicore.cli.train import Announcer
from dicore.console import is_quiet, number, say, write_table
from dicore.run.launch import Outcome, TrainRequest
from dicore_tools.multi_seed.process_pool import SeedRun
from dicore_tools.multi_seed.series import Series, run_series

__all__ = ["train_seeds"]

_HEADER = ("SEED", "BEST RETURN", "ENV STEPS", "UPDATES", "WALL", "STATUS", "FOLDER")
_NUMBERS = range(5)


def train_seeds(
    request: TrainRequest, seeds: Sequence[int], jobs: int, *, together: bool = False
) -> int:
    """Trains one run per seed, prints the results and returns the exit code.

    Args:
        request: What to train.
        seeds: The seeds.
        jobs: Number of seeds to train in parallel.
        together: Train all at once in this process.
    """
    announced = jobs == 1 and not is_quiet()  # the runs print their own results
    if jobs > 1:
        say(f"training {len(seeds)} seeds ({', '.join(map(str, seeds))}), {jobs} in parallel")
    series = run_series(
        replace(request, own_process=announced),
        seeds,
        jobs=jobs,
        together=together,
        after=_say_error if announced else _say_result,
        observer=Announcer() if announced else None,
    )
    if not is_quiet():
        say("")
        write_table(_HEADER, [*map(_row, series.runs), *_totals(series)], _NUMBERS)
    say(_last_line(series), result=True)
    return series.exit_code


def _say_result(run: SeedRun, outcome: Outcome | None) -> None:
    if run.status == "failed":
        _say_error(run, outcome)
    else:
        say(f"seed {run.seed}: {_status(run)}, best mean return {_cells(run.result)[0]}")


def _say_error(run: SeedRun, outcome: Outcome | None) -> None:
    if run.error:
        say(f"seed {run.seed}: {run.error}", result=True)


def _row(run: SeedRun) -> tuple[str, ...]:
    return (str(run.seed), *_cells(run.result), _status(run), run.folder or "")


def _status(run: SeedRun) -> str:
    if run.status != "done":
        return run.status
    return "solved" if run.result["stop"] else "budget spent"


def _totals(series: Series) -> list[tuple[str, ...]]:
    summary = series.summary()
    rows: list[tuple[str, ...]] = []
    for measure in ("median", "mean", "std"):
        numbers = {name: values[measure] for name, values in summary.items()}
        rows.append((measure, *_cells(numbers), "", ""))
    return rows


def _cells(result: dict[str, Any]) -> tuple[str, str, str, str]:
    """Formats best return, env steps, updates and seconds; "" for missing values."""
    formats = {"best_return": number, "env_step": "{:.0f}".format,
               "train_iter": "{:.0f}".format, "wall_s": "{:.1f}".format}  # fmt: skip
    cells = ["" if result.get(name) is None else how(result[name]) for name, how in formats.items()]
    best, steps, updates, wall = cells
    return best, steps, updates, f"{wall} s" if wall else ""


def _last_line(series: Series) -> str:
    best = series.summary().get("best_return")
    returns = "no returns"
    if best is not None:
        median, mean, std = (number(best[name]) for name in ("median", "mean", "std"))
        returns = f"median {median}, mean {mean} ± {std}"
    return (
        f"best mean return of {len(series.runs)} seed{'s' * (len(series.runs) != 1)}: {returns};"
        f" solved {series.solved} of {len(series.seeds)}; {series.file}"
    )
