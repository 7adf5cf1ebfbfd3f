"""Running episodes are brought back by the state of environments that can save it."""

from __future__ import annotations

import copy
import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.cli import main
from dicore_plugins.env_managers import (
    AsyncEnvManager,
    BaseEnvManager,
    SyncSubprocessManager,
    ThreadEnvManager,
)
from dicore_plugins.env_managers.replay import state_of

from .toy_envs import CountEnv, rollout


class Saves(CountEnv):
    """No two episodes are equal, and each step draws a number; it can save its state."""

    def __init__(self, tag: int = 0) -> None:
        super().__init__(tag, length=9)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**kwargs)
        self.drawn = float(np.random.default_rng().random())
        return self.show(), {}

    def step(self, action: Any) -> Any:
        self.drawn += float(self.np_random.random())
        return super().step(action)

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count, "drawn": np.array([self.drawn])}

    def set_state(self, state: Any) -> None:
        self.count, self.drawn = state["count"], float(state["drawn"][0])


class Forgets(Saves):
    def set_state(self, state: Any) -> None:
        raise ValueError("no memory")


class OfPhysics(Saves):
    def set_state(self, positions: Any, velocities: Any) -> None:  # type: ignore[override]
        """As MuJoCo's."""


in_step = partial(AsyncEnvManager, cfg={"reset_inplace": True, "step_wait_timeout": 9.0})
KINDS = [BaseEnvManager, ThreadEnvManager, SyncSubprocessManager, in_step]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_state_is_brought_back(kind: Any) -> None:
    with closing(kind([Saves, CountEnv])) as manager, closing(kind([Saves, CountEnv])) as twin:
        for each in (manager, twin):
            each.seed(1)
            each.launch()
        rollout(manager, 4)
        state = copy.deepcopy(manager.state_dict())
        assert state["running"][0]["actions"] is None
        assert len(state["running"][1]["actions"]) == 4
        twin.load_state_dict(state)
        assert twin.brought_back
        for theirs, ours in zip(rollout(manager, 5), rollout(twin, 5), strict=True):
            for env_id in range(2):
                assert theirs[env_id][0].tolist() == ours[env_id][0].tolist()
                assert theirs[env_id][1:] == ours[env_id][1:], "also length and return at the end"


@pytest.mark.parametrize("make", [Forgets, lambda: gymnasium.Wrapper(Saves()), OfPhysics])
def test_what_cannot_be_brought_back_begins_anew(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    manager = BaseEnvManager([make])
    manager.launch()
    rollout(manager, 4)
    twin = BaseEnvManager([make])
    twin.load_state_dict(copy.deepcopy(manager.state_dict()))
    twin.launch()
    assert not twin.brought_back
    assert ("its state cannot be restored: ValueError: no memory" in caplog.text) is (
        make is Forgets
    )
    assert "env 0 does not repeat its episode" in caplog.text
    assert rollout(twin, 1)[0][0][0][3] == 1


def test_only_an_environment_that_saves_all_has_a_state() -> None:
    env = Saves()
    assert state_of(env)["np_random"] is None  # type: ignore[index]
    env.reset(seed=3)
    assert state_of(env)["np_random"] == env.np_random.bit_generator.state  # type: ignore[index]
    assert state_of(gymnasium.Wrapper(env)) is state_of(OfPhysics()) is state_of(CountEnv()) is None


def test_a_resumed_run_goes_on_within_the_episode(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "train", "-e", "tests.plugins.env_managers.test_replay:Saves", "-p", "dqn", "--exp-name",
        str(tmp_path / "run"), "env.manager.type=sync_subprocess", "env.stop_value=inf",
        "env.n_evaluator_episode=1", "env.evaluator_env_num=1", "policy.collect.n_sample=6",
        "env.collector_env_num=2", "policy.learn.batch_size=4", "pipeline.logger=[]",
    ]  # fmt: skip
    for budget in ("12", "24"):
        assert main([*words, "--max-env-step", budget, "--resume", "auto", "--trust"]) == 0
    told = json.loads((tmp_path / "run/run.json").read_text())
    assert told["result"]["env_step"] == 24
    assert "does not repeat" not in "".join(capfd.readouterr())
