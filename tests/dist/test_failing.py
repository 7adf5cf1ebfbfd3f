"""`-m dist` with a process that fails as it begins: the run ends and says which, what and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dicore.errors import DicoreError
from dicore.run.launch import launch

FAILS = """
from threading import current_thread, main_thread

import gymnasium
from dicore.interfaces.hook import LearnerHook


class Fails(LearnerHook):
    def __init__(self, name="fails", *, priority=5, position="after_iter"):
        super().__init__(name, position=position, priority=priority)
        if position == "before_iter" and current_thread() is not main_thread():  # a config is tried
            raise OSError("not to be built")

    def __call__(self, engine):
        raise OSError("not to be begun")


class NoStep(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        raise OSError("not to be stepped")
"""
PPO = {
    "type": "ppo",
    "model": {"encoder_hidden_size_list": [16]},
    "learn": {"batch_size": 16, "epoch_per_collect": 1},
    "collect": {"n_sample": 32},
}


def config_of(start: str, learner: Any, env: str = "cartpole") -> dict[str, Any]:
    """Returns a training of on-policy rounds, in which all wait for all."""
    system = {"start": start, "collector_num": 1, "max_restarts": 1}
    return {
        "env": {"type": env, "collector_env_num": 2, "evaluator_env_num": 1,
                "n_evaluator_episode": 1, "stop_value": 500.0, "manager": {"restart_budget": 0}},
        "policy": {**PPO, "learn": {**PPO["learn"], "learner": learner}},  # type: ignore[dict-item]
        "pipeline": {"type": "dist", "logger": [], "system": system},
    }  # fmt: skip


def error_of(tmp_path: Path, *given: Any) -> DicoreError:
    with pytest.raises(DicoreError) as raised:
        launch(config=config_of(*given), exp_name=str(tmp_path / "run"), max_train_iter=100)
    return raised.value


@pytest.mark.parametrize(
    ("start", "position", "text"),
    [
        ("threads", "before_iter", "not to be built"),
        ("threads", "before_run", "not to be begun"),
        ("threads", "after_iter", "not to be begun"),
        ("processes", "before_run", "not to be begun"),
    ],
)
def test_a_learner_that_fails_as_it_begins_ends_the_run(
    tmp_path: Path, start: str, position: str, text: str
) -> None:
    """While it is built, before it has published parameters, in its first update."""
    file = tmp_path / "fails.py"
    file.write_text(FAILS)
    hook = {"type": f"{file}:Fails", "position": position}
    error = error_of(tmp_path, start, {"hook": [hook]})
    log = tmp_path / "run" / "log" / "learner0" / "output.txt"
    assert error.message == f"learner0: OSError: {text}, 2 times in a row"
    assert error.hint == f"see {log}"
    assert f'fails.py", line {FAILS[: FAILS.index(text)].count(chr(10)) + 1}' in log.read_text()


def test_a_hook_that_fails_after_the_last_update_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "fails.py"
    file.write_text(FAILS)
    hook = {"type": f"{file}:Fails", "position": "after_run"}
    tree = config_of("threads", {"hook": [hook]})
    launch(config=tree, exp_name=str(tmp_path / "run"), max_train_iter=2)
    assert "the learner failed after its last update: not to be begun" in caplog.text
    log = tmp_path / "run" / "log" / "learner0" / "output.txt"
    assert "OSError: not to be begun" in log.read_text()


@pytest.mark.parametrize("start", ["threads", pytest.param("processes", marks=pytest.mark.soak)])
def test_a_collector_that_fails_as_it_begins_ends_the_run(tmp_path: Path, start: str) -> None:
    file = tmp_path / "fails.py"
    file.write_text(FAILS)
    error = error_of(tmp_path, start, {}, f"{file}:NoStep")
    log = tmp_path / "run" / "log" / "collector0" / "output.txt"
    assert error.message.startswith("collector0: EnvStepError: env 0")
    assert error.message.endswith(", 2 times in a row")
    assert f"see {log}" in error.hint
    assert "OSError: not to be stepped" in log.read_text()
