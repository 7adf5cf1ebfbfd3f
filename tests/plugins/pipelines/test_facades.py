"""Training calls nothing of a part but what its Protocol names.

Every part stands behind an object that has the names of its Protocol and no others; a training with
them, saved and resumed in between, gives the numbers of one without them.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

from dicore.interfaces.buffer import IBuffer
from dicore.interfaces.collector import ISerialCollector
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.interfaces.hook import ILearnerHook
from dicore.interfaces.learner import ILearner
from dicore.interfaces.logger import ILogger
from dicore.interfaces.middleware import IMiddleware
from dicore.interfaces.policy import CollectMode, CommandMode, EvalMode, IPolicy, LearnMode
from dicore.run.launch import launch
from dicore.run.log import LogHub
from dicore.testing.suite import members_of
from dicore_plugins.learners import BaseLearner
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.pipelines.training import TrainingPipeline

CONTRACTS: dict[str, type[Any]] = {
    "collector_env": IEnvManager,
    "evaluator_env": IEnvManager,
    "policy": IPolicy,
    "collector": ISerialCollector,
    "evaluator": ISerialEvaluator,
    "learner": ILearner,
    "buffer": IBuffer,
}
MODES: dict[str, type[Any]] = {
    "learn_mode": LearnMode,
    "collect_mode": CollectMode,
    "eval_mode": EvalMode,
    "command_mode": CommandMode,
}
UPDATES = 96


def facade(part: Any, contract: type[Any]) -> Any:
    """Returns an object with the names of `contract` and nothing else."""
    names = {*(getattr(contract, "_fields", None) or members_of(contract))}
    modes: dict[str, Any] = {}

    class Facade:
        def __getattr__(self, name: str) -> Any:
            if name not in names:
                raise AttributeError(f"{contract.__name__} does not name '{name}'")
            value = getattr(part, name)
            return modes.setdefault(name, facade(value, MODES[name])) if name in MODES else value

        def __setattr__(self, name: str, value: Any) -> None:
            assert name in names, f"{contract.__name__} does not name '{name}'"
            setattr(part, name, value)

    for special in ("__call__", "__len__"):
        if special in names:
            setattr(Facade, special, lambda self, *args, name=special: getattr(part, name)(*args))
    return Facade()


def stand_behind_facades(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Puts all parts of later trainings behind facades; returns the roles seen, as they come."""
    seen: set[str] = set()

    def hidden(part: Any, contract: type[Any]) -> Any:
        seen.add(contract.__name__)
        return facade(part, contract)

    def replace(owner: Any, name: str, contract: type[Any]) -> None:
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda self, each: original(self, hidden(each, contract)))

    for name, contract in CONTRACTS.items():
        make = Parts.__dict__[name].func
        built = cached_property(lambda self, make=make, it=contract: hidden(make(self), it))
        built.__set_name__(Parts, name)
        monkeypatch.setattr(Parts, name, built)
    registered = Parts._registered
    monkeypatch.setattr(
        Parts,
        "_registered",
        lambda self, name, part, **kw: registered(self, name, facade(part, CONTRACTS[name]), **kw),
    )
    replace(BaseLearner, "register_hook", ILearnerHook)
    replace(LogHub, "add", ILogger)
    listed = TrainingPipeline.middleware
    monkeypatch.setattr(
        TrainingPipeline,
        "middleware",
        lambda self, parts: [hidden(each, IMiddleware) for each in listed(self, parts)],
    )
    return seen


def train(updates: int, **options: Any) -> torch.Tensor:
    outcome = launch(max_train_iter=updates, **options)
    model = outcome.policy.learn_mode.state_dict()["model"]
    return torch.cat([value.reshape(-1) for value in model.values()])


def test_serial_uses_what_the_protocols_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wishes: dict[str, Any] = {
        "env": "cartpole",
        "policy": "dqn",
        "seed": 1,
        "overrides": [
            "env.stop_value=inf",
            "pipeline.logger=['tensorboard']",
            "policy.nstep=2",
            "policy.collect.n_sample=32",
            "policy.collect.random_collect_size=64",
            "policy.learn.update_per_collect=4",
            "policy.eval.evaluator.eval_freq=40",
            'policy.learn.learner.hook={"log_show_after_iter": 20, "save_ckpt_after_iter": 40}',
        ],
    }
    plain = train(UPDATES, exp_name=str(tmp_path / "plain"), **wishes)
    seen = stand_behind_facades(monkeypatch)
    train(UPDATES // 2, exp_name=str(tmp_path / "hidden"), **wishes)
    resumed = train(UPDATES, resume=str(tmp_path / "hidden"))
    assert torch.equal(plain, resumed)
    roles = {each.__name__ for each in CONTRACTS.values()}
    assert seen == roles | {"ILearnerHook", "ILogger", "IMiddleware"}
    assert list((tmp_path / "hidden" / "ckpt").glob("iteration_*"))
