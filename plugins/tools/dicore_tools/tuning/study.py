"""Runs the trials of a study, each a training in its own run folder, with Optuna."""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config.writer import saved_tree
from dicore.console import plural, say
from dicore.errors import (
    ConfigError,
    DicoreError,
    MissingDependencyError,
    RunLockedError,
    UsageError,
)
from dicore.run.atomic import read_regular
from dicore.run.folder import RunLock
from dicore.run.launch import TrainRequest, compile_request, described, launch
from dicore_registry.explain import brief
from dicore_tools.reports.run_data import leaves
from dicore_tools.tuning.space import Dimension, combinations, space_problems

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.run.run import Run

__all__ = ["OBJECTIVES", "PRUNERS", "SAMPLERS", "Plan", "load", "reading", "tune"]

OBJECTIVES = ("final", "best", "area")
SAMPLERS = ("tpe", "random", "gp", "cmaes", "qmc")
PRUNERS = ("none", "median", "hyperband")
_RETURN = "evaluator/return_mean"
_FAILURES = 3
"""So many failed trials before any success end the study: the mistake is in all of them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study searches.

    Args:
        request: The training, without the options of the space.
        space: The options to set.
        folder: Folder of the study.
        trials: Number of trials, with those of earlier starts.
        seeds: Trainings per trial; their values are averaged.
        objective: `final`: last evaluation; `best`: highest one; `area`: mean over the training.
        sampler: How values are chosen.
        pruner: How bad trials are ended early.
        grid: Try all combinations once.
        jobs: Number of processes.
    """

    request: TrainRequest
    space: tuple[Dimension, ...]
    folder: Path
    trials: int = 20
    seeds: int = 1
    objective: str = "final"
    sampler: str = "tpe"
    pruner: str = "none"
    grid: bool = False
    jobs: int = 1
    first_seed: int = field(default=0)

    def facts(self) -> dict[str, Any]:
        """What a study keeps, and what a second start must agree with."""
        return {
            "space": [each.text for each in self.space],
            "seeds": self.seeds,
            "objective": self.objective,
            "grid": self.grid,
            "seed": self.first_seed,
        }


def optuna() -> Any:
    """Returns the package optuna.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingDependencyError(
            "dicore tune needs optuna", hint="pip install 'dicore-tools[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("optuna").setLevel(logging.WARNING)
    return optuna


def load(folder: Path) -> Any:
    """Returns the study of a folder.

    Raises:
        UsageError: there is none, or its log is damaged.
    """
    file = folder / "study.log"
    if not file.is_file():
        raise UsageError(f"{folder}: no study", hint="dicore tune PRESET --space … -o FOLDER")
    package, begun = optuna(), _folders(folder)
    with reading(file):
        study = package.load_study(study_name="dicore", storage=_storage(file))
        _check_log(study, begun, file)
        return study


def _folders(folder: Path) -> list[str]:
    """Returns the names of the folders of trials, which are made after their lines in the log."""
    found = (each.name for each in folder.glob("trial_*") if each.is_dir())
    return sorted(name for name in found if name[6:].isdecimal())


def _check_log(study: Any, begun: Sequence[str], file: Path) -> None:
    """Refuses a log without trials that have a folder: they would be run again, and replaced."""
    known = len(study.get_trials(deepcopy=False))
    if lost := [name for name in begun if int(name[6:]) >= known]:
        raise UsageError(
            f"{file}: damaged: it was cut off, and does not have {', '.join(lost[:5])}",
            hint="restore it from a copy; dicore plot and report show the runs of the trials",
        )


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Makes any error of what the log of a study holds a UsageError: it may be a stranger's."""
    try:
        yield
    except DicoreError:
        raise
    except Exception as error:
        is_cut = isinstance(error, KeyError) and "Record does not exist" in str(error)
        why = "it is empty or was cut off" if is_cut else brief(error)
        raise UsageError(
            f"{file}: not the log of a study of dicore: {why}",
            hint="name another folder: -o FOLDER",
        ) from error


