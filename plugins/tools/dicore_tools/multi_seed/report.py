"""Output of `dicore train -s 0 -s 1 -s 2`: a line per run and a summary table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dicore.cli.train import Announcer
from dicore.console import is_quiet, number, say, write_table
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.launch import Outcome, TrainRequest, launch
from dicore_tools.commands.output import write_json
from dicore_tools.multi_seed.process_pool import SeedRun
from dicore_tools.multi_seed.series import Series, run_series
from dicore_tools.preset_versions import shown
from dicore_tools.reports.run_data import read_run

if TYPE_CHECKING:
    from dicore_tools.json_output.written import Trained

__all__ = ["train_seeds"]

_HEADER = ("SEED", "BEST {}", "ENV STEPS", "UPDATES", "WALL", "STATUS", "FOLDER")
_NUMBERS = range(5)


def train_seeds(
    request: TrainRequest,
    seeds: Sequence[int],
    jobs: int,
    *,
    together: bool = False,
    as_json: bool = False,
) -> int:
    """Trains one run per seed, prints the results and returns the exit code.

    Args:
        request: What to train.
        seeds: The seeds.
        jobs: Number of seeds to train in parallel.
        together: Train all at once in this process.
        as_json: Print one JSON object, or a list of them for several seeds, and all other lines to
            standard error; there may be one seed, or none.
    """
    if as_json:
        from dicore_tools.json_output.standard_output import to_standard_error

        with to_standard_error():
            code, told = _trained(request, seeds, jobs, together=together)
        write_json(told)
        return code
    return _series(request, seeds, jobs, together=together).exit_code


def _trained(
    request: TrainRequest, seeds: Sequence[int], jobs: int, *, together: bool
) -> tuple[int, Trained | list[Trained]]:
    """Trains, and returns the exit code and what `--json` prints."""
    if len(seeds) > 1 or together:
        series = _series(request, seeds, jobs, together=together)
        return series.exit_code, [*map(_facts, series.runs)]
    outcome = launch(request, observer=Announcer())
    run = SeedRun.of(seeds[0] if seeds else 0, outcome)
    return outcome.exit_code, _facts(run)


def _facts(run: SeedRun) -> Trained:
    """Returns what `--json` prints of a run; a run that failed to start has no folder."""
    facts: Trained = {
        "run": None, "status": run.status, "ending": run.status, "error": run.error,
        "env": "", "policy": "", "preset": "", "seed": run.seed, "env_step": 0, "train_iter": 0,
        "wall_s": 0.0, "best_return": None, "last_return": None, "checkpoint": None,
        "measure": "return", "best": None,
    }  # fmt: skip
    if run.folder is None:
        return facts
    found = read_run(RunFolder.open(run.folder))
    curve, (env_step, train_iter, wall_s) = found.curve(), found.progress
    seed, checkpoints = found.record.get("seed"), found.folder.checkpoints
    checkpoint = CheckpointStore(checkpoints).best_or_latest()
    if run.status == "done":
        facts["ending"] = "stop value" if found.result.get("stop") else "budget"
    facts["run"], facts["env_step"], facts["train_iter"] = run.folder, env_step, train_iter
    facts["env"], facts["policy"] = found.type_of("env"), found.type_of("policy")
    facts["preset"] = shown(str(found.record.get("preset") or ""))
    facts["seed"] = seed if isinstance(seed, int) else run.seed
    facts["wall_s"], facts["best_return"] = wall_s, found.best_return
    facts["last_return"] = None if curve is None else float(curve.y[-1])
    facts["measure"], facts["best"] = found.measure, found.result.get("best_return")
    if checkpoint is not None:
        facts["checkpoint"] = str(checkpoints / checkpoint)
    return facts


def _series(request: TrainRequest, seeds: Sequence[int], jobs: int, *, together: bool) -> Series:
    """Trains one run per seed and prints the results."""
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
        head = [each.format(_words(series.measure).upper()) for each in _HEADER]
        write_table(head, [*map(_row, series.runs), *_totals(series)], _NUMBERS)
    say(_last_line(series), result=True)
    return series


def _say_result(run: SeedRun, outcome: Outcome | None) -> None:
    if run.status == "failed":
        _say_error(run, outcome)
    else:
        say(f"seed {run.seed}: {_status(run)}, best {_cells(run.result)[0]}")


def _say_error(run: SeedRun, outcome: Outcome | None) -> None:
    if run.error:
        with suppress(OSError):  # other seeds are not done
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


def _words(measure: str) -> str:
    return measure.replace("_", " ")


def _last_line(series: Series) -> str:
    best = series.summary().get("best_return")
    returns = "no returns"
    if best is not None:
        median, mean, std = (number(best[name]) for name in ("median", "mean", "std"))
        returns = f"median {median}, mean {mean} ± {std}"
    seeds = f"{len(series.runs)} seed{'s' * (len(series.runs) != 1)}"
    return (
        f"best mean {_words(series.measure)} of {seeds}: {returns};"
        f" solved {series.solved} of {len(series.seeds)}; {series.file}"
    )
