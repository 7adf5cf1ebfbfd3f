"""`env.manager=auto`: which manager a training takes, and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from dicore.config import compile_config
from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore_dist import auto_manager
from dicore_dist.auto_manager import AutoManagerConfig
from dicore_plugins.env_managers.subprocess import crew
from dicore_plugins.env_managers.vector.config import EnvPoolConfig

FEW = ["env.stop_value=inf", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
       "policy.collect.n_sample=40", "pipeline.logger=[]", "pipeline.final_eval=false"]  # fmt: skip


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that a step is measured to take, on two cores; it may be changed."""
    seconds = [1e-3]
    monkeypatch.setattr(auto_manager, "_step_seconds", lambda *_: seconds[0])
    monkeypatch.setattr(crew, "available_cores", lambda: 2)
    return seconds


def chosen(env: str, *more: str) -> dict[str, str]:
    options = [*FEW[:3], "env.manager=auto", *more]
    cfg = compile_config({"env": {"type": env}, "policy": "dqn"}, overrides=options)
    manager: Any = cfg.env.manager
    found: dict[str, str] = manager.chosen(cfg.env, 0)
    return found


def test_worker_processes_are_taken_where_steps_cost(cost: list[float]) -> None:
    found = chosen("cartpole_pomdp")
    assert found["took"] == "sync_subprocess"
    assert found["why"].startswith("a step takes 1000 us, processes pay from 50 us on; ")
    cost[0] = 20e-6
    assert chosen("cartpole_pomdp")["took"] == "base"


def test_one_core_or_one_environment_needs_no_processes(
    cost: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen("cartpole_pomdp", "env.collector_env_num=1")["took"] == "base"
    monkeypatch.setattr(crew, "available_cores", lambda: 1)
    found = chosen("cartpole_pomdp")
    assert found["took"] == "base"
    assert found["why"].startswith("1 cores, 8 environments; ")


def test_a_step_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_manager, "_PROBE_S", 0.0)
    monkeypatch.setattr(auto_manager, "_PAYS_S", 0.0)
    monkeypatch.setattr(crew, "available_cores", lambda: 2)
    assert chosen("cartpole_pomdp")["took"] == "sync_subprocess"
    monkeypatch.setattr(auto_manager, "_PAYS_S", 60.0)
    assert chosen("cartpole_pomdp")["took"] == "base"


def test_a_native_vector_env_is_taken_where_it_is_equal(cost: list[float]) -> None:
    pytest.importorskip("envpool")
    assert chosen("cartpole")["took"] == "envpool"


@pytest.mark.parametrize(
    ("env", "more", "why"),
    [
        ("cartpole_pomdp", [], "envpool: .*other data than cartpole_pomdp"),
        ("cartpole", ["env.env_wrapper=[clip_reward]"], "envpool: .*wrapper"),
        ("cartpole", ["env.manager.record_actions=false"], "envpool: .*record_actions"),
        ("blackjack", [], "envpool: its steps were not compared"),
    ],
)
def test_what_is_not_equal_or_not_possible_is_told(
    env: str, more: list[str], why: str, cost: list[float]
) -> None:
    pytest.importorskip("envpool")
    found = chosen(env, *more)
    assert found["took"] == "sync_subprocess"
    assert re.search(why, found["why"])


def test_atari_games_are_told_of_their_vector_env(cost: list[float]) -> None:
    pytest.importorskip("ale_py")
    found = chosen("pong")
    assert found["took"] == "sync_subprocess"
    assert "ale_vector: frames, and the first stack of a game, differ" in found["why"]


def test_options_that_are_set_are_those_of_the_chosen_manager() -> None:
    section = AutoManagerConfig(type="auto", max_retry=7)
    for name in ("base", "sync_subprocess", "envpool"):
        assert section.named(name).get("max_retry") == 7
        assert section.named(name).type == name
    assert section.named("sync_subprocess").step_timeout == 60
    assert EnvPoolConfig().get("max_retry") == 3
    with pytest.raises(ConfigError, match="retry_type"):
        AutoManagerConfig(type="auto", retry_type="renew").named("envpool")


def test_a_training_records_what_it_takes_and_takes_it_again(
    cost: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data are those of `base`; the environment counts as not equal to a native one."""
    cost[0] = 1e-6
    monkeypatch.setattr(EnvPoolConfig, "unlike", lambda *_: "today it is another one")

    def train(name: str, manager: str, limit: int) -> Any:
        options = [*FEW, f"env.manager={manager}", "policy.learn.epoch_per_collect=1"]
        return launch(
            env="cartpole", policy="ppo", seed=0, exp_name=str(tmp_path / name),
            max_env_step=limit, overrides=options,
        )  # fmt: skip

    whole, half = train("whole", "base", 240), train("half", "auto", 120)
    record = json.loads((tmp_path / "half" / "run.json").read_text())["chosen"]
    assert record["env.manager.type"]["took"] == "base"
    assert "env.manager.type=auto took base: a step takes 1 us" in (
        tmp_path / "half" / "log" / "run" / "run.txt"
    ).read_text(encoding="utf-8")
    monkeypatch.setattr(AutoManagerConfig, "chosen", None)  # nothing is measured again
    rest = launch(resume=str(half.run.folder.path), max_env_step=240)
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(torch.equal(one[key], two[key]) for key in one)
