"""Reward models by name, in every kind of training; a killed run goes on to the same end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from dicore.cli import main
from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.interfaces.policy import Tail
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore.run.run import Run
from dicore_plugins.datasets import write_npz
from dicore_plugins.policies.rewards import with_reward_model

DQN = ["policy.learn.batch_size=8", "policy.collect.n_sample=16", "policy.nstep=1"]
SINGLE = ["policy.learn.update_per_step=0.1", "policy.collect.n_sample=1", "policy.nstep=3",
          "policy.collect.random_collect_size=16"]  # fmt: skip
PPO = ["policy.collect.n_sample=64", "policy.learn.batch_size=32"]
SMALL = ["policy.reward_model.hidden_size_list=[16]"]
FEW = [*SMALL, "policy.reward_model.expert_updates=20"]
RELABEL = "policy.reward_model.relabel=true"
ABSENT = "policy.reward_model.expert.path=absent.npz"
CASES: dict[str, tuple[str, str, str, list[str]]] = {
    "rnd_dqn": ("cartpole", "dqn", "rnd", [*SINGLE, *SMALL]),
    "rnd_relabel": ("cartpole", "dqn", "rnd", [*DQN, *SMALL, RELABEL]),
    "rnd_ppo": ("cartpole", "ppo", "rnd", [*PPO, *SMALL]),
    "icm_sac": ("pendulum", "sac", "icm", [*DQN, *SMALL]),
    "gail_dqn": ("cartpole", "dqn", "gail", [*DQN, *SMALL, RELABEL]),
    "gail_ppo": ("cartpole", "ppo", "gail", [*PPO, *SMALL]),
    "guided_cost_ppo": ("cartpole", "ppo", "guided_cost", [*PPO, *SMALL]),
    "ngu_r2d2": (
        "cartpole",
        "r2d2",
        "ngu",
        [
            "policy.learn.batch_size=4",
            "policy.collect.n_sample=16",
            "policy.collect.unroll_len=4",
            "policy.nstep=2",
            "policy.collect.burn_in=2",
            *SMALL,
        ],
    ),
    "pwil_ppo": ("cartpole", "ppo", "pwil", [*PPO, "policy.reward_model.horizon=50"]),
    "red_ppo": ("cartpole", "ppo", "red", [*PPO, *FEW]),
    "trex_dqn": ("cartpole", "dqn", "trex", [*SINGLE, *FEW]),
    "drex_ppo": ("cartpole", "ppo", "drex", [*PPO, *FEW]),
    "reward_norm_dqn": ("cartpole", "dqn", "reward_norm", SINGLE),
    "her_dqn": ("bit_flip", "dqn", "her", [*DQN, "policy.other.replay_buffer.type=episode"]),
}


class Killed(Exception):
    """The process is gone, as far as the run is concerned."""


def steps(folder: Path, name: str = "expert.npz", **columns: Any) -> Path:
    """Writes six episodes of CartPole's form, of 3 to 8 steps."""
    rng, lengths = np.random.default_rng(0), np.arange(3, 9)
    end = np.zeros(lengths.sum(), bool)
    end[np.cumsum(lengths) - 1] = True
    count = len(end)
    recorded = {
        "obs": rng.normal(size=(count, 4)).astype(np.float32),
        "action": rng.integers(0, 2, count),
        "reward": np.ones(count, np.float32),
        "terminated": end,
        "truncated": np.zeros(count, bool),
    }
    write_npz(folder / name, {**recorded, **columns})
    return folder / name


def words(case: str, folder: Path) -> dict[str, Any]:
    env, policy, model, options = CASES[case]
    options = [f"policy.reward_model={model}", *options]
    data = {"type": "npz", "path": str(folder / "expert.npz")}
    if model in ("gail", "guided_cost", "pwil", "red", "trex"):
        options += [f"policy.reward_model.expert.{key}={value}" for key, value in data.items()]
    if model == "drex":
        options += [f"policy.reward_model.expert={json.dumps([data, data])}"]
    return {"env": env, "policy": policy, "overrides": options}


def train(folder: Path, case: str, data: Path) -> None:
    given = words(case, data)
    given["overrides"] += [
        "env.stop_value=inf", "pipeline.logger=[]", "env.n_evaluator_episode=2",
        "env.evaluator_env_num=1", 'policy.learn.learner.hook={"save_ckpt_after_iter": 6}',
        "policy.eval.evaluator.eval_freq=1000",
    ]  # fmt: skip
    launch(**given, seed=1, max_env_step=200, exp_name=str(folder))