def tune(plan: Plan) -> Any:
    """Runs the trials that a study lacks, and returns the study of Optuna.

    A study that was interrupted or killed goes on: its finished trials count, and those that were
    running are run again with the same values. SIGINT ends the running trainings, which are saved.

    Raises:
        UsageError: the folder holds a study of another space, or all first trials failed.
        ConfigError: the config is wrong without the options of the space.
    """
    package = optuna()
    _check(plan)
    with _only_start(plan.folder):
        file, folders = plan.folder / "study.log", _folders(plan.folder)
        with reading(file):
            _end_at_a_line(file)
            study = package.create_study(
                study_name="dicore", storage=_storage(file), direction="maximize",
                load_if_exists=True,
            )  # fmt: skip
            _check_log(study, folders, file)
            _agree(study, plan)
            _again(study)
            begun = sum(each.state.name != "WAITING" for each in study.get_trials(deepcopy=False))
        if plan.jobs == 1:
            _work(plan, 0, begun)
        else:
            _in_processes(plan, begun)
    return load(plan.folder)


def _end_at_a_line(file: Path) -> None:
    """Removes what a killed process had written of its last line."""
    if not os.path.lexists(file):
        return
    text = read_regular(file)
    whole = text.rfind(b"\n") + 1
    if whole and whole < len(text):
        with file.open("r+b") as opened:
            opened.truncate(whole)


