"""FEATURES E17: the classes of first-party components lead back to their registered names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_contrib_envs")

from dicore import build, evaluate, get
from dicore.config import default_config
from dicore.errors import ConfigError, UnknownComponentError, UsageError
from dicore.run.launch import launch
from dicore_compat.entry import compile_config
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.collectors.sample.collector import SampleCollector
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.evaluators.interaction.evaluator import InteractionEvaluator
from dicore_plugins.learners.base.learner import BaseLearner
from dicore_plugins.models import DQN
from dicore_plugins.pipelines.serial.offline import OfflinePipeline
from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline
from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
from dicore_plugins.policies.value.dqn import DQNPolicy

CLASSES: dict[str, type] = {
    "policy": DQNPolicy, "model": DQN, "env_manager": BaseEnvManager, "learner": BaseLearner,
    "collector": SampleCollector, "evaluator": InteractionEvaluator, "buffer": NaiveReplayBuffer,
    "pipeline": SerialPipeline,
}  # fmt: skip
MAIN = {"env": "cartpole", "policy": "dqn"}


class Wider(DQN):
    """A network of one's own."""


def test_a_run_of_classes_is_evaluated_and_resumed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiled = compile_config(
        {"env": "cartpole", "exp_name": "x", "pipeline": {"max_env_step": 200, "logger": []}},
        **CLASSES,
    )
    named = compile_config(MAIN)
    wanted = {path: facts["type"] for path, facts in named.components.items()}
    found = {path: facts["type"] for path, facts in compiled.components.items()}
    assert found == {path: name for path, name in wanted.items() if path in found}
    launch(compiled)
    assert evaluate("x", n_episode=1).checkpoint
    assert launch(resume="x", max_env_step=400).exit_code == 0


@pytest.mark.parametrize(
    ("part", "cls", "name"),
    [
        ("pipeline", OnPolicyPipeline, "serial_onpolicy"),
        ("pipeline", OfflinePipeline, "serial_offline"),
    ],
)
def test_other_classes(part: str, cls: type, name: str) -> None:
    compiled = compile_config(MAIN, **{part: cls})
    assert {"pipeline": compiled.pipeline, "model": compiled.policy.model}[part].type == name


def test_a_network_derived_from_a_named_one_is_itself() -> None:
    shapes = ["policy.model.obs_shape=4", "policy.model.action_shape=2"]
    compiled = compile_config(MAIN, model=Wider, overrides=["policy.model.dueling=true", *shapes])
    assert compiled.policy.model is not None
    assert compiled.policy.model.type == f"{__name__}:Wider"
    assert type(build("model", compiled.policy.model)) is Wider


def test_components_are_built_by_name() -> None:
    """E25."""
    assert build("buffer", "naive").replay_buffer_size == 10_000
    options = {"type": "naive", "replay_buffer_size": 3}
    assert build("buffer", options).replay_buffer_size == 3
    section = compile_config(MAIN).policy.other.replay_buffer
    assert type(build("buffer", section)) is NaiveReplayBuffer
    assert default_config(get("buffer", "naive"))["replay_buffer_size"] == 10_000


@pytest.mark.parametrize(
    ("cfg", "error"),
    [
        ("nave", UnknownComponentError),
        ({}, UsageError),
        ({"type": "naive", "replay_bufer_size": 3}, ConfigError),
    ],
)
def test_what_cannot_be_built_is_said(cfg: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        build("buffer", cfg)


def test_the_command_mode_may_be_enabled() -> None:
    """B3."""
    policy = DQNPolicy({}, DQN(4, 2), enable_field=["command"])
    assert policy.command_mode.get_setting_collect({"envstep": 0})
