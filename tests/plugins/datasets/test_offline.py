"""Training from a data set by the command line, without environments to collect from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.config import bind, compile_config
from dicore.errors import ConfigError, NonFiniteError
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.launch import launch
from dicore_plugins.datasets import NpzDataset, write_npz

FAST = [
    "pipeline.logger=[]", "env.n_evaluator_episode=2", "env.evaluator_env_num=2",
    "policy.eval.evaluator.max_episode_steps=20",
]  # fmt: skip


def cartpole(path: Path, episodes: int = 20) -> str:
    """Writes random episodes of CartPole."""
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    rng, rows = np.random.default_rng(0), []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        ended = False
        while not ended:
            action = int(rng.integers(2))
            after, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, reward, terminated, truncated, after))
            obs, ended = after, terminated or truncated
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
    columns = {k: np.array(each) for k, each in zip(names, zip(*rows, strict=True), strict=True)}
    write_npz(path, columns, env.observation_space, env.action_space)
    return str(path)


def pendulum(path: Path) -> str:
    import gymnasium

    env = gymnasium.make("Pendulum-v1", max_episode_steps=50)
    rng, rows = np.random.default_rng(0), []
    for episode in range(4):
        obs, _ = env.reset(seed=episode)
        ended = False
        while not ended:
            action = rng.uniform(-2, 2, 1).astype(np.float32)
            after, reward, terminated, ended, _ = env.step(action)
            rows.append((obs, action, reward, terminated, ended, after))
            obs = after
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
    columns = {k: np.array(each) for k, each in zip(names, zip(*rows, strict=True), strict=True)}
    write_npz(path, columns)
    return str(path)


@pytest.mark.parametrize(
    ("env", "policy", "mode"),
    [
        ("cartpole", "dqn", "serial_offline"), ("cartpole", "rainbow", "serial"),
        ("pendulum", "sac", "serial_offline"), ("pendulum", "td3", "serial"),
    ],
)  # fmt: skip
def test_off_policy_algorithms_train_from_a_file(
    env: str, policy: str, mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = (cartpole if env == "cartpole" else pendulum)(tmp_path / "data.npz")
    words = ["train", "-e", env, "-p", policy, "-m", mode, "--max-train-iter", "30"]
    words += ["pipeline.dataset.type=npz", f"pipeline.dataset.path={path}", *FAST]
    words += ["policy.priority=false", "policy.priority_IS_weight=false"]
    code = main([*words, "--exp-name", str(tmp_path / "run")])
    assert code == 0, capfd.readouterr().err
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["result"]["train_iter"] == 30
    assert record["result"]["env_step"] == 0
    spaces = {}
    data = NpzDataset({"path": path}, **spaces)
    assert record["dataset"] == {"samples": len(data), "fingerprint": data.fingerprint}


def test_the_returns_follow_the_policy(tmp_path: Path) -> None:
    """nstep and discount of the policy are those of the data set."""
    path = cartpole(tmp_path / "data.npz", 3)
    compiled = compile_config(
        {"env": "cartpole", "policy": {"type": "dqn", "nstep": 4, "discount_factor": 0.5},
         "pipeline": {"dataset": {"type": "npz", "path": path}}}
    )  # fmt: skip
    compiled = bind(compiled, spec_of(compiled.env, 0))
    data = compiled.pipeline.dataset.build(BuildContext())
    assert data.take([0])["value_gamma"].tolist() == [0.5**4]
    assert data.take([0])["reward"].tolist() == [1.875]


@pytest.mark.parametrize(("env", "policy"), [("cartpole", "dqn"), ("pendulum", "sac")])
def test_training_needs_no_environment(
    env: str, policy: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """That of the data is not installed: spaces come from the file, or from its columns."""
    path = (cartpole if env == "cartpole" else pendulum)(tmp_path / "data.npz")
    words = ["train", "-e", "recorded", "-p", policy, "--max-train-iter", "5"]
    words += ["pipeline.dataset.type=npz", f"pipeline.dataset.path={path}", "pipeline.logger=[]"]
    code = main([*words, "--exp-name", str(tmp_path / "run")])
    output = capfd.readouterr()
    assert code == 0, output.err
    assert "inf" not in output.out
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["result"]["train_iter"] == 5
    assert (tmp_path / "run/ckpt/final").is_dir()


def test_nothing_is_collected_in_recorded_episodes(tmp_path: Path) -> None:
    path = cartpole(tmp_path / "data.npz", 2)
    for policy in ("dqn", "ppo"):
        with pytest.raises(ConfigError, match="'recorded' replays recorded episodes"):
            launch(
                env="recorded", policy=policy, exp_name=str(tmp_path / "run"), max_env_step=10,
                overrides=[f"env.path={path}", "env.format=npz"],
            )  # fmt: skip
    with pytest.raises(ConfigError, match="'recorded' replays recorded episodes"):
        launch(
            env="recorded", policy="sqil", exp_name=str(tmp_path / "run"), max_env_step=10,
            overrides=[f"pipeline.dataset.path={path}"],
        )  # fmt: skip


def trained(folder: Path, path: str, count: int, **more: Any) -> Any:
    overrides = [f"pipeline.dataset.path={path}", "pipeline.dataset.type=npz", *FAST]
    overrides += ["policy.learn.learner.hook={}", "policy.learn.batch_size=32"]
    return launch(
        env="cartpole", policy="dqn", mode="serial_offline", exp_name=str(folder),
        max_train_iter=count, overrides=overrides, **more,
    )  # fmt: skip


def parameters(outcome: Any) -> list[float]:
    state = outcome.policy.learn_mode.state_dict()["model"]
    return [float(each.double().sum()) for each in state.values()]


def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    """In the middle of an epoch, too; with changed data it does not go on."""
    path = cartpole(tmp_path / "data.npz")
    whole = trained(tmp_path / "whole", path, 70)
    again = trained(tmp_path / "again", path, 70)
    trained(tmp_path / "part", path, 33)
    resumed = launch(resume=str(tmp_path / "part"), max_train_iter=70)
    assert parameters(whole) == parameters(again) == parameters(resumed)
    cartpole(tmp_path / "data.npz", 19)
    with pytest.raises(Exception, match="not the data set that the run began with"):
        launch(resume=str(tmp_path / "part"), max_train_iter=80)


@pytest.mark.parametrize(
    ("policy", "options", "problem"),
    [
        ("dqn", ["policy.priority=true"], "policy.priority: a dataset is sampled uniformly"),
        ("dqn", ["policy.traj_len_inf=true"], "policy.traj_len_inf: the dataset makes the samples"),
        ("bc", ["policy.discount_factor=0.5"], "policy.discount_factor: bc learns without rewards"),
        ("bc", ["policy.learn.ignore_done=true"], "learn.ignore_done: bc learns without values"),
        ("dqn", ["pipeline.max_env_step=100"], "pipeline.max_env_step: no env steps are collected"),
        ("impala", [], "policy.collect.unroll_len: its sequences have columns that only"),
        ("ppo", [], "'serial_offline' trains a policy that learns from a dataset; 'ppo' learns"),
    ],
)
def test_what_does_not_fit(policy: str, options: list[str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "d.npz").touch()
    path = tmp_path / "d.npz"
    overrides = ["pipeline.dataset.type=npz", f"pipeline.dataset.path={path}", *options]
    with pytest.raises(ConfigError, match=problem):
        launch(
            env="cartpole", policy=policy, mode="serial_offline", overrides=overrides,
            exp_name=str(tmp_path / "x"),
        )  # fmt: skip
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        ("discrete_cql", "pipeline.dataset"), ("dqfd", "pipeline.dataset"),
        ("ppo", "policy.reward_model.type=gail policy.reward_model.expert"),
    ],
)  # fmt: skip
def test_a_damaged_file_leaves_no_run_folder(policy: str, place: str, tmp_path: Path) -> None:
    path = cartpole(tmp_path / "d.npz", 30)
    columns = dict(np.load(path, allow_pickle=True))
    columns["reward"][7] = np.nan
    np.savez(path, **columns)
    with pytest.raises(NonFiniteError, match=r"d\.npz: episode 0, reward: nan in step 7"):
        launch(
            env="cartpole", policy=policy, overrides=f"{place}.path={path}".split(),
            exp_name=str(tmp_path / "x"),
        )  # fmt: skip
    assert not (tmp_path / "x").exists()