@contextmanager
def _only_start(folder: Path) -> Iterator[None]:
    """Makes and locks the folder of a study: a second start would take running trials for killed.

    Raises:
        UsageError: the folder cannot be made or is of a run, or another process runs the study.
    """
    if (folder / "run.json").is_file():
        raise UsageError(f"{folder} is the folder of a run", hint="name another folder: -o FOLDER")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = RunLock(folder)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror or error}") from None
    except RunLockedError:
        raise UsageError(
            f"{folder}: another process runs this study", hint="--jobs N runs N trials at a time"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _check(plan: Plan) -> None:
    """Compiles the config with values of each option, so that misspelt ones are found now."""
    if plan.grid:
        combinations(plan.space)
    problems = space_problems(plan.request, plan.space)
    if problems:
        raise ConfigError(problems)


def _storage(file: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with reading(file):
        if os.path.lexists(file):
            read_regular(file)
        return JournalStorage(JournalFileBackend(str(file)))


def _sampler(plan: Plan, worker: int, begun: int) -> Any:
    """Returns the sampler of a process; after `begun` trials another one than that of the first."""
    samplers = optuna().samplers
    seed = (plan.first_seed + 1000 * worker + 100_003 * begun) % 2**32
    if plan.grid:
        return samplers.RandomSampler(seed=seed)  # the points are queued
    make: dict[str, Callable[[], Any]] = {
        "tpe": lambda: samplers.TPESampler(seed=seed, constant_liar=plan.jobs > 1),
        "random": lambda: samplers.RandomSampler(seed=seed),
        "gp": lambda: samplers.GPSampler(seed=seed),
        "cmaes": lambda: samplers.CmaEsSampler(seed=seed),
        "qmc": lambda: samplers.QMCSampler(seed=plan.first_seed),  # counts in the study
    }
    return make[plan.sampler]()


def _pruner(plan: Plan) -> Any:
    pruners = optuna().pruners
    make: dict[str, Callable[[], Any]] = {
        "none": pruners.NopPruner,
        "median": lambda: pruners.MedianPruner(n_startup_trials=5),
        "hyperband": pruners.HyperbandPruner,
    }
    return make[plan.pruner]()


def _agree(study: Any, plan: Plan) -> None:
    """Stores what the study searches, or compares it."""
    facts, config = plan.facts(), _config(plan)
    known = {**facts, **study.user_attrs.get("plan", {}), **study.user_attrs.get("config", {})}
    for name, value in {**facts, **config}.items():
        if known.get(name, value) != value:
            raise UsageError(
                f"{plan.folder}: its study has another {name}: {known.get(name)}, not {value}",
                hint="go on with the same, or name another folder: -o FOLDER",
            )
    study.set_user_attr("config", config)
    study.set_user_attr("plan", facts)
    if "points" not in study.user_attrs:
        points = combinations(plan.space) if plan.grid else []
        for point in points[len(study.get_trials(deepcopy=False)) :]:  # a start may be killed here
            study.enqueue_trial(_as_params(plan, point))
        study.set_user_attr("points", len(points))


def _config(plan: Plan) -> dict[str, str]:
    """Returns the options that all trials have, as texts by path."""
    compiled = compile_request(plan.request)
    free = {"exp_name", "seed", *(each.path for each in plan.space)}
    tree = saved_tree(compiled)
    return {path: repr(value) for path, value in leaves(tree) if path not in free}


def _as_params(plan: Plan, point: Mapping[str, object]) -> dict[str, object]:
    choices = {each.path for each in plan.space if each.kind == "choice"}
    return {path: json.dumps(v) if path in choices else v for path, v in point.items()}


def _again(study: Any) -> None:
    """Queues the trials again that a killed start left running."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def _in_processes(plan: Plan, begun: int) -> None:
    """Runs one process per job; each takes the next trial until there are enough."""
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=_work, args=(plan, worker, begun, os.getpid()), name=f"tune-{worker}"
        )
        for worker in range(plan.jobs)
    ]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join()
    except KeyboardInterrupt:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGINT)
        for process in processes:
            process.join()
        raise
    finally:
        for process in processes:
            process.close()


def _work(plan: Plan, worker: int, begun: int, parent: int | None = None) -> None:
    """Runs trials until the study has enough."""
    study = optuna().load_study(
        study_name="dicore", storage=_storage(plan.folder / "study.log"),
        sampler=_sampler(plan, worker, begun), pruner=_pruner(plan),
    )  # fmt: skip
    while _left(study, plan) > 0:
        if parent is not None and os.getppid() != parent:
            return
        trial = _Trial(study, plan)
        if trial.is_surplus() or not trial.run():
            return


def _left(study: Any, plan: Plan) -> int:
    """Returns how many trials are still to be begun.

    Raises:
        UsageError: the first trials have all failed.
    """
    trials = study.get_trials(deepcopy=False)
    good = sum(each.state.name in ("COMPLETE", "PRUNED") for each in trials)
    errors = [each.user_attrs.get("error", "") for each in trials if "error" in each.user_attrs]
    if not good and len(errors) >= _FAILURES:
        raise UsageError(f"the first {len(errors)} trials failed: {errors[-1]}")
    if plan.grid:
        return sum(each.state.name == "WAITING" for each in trials)
    return plan.trials - sum(map(_counts, trials))


def _counts(trial: Any) -> bool:
    """Returns whether a trial is one of those that were asked for."""
    return trial.state.name in ("COMPLETE", "PRUNED", "RUNNING") or "error" in trial.user_attrs


class _Trial:
    """One trial: trainings with several seeds, in `folder/trial_0007/seed_0`."""

    def __init__(self, study: Any, plan: Plan) -> None:
        self._study, self._plan = study, plan
        self._trial = study.ask()
        self._values = {each.path: each.suggest(self._trial) for each in plan.space}
        self._folder = plan.folder / f"trial_{self._trial.number:04d}"

    def is_surplus(self) -> bool:
        """Returns whether other processes have begun enough trials before; it is then given up."""
        from optuna.trial import TrialState

        before = self._study.get_trials(deepcopy=False)[: self._trial.number]
        if self._plan.grid or sum(map(_counts, before)) < self._plan.trials:
            return False
        self._study.tell(self._trial, state=TrialState.FAIL)
        return True

    def run(self) -> bool:
        """Runs it; returns False if a signal ended it."""
        from optuna.trial import TrialState

        begun = time.monotonic()
        scores: list[float] = []
        for seed in range(self._plan.seeds):
            watch = _Watch(self._trial if seed == 0 else None, self._plan.objective)
            try:
                outcome = launch(self._request(seed), observer=watch)
            except Exception as error:  # a policy may raise anything for such values
                self._trial.set_user_attr("error", described(error))
                self._study.tell(self._trial, state=TrialState.FAIL)
                say(f"trial {self._trial.number}: failed: {error}")
                return True
            if outcome.exit_code:
                self._study.tell(self._trial, state=TrialState.FAIL)
                self._study.enqueue_trial(self._trial.params)
                return False
            if watch.pruned:
                self._told(TrialState.PRUNED, watch.score, outcome, begun)
                return True
            scores.append(watch.score)
        self._told(TrialState.COMPLETE, sum(scores) / len(scores), outcome, begun)
        return True

    def _told(self, state: Any, score: float, outcome: Any, begun: float) -> None:
        from optuna.trial import TrialState

        seconds = time.monotonic() - begun
        for name, value in (
            ("env_step", outcome.run.result.env_step), ("seconds", seconds), ("score", score),
        ):  # fmt: skip
            self._trial.set_user_attr(name, value)
        complete = state is TrialState.COMPLETE
        self._study.tell(self._trial, score if complete else None, state=state)
        with suppress(ValueError):
            best = self._study.best_trial
            say(
                f"trial {self._trial.number}: {score:.4g}{'' if complete else ', ended early'} "
                f"in {plural(outcome.run.result.env_step, 'env step')}, {seconds:.0f} s; "
                f"best: {best.value:.4g} (trial {best.number})"
            )

    def _request(self, seed: int) -> TrainRequest:
        overrides = [f"{path}={json.dumps(value)}" for path, value in self._values.items()]
        request = self._plan.request
        return replace(
            request,
            overrides=[*request.overrides, *overrides],
            seed=self._plan.first_seed + seed,
            exp_name=str(self._folder / f"seed_{self._plan.first_seed + seed}"),
            exist="overwrite",
        )


class _Watch:
    """Receives the returns of a training's evaluations, or what they measure in their place.

    It ends a training that is to be pruned: it observes it and is a logger of its run.
    """

    def __init__(self, trial: Any | None, objective: str) -> None:
        self._trial, self._objective = trial, objective
        self._returns: list[tuple[int, float]] = []
        self._run: Any = None
        self._tag = _RETURN
        self.pruned = False

    @property
    def score(self) -> float:
        """The value of the training; -inf before the first evaluation."""
        if not self._returns:
            return -math.inf
        values = [value for _, value in self._returns]
        if self._objective == "final":
            return values[-1]
        return max(values) if self._objective == "best" else self._mean()

    def _mean(self) -> float:
        """Returns the mean return over the training, each evaluation until the next one.

        A training that reached its stop value keeps the last return until the budget is spent.
        """
        limits = self._run.limits
        steps = [step for step, _ in self._returns]
        end = limits.max_env_step or steps[-1]
        ends = [*steps[1:], max(end, steps[-1])]
        spans = [stop - start for start, stop in zip(steps, ends, strict=True)]
        values = [value for _, value in self._returns]
        if not sum(spans):
            return values[-1]
        return sum(v * s for v, s in zip(values, spans, strict=True)) / sum(spans)

    def started(self, run: Run, request: Any, compiled: Compiled, header: Sequence[str]) -> None:
        """Listens to the metrics of the run."""
        self._run = run
        measure = compiled.policy.eval.evaluator.get("measure", "return")
        self._tag = _RETURN if measure == "return" else f"evaluator/{measure}"
        run.log.add(self)

    def ended(self, run: Run, profile: object) -> None:
        """Does nothing."""

    def nothing_to_do(self, run: Run, reason: str) -> None:
        """Does nothing."""

    def open(self, target: object) -> None:
        """Does nothing: there is no file."""

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Reports the return of an evaluation."""
        if self._tag not in scalars:
            return
        value = float(scalars[self._tag])
        self._returns.append((env_step, value if math.isfinite(value) else -math.inf))
        if self._trial is None or self.pruned:
            return
        self._trial.report(self.score, env_step)
        if self._trial.should_prune():
            self.pruned = True
            self._run.stop.request()

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Does nothing."""

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