QUICK = {"rnd_relabel", "gail_ppo", "her_dqn", "pwil_ppo", "trex_dqn"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_a_killed_run_goes_on_to_the_same_end(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks, optimizers, statistics, stored samples and lines are those of an unkilled run."""
    steps(tmp_path)
    train(tmp_path / "whole", case, tmp_path)
    save = Run.save_due

    def killed_after_it(run: Run, train_iter: int) -> None:
        due = run.due
        save(run, train_iter)
        if due:
            raise Killed

    monkeypatch.setattr(Run, "save_due", killed_after_it)
    with pytest.raises(Killed):
        train(tmp_path / "killed", case, tmp_path)
    monkeypatch.setattr(Run, "save_due", save)
    launch(resume=str(tmp_path / "killed"))
    one, other = (
        load_file(tmp_path / name / "ckpt/final/tensors.safetensors")
        for name in ("whole", "killed")
    )
    assert one.keys() == other.keys()
    wrong = [key for key in one if not np.array_equal(one[key], other[key], equal_nan=True)]
    assert not wrong
    assert CASES[case][2] == "her" or any(key.startswith("reward_model") for key in one)
    assert lines_of(tmp_path / "whole") == lines_of(tmp_path / "killed")


def lines_of(run: Path) -> list[tuple[int, int]]:
    """Returns the env steps and updates of the lines of the reward model."""
    lines = read_metrics(run / "log/metrics.jsonl")
    named = [line for line in lines if any(key.startswith("reward_model/") for key in line)]
    return [(line["step"], line["train_iter"]) for line in named]


BAD: dict[str, tuple[str, str, list[str], str]] = {
    "several_steps": ("cartpole", "dqn", ["rnd", "policy.nstep=3", RELABEL], "relabel"),
    "time_order": ("cartpole", "dqn", ["pwil", "policy.nstep=3"], "policy.nstep"),
    "sequences": (
        "cartpole", "r2d2", ["pwil", "policy.nstep=1", "policy.collect.unroll_len=8"],
        "policy.collect.unroll_len",
    ),
    "no_expert": ("cartpole", "dqn", ["gail"], "dicore collect"),
    "no_file": ("cartpole", "dqn", ["gail", ABSENT], r"expert\.path.*no such file.*dicore collect"),
    "no_second_file": (
        "cartpole", "ppo", ["drex", 'policy.reward_model.expert=[{"path": "."}, {"path": "x"}]'],
        r"(?s)expert\.0\.path.*no samples in this folder.*expert\.1\.path.*no such file",
    ),
    "no_ranks": ("cartpole", "ppo", ["drex"], "dicore collect"),
    "on_policy": ("cartpole", "ppo", ["her"], "off-policy"),
    "buffer": ("bit_flip", "dqn", ["her"], "set policy.other.replay_buffer=episode"),
    "bridged": (
        "bit_flip", "dqn", ["her", "policy.nstep=3", "policy.other.replay_buffer.type=episode"],
        "policy.nstep",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_before_the_run(case: str, tmp_path: Path) -> None:
    env, policy, (model, *options), message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        launch(
            env=env, policy=policy, exp_name=str(tmp_path / "run"),
            overrides=[f"policy.reward_model={model}", *options],
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_rewards_are_relabelled_without_changing_the_buffer(tmp_path: Path) -> None:
    """The stored rewards are those of the environment."""
    train(tmp_path / "run", "rnd_relabel", tmp_path)
    stored = load_file(tmp_path / "run/ckpt/final/tensors.safetensors")
    rewards = [each for key, each in stored.items() if key.endswith("columns.reward")]
    assert rewards
    assert any((each == 1).all() for each in rewards)


def test_rows_of_abnormal_episodes_are_not_estimated() -> None:
    """A model that goes through episodes in time order sees the same rows twice."""
    tail = Tail({"x": np.zeros((2, 1))}, np.array([2]), {"x": np.zeros((1, 1))}, 2)
    block = Batch({
        "obs": {"x": np.zeros((2, 2, 1))}, "reward": np.zeros((2, 2), np.float32),
        "end": np.array([[False, False], [True, False]]), "valid": np.array([[1, 0], [1, 1]], bool),
    }, 2)  # fmt: skip
    collected: list[int] = []
    model = SimpleNamespace(
        collect_data=lambda data: collected.append(len(data)),
        estimate=lambda data: Batch({**data.columns, "reward": 1 + np.arange(len(data))}),
    )
    mode = SimpleNamespace(get_train_sample=lambda block, tail: block["reward"].tolist())
    found = with_reward_model(mode, model).get_train_sample(block, tail)
    assert collected == [3]
    assert found == [[1, 0], [2, 3]]


@pytest.mark.parametrize("estimates", [True, False])
def test_a_copy_of_the_policy_estimates_as_the_policy_does(estimates: bool) -> None:
    """In async mode a copy collects; what is relabelled when it is drawn is so once only."""
    tail = Tail({"x": np.zeros((1, 1))}, np.array([1]), {"x": np.zeros((1, 1))}, 2)
    block = Batch({
        "obs": {"x": np.zeros((2, 1, 1))}, "reward": np.zeros((2, 1), np.float32),
        "end": np.array([[False], [True]]), "valid": np.ones((2, 1), bool),
    }, 2)  # fmt: skip
    model = SimpleNamespace(
        collect_data=lambda data: None,
        estimate=lambda data: Batch({**data.columns, "reward": data["reward"] + 1}, len(data)),
    )
    mode = SimpleNamespace(get_train_sample=lambda block, tail: block["reward"].ravel().tolist())
    found = with_reward_model(mode, model, estimates=estimates)
    twin = vars(found.get_train_sample)["of_mode"](mode)
    assert found.get_train_sample(block, tail) == [float(estimates)] * 2
    assert twin.get_train_sample(block, tail) == [float(estimates)] * 2


def test_every_registered_reward_model_is_trained_here() -> None:
    from dicore_registry import default

    own = {each.name for each in default().entries("reward_model") if "plugins" in each.dist}
    assert own == {model for _, _, model, _ in CASES.values()} - {"pwil"}  # of dicore-contrib


def test_the_section_is_part_of_the_config() -> None:
    cfg = compile_config({"env": "cartpole", "policy": {"type": "dqn", "reward_model": "icm"}})
    assert cfg.policy.reward_model.forward_share == 0.2


MODES = {
    "serial_reward_model": "icm_sac",
    "serial_gail": "gail_dqn",
    "serial_ngu": "ngu_r2d2",
    "serial_trex": "drex_ppo",
    "serial_trex_onpolicy": "drex_ppo",
}


@pytest.mark.parametrize(("mode", "case"), MODES.items())
def test_every_mode_trains_from_the_command_line(mode: str, case: str, tmp_path: Path) -> None:
    steps(tmp_path)
    given = words(case, tmp_path)
    options = [*given["overrides"], "pipeline.logger=[]", "env.n_evaluator_episode=2",
               "env.evaluator_env_num=1", "env.stop_value=inf"]  # fmt: skip
    line = ["train", "-m", mode, "-e", given["env"], "-p", given["policy"]]
    line += ["--max-env-step", "64", "--exp-name", str(tmp_path / "run")]
    assert main([*line, *options]) == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [(), ("policy.reward_model=reward_norm",)])
def test_a_mode_needs_its_reward_model(mode: str, options: tuple[str, ...], tmp_path: Path) -> None:
    if mode == "serial_reward_model" and options:
        pytest.skip("it trains with any")
    policy = "ppo" if mode.endswith("onpolicy") else "dqn"
    with pytest.raises(ConfigError, match=f"'{mode}' trains with a reward model; expected"):
        launch(
            env="cartpole", policy=policy, mode=mode, exp_name=str(tmp_path / "run"),
            overrides=list(options),
        )  # fmt: skip


def test_losses_are_logged(tmp_path: Path) -> None:
    steps(tmp_path)
    train(tmp_path / "run", "gail_ppo", tmp_path)
    lines = list(read_metrics(tmp_path / "run/log/metrics.jsonl"))
    found = [line for line in lines if "reward_model/loss" in line]
    assert found
    assert 0 <= found[0]["reward_model/expert_accuracy"] <= 1
    assert found[0]["step"] == 64


def test_null_takes_away_what_a_preset_has() -> None:
    """A later layer may choose again."""
    preset = {"env": "cartpole", "policy": {"type": "dqn", "reward_model": {"type": "icm"}}}
    null, again = "policy.reward_model=null", {"policy.reward_model": "rnd"}
    none = compile_config(preset, overrides=[null])
    assert none.cfg.policy.reward_model is None
    assert none.origin["policy.reward_model"] == "command line"
    named = compile_config(none.cfg, overrides=again)
    assert named.cfg.policy.reward_model.type == "rnd"
