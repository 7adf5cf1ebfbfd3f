"""The training of one seed as a generator: it pauses where it would update the networks.

Everything but the update is the seed's own: environments, samples, random streams, logs,
checkpoints. So its run folder is that of a run alone.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Generator, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from dicore.console import labelled
from dicore.interfaces.policy import LearnMode
from dicore.run.launch import Outcome, prepare, recorded
from dicore.run.random import seeded
from dicore.run.request import nothing_left
from dicore.run.signals import StopFlag
from dicore.task import StepInterrupted, Task
from dicore.task.middleware import Middleware, Role
from dicore_plugins.middleware.learn import OffPolicyLearner
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.training import TrainingPipeline

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.hookspecs.manager import Plugins
    from dicore.run.folder import RunFolder
    from dicore.run.launch import LaunchObserver, TrainRequest
    from dicore.run.signals import StopNow

__all__ = ["Ask", "Generators", "Plan", "SeedTraining", "alone"]


class Ask(NamedTuple):
    """A request for updates.

    Args:
        data: The batch, or all samples of a collect.
        settings: Annealed settings of the learn mode.
    """

    data: Any
    settings: Mapping[str, float]


class Plan(NamedTuple):
    """What is known of the training of a seed before its run folder is made."""

    request: TrainRequest
    compiled: Compiled
    pipeline: TrainingPipeline
    folder: RunFolder | None
    changes: Mapping[str, str]


class Generators:
    """The process's global random generators, which each seed has in its own state.

    They are exchanged only where a seed runs code that may draw from them: an exchange takes as
    long as a small update.
    """

    def __init__(self) -> None:
        self._owner: SeedTraining | None = None

    def lend(self, owner: SeedTraining | None) -> None:
        """Stores the state for its present owner, and restores that of another one."""
        if owner is self._owner:
            return
        if self._owner is not None:
            self._owner.generators = _state()
        if owner is not None and owner.generators is not None:
            random.setstate(owner.generators[0])
            np.random.set_state(owner.generators[1])  # noqa: NPY002 - other packages draw from it
            torch.set_rng_state(owner.generators[2])
        self._owner = owner


def _state() -> tuple[Any, Any, torch.Tensor]:
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - as above
    return random.getstate(), numpy, torch.get_rng_state()


class SeedTraining:
    """The training of one seed, which others continue with its updates.

    Args:
        plan: What to train.
        plugins: Those of the process.
        generators: Shared by all seeds.
        observer: Receives start and end.

    Attributes:
        flag: Stops it at the end of a step.
        mode: The learn mode of its policy.
        outcome: How it ended; None: it did not, or failed.
        stopped: The second signal that ended it.
        ask: The updates that it waits for; None: it has ended.
    """

    def __init__(
        self,
        plan: Plan,
        plugins: Plugins,
        generators: Generators,
        observer: LaunchObserver | None = None,
    ) -> None:
        self.plan = plan
        self._plugins, self._observer, self._shared = plugins, observer, generators
        self.flag = StopFlag()
        self.generators: tuple[Any, Any, torch.Tensor] | None = None
        self.mode: Any = None
        self.outcome: Outcome | None = None
        self.stopped: StopNow | None = None
        self.ask: Ask | None = None
        self._answers: list[Any] = []
        self._context = copy_context()
        self._steps = self._train()

    @property
    def seed(self) -> int:
        """The seed."""
        return self.plan.compiled.seed

    def advance(self, answer: Any = None) -> None:
        """Runs up to the next request for updates, or to the end.

        Args:
            answer: Results of those that it waited for.
        """
        self._resume(lambda: self._steps.send(answer))

    def throw(self, error: BaseException) -> None:
        """Raises an error where it waits."""
        self._resume(lambda: self._steps.throw(error))

    def _resume(self, how: Callable[[], Ask]) -> None:
        self.ask = None
        try:
            with labelled(f"seed {self.seed}: "):
                self.ask = self._context.run(how)
        except StopIteration as end:
            self.outcome = end.value

    def _train(self) -> Generator[Ask, Any, Outcome]:
        """Does what `dicore.run.launch.launch` does, with pauses."""
        _, compiled, pipeline, folder, changes = self.plan
        self._shared.lend(self)
        with seeded(compiled.seed) as streams:
            run = prepare(compiled, self.plan.request, folder, self._plugins, changes, streams)
            if folder is not None and (reason := nothing_left(run)):
                run.abandon()
                if self._observer is not None:
                    self._observer.nothing_to_do(run, reason)
                return Outcome(None, run, 0)
            run.stop = self.flag
            policy = None
            with recorded(run, self._plugins, signals=False) as stopped:
                self._plugins.call("dicore_run_started", run=run)
                if self.plan.request.own_process:
                    run.at_first_step(gc.freeze)  # see `dicore.run.launch`
                    run.at_first_step(gc.enable)
                if self._observer is not None:
                    header = self._plugins.lines("dicore_report_header", run=run)
                    self._observer.started(
                        run, self.plan.request, compiled, [*changes.values(), *header]
                    )
                loop = Task()
                with pipeline.training(compiled, run, loop=loop) as parts:
                    policy = parts.policy
                    if not pipeline.has_ended(parts, run):
                        yield from self._loop(loop, parts)
                    self._shared.lend(self)
            self.stopped = stopped[0] if stopped else None
            if self._observer is not None:
                self._observer.ended(run, None)
        return Outcome(policy, run, 128 + stopped[0].number if stopped else run.stop.exit_code)

    def _loop(self, loop: Task, parts: Parts) -> Generator[Ask, Any, None]:
        """Runs steps until the task finishes; see `Task.run`."""
        self.mode = parts.learner.policy
        parts.learner.policy = self.mode._replace(forward=self._answered)
        specs = loop.parts
        at = next(i for i, each in enumerate(specs) if getattr(each.fn, "role", "") == Role.LEARNER)
        learn: Any = specs[at].fn
        while not loop.finish:
            if loop.spent:
                loop.renew()
            loop.spent = True
            self._shared.lend(self)
            try:
                loop.run_parts(specs[:at], loop.ctx)
                yield from self._learn(learn, loop.ctx, parts)
                self._shared.lend(self)
                loop.run_parts(specs[at + 1 :], loop.ctx)
                loop.backward()
            except StepInterrupted:
                loop.finish, loop.spent = True, False

    def _learn(self, learn: Middleware, ctx: Any, parts: Parts) -> Generator[Ask, Any, None]:
        """Runs the updates of a step: others compute the results, the learner sees to the rest."""
        counts = {"envstep": ctx.env_step, "learner_step": ctx.train_iter}
        settings = parts.policy.command_mode.get_setting_learn(counts)
        if not isinstance(learn, OffPolicyLearner):
            data = ctx.trajectories if ctx.train_data is None else ctx.train_data
            if data is not None:
                self._answers.append((yield Ask(data, settings)))
            learn(ctx)
            return
        outputs: list[Any] = []
        for data in learn.batches(ctx):
            self._answers.append((yield Ask(data, settings)))
            outputs += learn.learner.train(data, ctx.env_step, settings)
        ctx.train_output, ctx.train_iter = outputs, learn.learner.train_iter

    def _answered(self, data: Any, **_: object) -> Any:
        """Stands in for the learn mode's forward: the results are there already."""
        return self._answers.pop()


def alone(mode: LearnMode, ask: Ask) -> Any:
    """Runs the updates of one seed by its own learn mode."""
    return mode.forward(ask.data, **ask.settings)
