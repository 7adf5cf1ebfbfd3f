"""Plans a training: what it takes as it is, and what other options change, as measured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from dicore.config import Compiled
from dicore.run.launch import TrainRequest, compile_request
from dicore.run.signals import StopFlag, stop_on_signals
from dicore_tools.planning.trial import COLLECTORS, Trial, measure

__all__ = ["WORTH", "Plan", "make_plan"]

WORTH: Final = 1.15
"""Speed-up from which on a change is recommended: less may be noise."""
_MUCH: Final = 0.2
"""Share of the time from which on a part is worth a trial."""
_LONG: Final = 10**12
_MORE: Final = 4.0
"""How much longer collectors are measured, whose processes take some seconds to begin."""
_ENVS: Final = "env.collector_env_num"
_SAMPLES: Final = "policy.collect.n_sample"
_MANAGER: Final = "env.manager.type"
_THREADS: Final = "pipeline.num_threads"
_BUFFER: Final = "policy.other.replay_buffer.replay_buffer_size"
_WARM_UP: Final = "policy.collect.random_collect_size"
_QUIET: Final[Mapping[str, Any]] = {
    "env.stop_value": 1e300,
    "pipeline.final_eval": False,
    "pipeline.logger": [],
    "policy.eval.evaluator.eval_freq": _LONG,
    "policy.eval.evaluator.eval_at_start": False,
}
"""Options of a measurement, where the config has them: no evaluation, no loggers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was measured of a config.

    Args:
        compiled: The config.
        trials: As it is, then with changes, in the order of the measurements.
        max_env_step: Budget in env steps; None: there is none.
        max_train_iter: Budget in updates; None: there is none.
        not_measured: Changes that a signal left out: all that follow; or the fastest one, whose
            second measurement it ended.
    """

    compiled: Compiled
    trials: tuple[Trial, ...]
    max_env_step: int | None
    max_train_iter: int | None
    not_measured: tuple[Mapping[str, Any], ...] = ()

    @property
    def base(self) -> Trial:
        """The config as it is."""
        return self.trials[0]

    @property
    def best(self) -> Trial | None:
        """The fastest change, which was measured twice; None: there is none, or it was not."""
        return None if self.not_measured else self.fastest

    @property
    def fastest(self) -> Trial | None:
        """The fastest change that is worth it; None: there is none."""
        better = [
            each for each in self.trials[1:] if self.speedup(each) >= WORTH and not each.refuted
        ]
        return max(better, key=self.speedup, default=None)

    def speedup(self, trial: Trial) -> float:
        """Returns how much faster a trial trains than the config as it is.

        The rate is that of env steps; of updates where none are collected.
        """
        if self.base.env_steps_per_s:
            return trial.env_steps_per_s / self.base.env_steps_per_s
        return trial.updates_per_s / self.base.updates_per_s if self.base.updates_per_s else 0.0

    def seconds_of(self, trial: Trial) -> float | None:
        """Returns the time to the budget without evaluations; None: there is no budget."""
        found = [
            budget / rate
            for budget, rate in (
                (self.max_env_step, trial.env_steps_per_s),
                (self.max_train_iter, trial.updates_per_s),
            )
            if budget is not None and rate
        ]
        return min(found, default=None)

    @property
    def buffer_bytes(self) -> float:
        """Memory of the full replay buffer; 0: there is none."""
        return self.base.sample_bytes * (option(self.compiled, _BUFFER) or 0)

    @property
    def bottleneck(self) -> str:
        """The part of `PARTS` that takes the most time; "" if it was not measured."""
        return max(self.base.parts, key=self.base.share, default="")


def option(compiled: Compiled, path: str) -> Any:
    """Returns the value of an option of a config; None if it has no such option."""
    found: Any = compiled.cfg
    for key in path.split("."):
        try:
            found = found[key]
        except (KeyError, TypeError):
            return None
    return found


def make_plan(
    request: TrainRequest,
    *,
    seconds: float,
    compare: bool = True,
    said: Callable[[Trial], None] = lambda trial: None,
    begun: Callable[[Mapping[str, Any], float], None] = lambda changes, seconds: None,
) -> tuple[Plan, int]:
    """Measures a config, and changes that its bottleneck suggests.

    Args:
        request: The training.
        seconds: Time of each measurement, from its first step on.
        compare: Also measure changes.
        said: Is called with each trial.
        begun: Is called before each measurement, with its changes and its seconds.

    Returns:
        The plan, and the exit code of the signal that ended it; 0: none did.

    Raises:
        ConfigError: the config is invalid.
    """
    compiled = compile_request(request)
    limits = compiled.pipeline
    quiet = {path: value for path, value in _QUIET.items() if option(compiled, path) is not None}
    warm_up, batch = option(compiled, _WARM_UP), option(compiled, "policy.learn.batch_size")
    if warm_up and batch:
        quiet[_WARM_UP] = min(warm_up, batch)
    trials: list[Trial] = []
    left: list[Mapping[str, Any]] = []
    flag = StopFlag()
    numbers = count()
    with tempfile.TemporaryDirectory(prefix="dicore-plan-") as folder, stop_on_signals(flag):

        def tried(changes: Mapping[str, Any]) -> Trial:
            length = seconds * (_MORE if COLLECTORS in changes else 1.0)
            begun(changes, length)
            return measure(
                _with(request, {**quiet, **changes}), changes, seconds=length,
                folder=Path(folder) / str(next(numbers)), flag=flag,
            )  # fmt: skip

        def add(changes: Mapping[str, Any]) -> None:
            trial = None if flag else tried(changes)
            if trial is None or flag:
                left.append(changes)
                return
            trials.append(trial)
            said(trial)

        add({})
        if compare and trials and not trials[0].problem:
            for changes in _changes(compiled, trials[0]):
                add(changes)
            left += _confirm(compiled, trials, tried, flag)
    if not trials:
        trials = [Trial(problem="stopped")]
    budgets = limits.get("max_env_step"), limits.get("max_train_iter")
    return Plan(compiled, tuple(trials), *budgets, tuple(left)), flag.exit_code


def _confirm(
    compiled: Compiled,
    trials: list[Trial],
    tried: Callable[[Mapping[str, Any]], Trial],
    flag: StopFlag,
) -> list[Mapping[str, Any]]:
    """Measures the config and its best change once more, as other work of the machine may pass.

    Both count with the sums of their measurements. A change that is not faster in the second pair,
    too, is not recommended; the next best one is tried then, until the best was measured twice.

    Returns:
        The change whose second measurement a signal ended; empty if none did.
    """
    while (best := Plan(compiled, tuple(trials), None, None).best) and not best.twice:
        place = trials.index(best)
        pair = [Trial(problem="stopped") if flag else tried(trials[i].changes) for i in (0, place)]
        if flag:
            return [best.changes]
        faster = not any(each.problem for each in pair)
        if faster:
            for number, again in zip((0, place), pair, strict=True):
                trials[number] = trials[number].with_another(again)
            faster = Plan(compiled, tuple(pair), None, None).speedup(pair[1]) > 1
        if not faster:
            trials[place] = replace(trials[place], refuted=True)
    return []


def _with(request: TrainRequest, changes: Mapping[str, Any]) -> TrainRequest:
    """Returns a request with other options, without a budget."""
    mode = "parallel" if COLLECTORS in changes else request.mode
    nested = [{path: value} for path, value in changes.items()]
    return replace(
        request, mode=mode, max_env_step=_LONG, max_train_iter=None, own_process=False,
        overrides=[*request.overrides, *nested], exist="new",
    )  # fmt: skip


def _changes(compiled: Compiled, base: Trial) -> Iterator[Mapping[str, Any]]:
    """Yields the changes that the measurement of the config suggests."""
    cores = os.cpu_count() or 1
    envs, manager = option(compiled, _ENVS), option(compiled, _MANAGER)
    stepping, acting = base.share("environments"), base.share("acting")
    if base.env_steps and stepping + acting >= _MUCH and envs:
        yield from ({_ENVS: each} for each in (2 * envs, 4 * envs) if _fits(compiled, each))
    if stepping >= _MUCH and manager == "base" and cores > 1 and envs:
        yield {_MANAGER: "sync_subprocess"}
        if _fits(compiled, more := max(envs, 4 * cores)):
            yield {_MANAGER: "sync_subprocess", _ENVS: more}
    elif stepping >= _MUCH and manager in ("sync_subprocess", "async_subprocess"):
        yield {_MANAGER: "base"}
    if base.share("learning") >= _MUCH and cores > 1:
        threads = option(compiled, _THREADS) or 1
        for number in sorted({2, cores}):
            if number != threads:
                yield {_THREADS: number}
    if base.env_steps and cores > 2 and not compiled.policy.on_policy:
        yield {COLLECTORS: min(cores - 1, 4)}


def _fits(compiled: Compiled, envs: int) -> bool:
    """Returns whether a collect of so many environments, stepped together, drops no sample."""
    samples = option(compiled, _SAMPLES)
    return samples is None or samples % envs == 0
