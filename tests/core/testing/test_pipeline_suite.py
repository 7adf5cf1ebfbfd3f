"""The pipeline contract: a good pipeline passes, and each check catches a planted fault."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest

import pytest

from dicore.errors import ConfigError
from dicore.run.random import seed_everything
from dicore.task import task
from dicore.testing.pipeline import PipelineContract

from .faults import Fault, broken, names_of
from .test_policy_suite import GoodPolicy


class Model:
    """What the toy below trains."""

    weight = 0


class GoodPipeline:
    """Counts to its budget; what stands for a network is a number."""

    def run(self, compiled: Any, run: Any, *, model: Any = None) -> Any:
        policy = self.policy(compiled, Model() if model is None else model)
        with task.start():
            task.use(lambda ctx: self.step(run, policy))
            task.run(max_step=self.steps(compiled))
        self.finish(run)
        return policy

    def policy(self, compiled: Any, model: Any) -> Any:
        seed_everything(compiled.seed)
        policy = GoodPolicy()
        policy.get_attribute = lambda name: model  # type: ignore[method-assign]
        policy.modes["learn"] = policy.make_learn()
        model.weight += 1
        return policy

    def step(self, run: Any, policy: Any) -> None:
        run.result.env_step += 8
        run.result.train_iter += 1
        policy.weight += 1.5

    def steps(self, compiled: Any) -> int:
        return -(-compiled.budget // 8)

    def finish(self, run: Any) -> None:
        (run.folder / "ckpt" / "final").mkdir(parents=True)


def no_model(self: Any, compiled: Any, run: Any) -> Any: ...


def returns_nothing(self: Any, compiled: Any, run: Any, *, model: Any = None) -> Any:
    GoodPipeline.run(self, compiled, run, model=model)


def says_solved(self: Any, run: Any) -> None:
    GoodPipeline.finish(self, run)
    run.result.stop = True


def by_clock(self: Any, compiled: Any, model: Any) -> Any:
    policy = GoodPipeline.policy(self, compiled, model)
    policy.weight += secrets.randbelow(2**20)
    return policy


def one_seed(self: Any, compiled: Any, model: Any) -> Any:
    return GoodPipeline.policy(self, SimpleNamespace(seed=0), model)


def a_copy(self: Any, compiled: Any, model: Any) -> Any:
    copy = Model()
    copy.weight = model.weight
    return GoodPipeline.policy(self, compiled, copy)


def leaves_the_task(self: Any, compiled: Any, run: Any, *, model: Any = None) -> Any:
    policy = GoodPipeline.run(self, compiled, run, model=model)
    task.start()
    return policy


def leaves_a_thread(self: Any, run: Any) -> None:
    GoodPipeline.finish(self, run)
    threading.Thread(target=threading.Event().wait, args=(0.2,), daemon=True).start()


def swallows(self: Any, compiled: Any, run: Any, *, model: Any = None) -> Any:
    try:
        return GoodPipeline.run(self, compiled, run, model=model)
    except AttributeError:
        return None


def stays_in_the_task(self: Any, compiled: Any, run: Any, *, model: Any = None) -> Any:
    task.start()
    policy = self.policy(compiled, Model() if model is None else model)
    task.stop()
    run.result.env_step, run.result.train_iter = 400, 1
    self.finish(run)
    return policy


FAULTS: list[Fault] = [
    ("has_the_methods", {"run": no_model}),
    ("trains_within_its_budget", {"run": returns_nothing}),
    ("trains_within_its_budget", {"finish": says_solved}),
    ("trains_within_its_budget", {"finish": lambda self, run: None}),
    ("trains_within_its_budget", {"steps": lambda self, compiled: 10}),
    ("trains_within_its_budget", {"steps": lambda self, compiled: 1000}),
    ("same_seed_same_result", {"policy": by_clock}),
    ("same_seed_same_result", {"policy": one_seed}),
    ("trains_the_given_model", {"policy": a_copy}),
    ("ends_its_tasks_and_threads", {"run": leaves_the_task}),
    ("ends_its_tasks_and_threads", {"finish": leaves_a_thread}),
    ("errors_propagate", {"run": swallows}),
    ("errors_propagate", {"run": stays_in_the_task}),
]
PLANTED = {PipelineContract: [check for check, _ in FAULTS]}


class Contract(PipelineContract):
    """Trains the toy: no config, no environment."""

    pipeline: type[Any] = GoodPipeline

    def make(self) -> Any:
        return self.pipeline()

    def train(self, place: Path, *, seed: int = 0, model: Any = None, stop: bool = False) -> Any:
        result = SimpleNamespace(stop=False, env_step=0, train_iter=0)
        run = SimpleNamespace(result=result, folder=place / "run")
        compiled = SimpleNamespace(seed=seed, budget=1 if stop else self.budget)
        return SimpleNamespace(policy=self.make().run(compiled, run, model=model), run=run)


class TestGoodPipeline(Contract):
    """The contract as a stranger inherits it."""


@pytest.fixture(autouse=True)
def no_task_is_left() -> Any:
    yield
    task.stop()


@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
def test_each_check_catches_its_fault(fault: Fault) -> None:
    check, members = fault
    suite = type("Planted", (Contract,), {"pipeline": broken(GoodPipeline, members)})
    with pytest.raises((AssertionError, AttributeError)):
        getattr(suite(), f"test_{check}")()


@pytest.mark.parametrize("accepted", ["acrobot", "cartpole", None])
def test_it_is_tried_with_a_preset_that_it_accepts(accepted: str | None) -> None:
    """Not with the first one: what the pipeline checks decides."""

    class Choosy(GoodPipeline):
        def check(self, compiled: Any) -> None:
            assert compiled.cfg.policy.model.obs_shape, "the config is bound"
            if compiled.cfg.env.type != accepted:
                raise ConfigError("pipeline.type: it trains something else")

    class Chosen(Contract):
        pipeline = Choosy

        def configs(self) -> Any:
            for name in ("no_such_env", "cartpole", "acrobot"):
                yield {"env": {"type": name}, "policy": {"type": "dqn"}}

    if accepted is None:
        with pytest.raises(SkipTest, match="accepts none"):
            Chosen().config()
    else:
        assert Chosen().config()["env"]["type"] == accepted
