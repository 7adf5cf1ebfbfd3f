"""Trains several seeds of one config in one process, whose networks are updated at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dicore.errors import ConfigError
from dicore.hookspecs.manager import load_plugins
from dicore.run.launch import (
    LaunchObserver,
    Outcome,
    TrainRequest,
    build_pipeline,
    compile_for,
    only_training,
)
from dicore.run.request import resumed_folder
from dicore.run.signals import StopFlag, StopNow, stop_on_signals
from dicore_tools.multi_seed.process_pool import SeedRun
from dicore_tools.together.learning import JointLearner, fits
from dicore_tools.together.supported import joint_learner, problems
from dicore_tools.together.training import Generators, Plan, SeedTraining, alone

__all__ = ["train_together"]


def train_together(
    requests: Sequence[TrainRequest], observer: LaunchObserver | None = None
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    """Yields the result of each seed when it ends, and its outcome; None: it failed.

    A seed that fails or reaches its stop value ends; the others go on. A signal stops all.

    Args:
        requests: One for each seed, equal otherwise.
        observer: Receives start and end of each.

    Raises:
        ConfigError: the config is wrong, or cannot be trained so; no run folder was made.
    """
    with only_training(requests[0]):
        plugins = load_plugins()
        plans = []
        for request in requests:
            folder = resumed_folder(request)
            compiled, changes = compile_for(request, folder, plugins)
            if found := list(problems(compiled, request)):
                lines = [f"{path}: {problem}" for path, problem in found]
                raise ConfigError(lines, hint="leave out --together; --jobs N trains in processes")
            pipeline: Any = build_pipeline(compiled, plugins)  # what `problems` lets pass
            plans.append(Plan(request, compiled, pipeline, folder, changes))
        generators = Generators()
        seeds = [SeedTraining(plan, plugins, generators, observer) for plan in plans]
        with stop_on_signals(_AllFlags([seed.flag for seed in seeds])):
            yield from _train(seeds, generators)


class _AllFlags(StopFlag):
    """Passes a request to stop on to every seed; a seed may also be stopped alone."""

    def __init__(self, flags: Sequence[StopFlag]) -> None:
        super().__init__()
        self._flags = flags

    def request(self, number: int | None = None) -> None:
        """Stops all seeds; see `StopFlag.request`."""
        super().request(number)
        for flag in self._flags:
            flag.request(number)


def _train(
    seeds: Sequence[SeedTraining], generators: Generators
) -> Iterator[tuple[SeedRun, Outcome | None]]:
    live, updates = list(seeds), _Updates()
    answers: dict[SeedTraining, object] = {}
    problem: Exception | None = None
    try:
        while live:
            for seed in tuple(live):
                ended = _go_on(seed, answers.get(seed), problem)
                if ended is not None:
                    live.remove(seed)
                    yield ended
                if seed.stopped is not None:
                    raise seed.stopped
            try:
                answers = updates.make(live)
            except Exception as error:
                problem = error  # of all: it ends them
    except StopNow as stop:
        for seed in live:
            ended = _go_on(seed, None, StopNow(stop.number))
            if ended is not None:
                yield ended
    finally:
        generators.lend(None)


def _go_on(
    seed: SeedTraining, answer: object, problem: BaseException | None
) -> tuple[SeedRun, Outcome | None] | None:
    """Lets a seed go on, with an answer or an error; returns its result if it ends."""
    try:
        seed.advance(answer) if problem is None else seed.throw(problem)
    except StopNow:
        if problem is None:
            raise
        return None  # it had not begun
    except Exception as error:
        return SeedRun.failed(seed.seed, error), None
    if seed.outcome is None:
        return None
    return SeedRun.of(seed.seed, seed.outcome), seed.outcome


class _Updates:
    """Makes the updates that seeds wait for: of all networks at once if their batches allow it."""

    def __init__(self) -> None:
        self._learner: JointLearner | None = None
        self._seeds: list[SeedTraining] = []

    def make(self, seeds: Sequence[SeedTraining]) -> dict[SeedTraining, object]:
        """Returns the results of each seed."""
        asks = [seed.ask for seed in seeds if seed.ask is not None]
        if len(seeds) < 2 or not fits([ask.data for ask in asks]):
            return {seed: alone(seed.mode, ask) for seed, ask in zip(seeds, asks, strict=True)}
        if self._learner is None or self._seeds != list(seeds):
            self._seeds = list(seeds)
            self._learner = joint_learner([seed.mode for seed in seeds])
        found = self._learner.update([ask.data for ask in asks], [ask.settings for ask in asks])
        return dict(zip(seeds, found, strict=True))
