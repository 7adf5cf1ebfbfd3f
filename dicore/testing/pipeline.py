"""The contract of pipelines (`IPipeline`): training ends and is reproducible."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dicore.config import bind, compile_config
from dicore.errors import ConfigError, DicoreError, EnvError
from dicore.interfaces.pipeline import IPipeline, SupportsCheck
from dicore.interfaces.policy import IPolicy
from dicore.run.env_factory import spec_of
from dicore.task import task
from dicore.testing.compare import copied, difference
from dicore.testing.suite import Suite, expect, folder, refuses, skip

__all__ = ["PipelineContract"]


class PipelineContract(Suite):
    """Conformance suite of pipelines: subclass it and override `make` and `config`."""

    budget = 400
    """Env steps of each training."""
    overrides: Sequence[str] = ("env.stop_value=inf", "pipeline.logger=[]")
    """Overrides of all trainings."""

    def make(self) -> Any:
        """Returns a pipeline (`IPipeline`)."""
        return self.registered.build()

    def configs(self) -> Iterator[dict[str, object]]:
        """Yields configs to try: the registered presets."""
        registry = self.registered.registry
        for entry in registry.entries("preset"):
            if entry.status == "ok":
                yield dict(registry.load(entry))

    def config(self) -> dict[str, Any]:
        """Returns a config to train: the first of `configs` that the pipeline accepts."""
        for config in self.configs():
            if self.accepts(config):
                return config
        return skip("it accepts none of the installed presets; override config()")

    def accepts(self, config: dict[str, object]) -> bool:
        """Returns whether the pipeline can train a config, by its `check`; see `SupportsCheck`."""
        pipeline = self.make()
        try:
            compiled = compile_config(config, overrides=[*self._mode(), *self.overrides])
            if isinstance(pipeline, SupportsCheck):
                pipeline.check(bind(compiled, spec_of(compiled.env, 0)))
        except (ConfigError, EnvError):
            return False
        return True

    def train(self, place: Path, *, seed: int = 0, model: Any = None, stop: bool = False) -> Any:
        """Trains for `budget` env steps in a folder.

        Returns:
            `dicore.run.launch.Outcome`.
        """
        from dicore.run.launch import launch

        limit = 1 if stop else self.budget
        return launch(
            self.config(),
            model=model,
            seed=seed,
            exp_name=str(place / "run"),
            max_env_step=limit,
            overrides=[*self._mode(), *self.overrides],
        )

    def test_has_the_methods(self) -> None:
        """It satisfies `IPipeline`: `run(compiled, run, *, model=None)`."""
        pipeline = self.make()
        expect(isinstance(pipeline, IPipeline), f"{type(pipeline).__name__} has no run")
        try:
            inspect.signature(pipeline.run).bind(None, None, model=None)
        except TypeError as error:
            expect(False, f"run does not accept (compiled, run, model=None): {error}")

    def test_trains_within_its_budget(self) -> None:
        """Training ends at the budget, returns the policy, and sets the result."""
        with folder() as place:
            outcome = self.train(place)
            result = outcome.run.result
            expect(isinstance(outcome.policy, IPolicy), f"it returns {outcome.policy!r}")
            expect(result.stop is False, "its result says that stop_value was reached")
            near = self.budget <= result.env_step < 1.5 * self.budget + 100
            expect(near, f"budget: {self.budget} env steps, made: {result.env_step}")
            expect(result.train_iter > 0, "it made no update")
            expect((place / "run" / "ckpt" / "final").is_dir(), "it saved no final checkpoint")

    def test_same_seed_same_result(self) -> None:
        """The same seed gives identical parameters, another seed does not."""
        states = []
        for seed in (0, 0, 1):
            with folder() as place:
                states.append(copied(self.train(place, seed=seed).policy.learn_mode.state_dict()))
        wrong = difference(states[0], states[1])
        expect(not wrong, f"the same seed gave other parameters: {wrong}")
        expect(difference(states[0], states[2]), "another seed gave the same parameters")

    def test_trains_the_given_model(self) -> None:
        """It trains the given model, not a copy."""
        with folder() as place:
            first = self.train(place, stop=True).policy.learn_mode.get_attribute("model")
        with folder() as place:
            second = self.train(place, model=first, stop=True).policy
            expect(second.learn_mode.get_attribute("model") is first, "it trained another model")

    def test_ends_its_tasks_and_threads(self) -> None:
        """After training, no task is running, and its threads have ended."""
        before = set(threading.enumerate())
        with folder() as place:
            self.train(place, stop=True)
        expect(not task.running, "the task is still running")
        left = set(threading.enumerate()) - before
        expect(not left, f"threads left: {[each.name for each in left]}")

    def test_errors_propagate(self) -> None:
        """Exceptions of parts propagate, and the next training works."""

        class Broken:
            """Not a model."""

        wrong = (AttributeError, TypeError, DicoreError)
        with folder() as place, refuses(wrong, "training a broken model"):
            self.train(place, model=Broken(), stop=True)
        expect(not task.running, "the task is still running after an error")
        with folder() as place:
            self.train(place, stop=True)

    def _mode(self) -> list[str]:
        if self.component is None:
            return []
        return [f"pipeline.type={self.component.entry.qualified}"]
