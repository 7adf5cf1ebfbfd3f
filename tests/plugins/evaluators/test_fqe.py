"""Fitted Q evaluation: values of known policies, schedule, interruption, runs without env."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.cli import main
from dicore.data import EnvBatch
from dicore.errors import ClosedError, ConfigError, UsageError
from dicore.interfaces.policy import EvalMode
from dicore.run.checkpoint_io import read_state
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_plugins.evaluators import FQEvaluator
from tests.plugins.datasets.test_offline import cartpole, pendulum


def mode_of(act: Any) -> EvalMode:
    """An eval mode that acts by a function of the observations."""
    nothing = lambda *args, **kwargs: None  # noqa: E731
    return EvalMode(
        forward=lambda obs: EnvBatch(obs.env_id, {"action": act(obs.value)}),
        reset=nothing, get_attribute=nothing, set_attribute=nothing, state_dict=dict,
        load_state_dict=nothing,
    )  # fmt: skip


def corridor(path: Path) -> str:
    """Random walks over 0 to 4; a step right pays 1, left 0; 4 is terminal."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(150):
        at, ended, steps = 0, False, 0
        while not ended and steps < 30:
            action = int(rng.integers(2))
            after = max(at - 1, 0) if action == 0 else at + 1
            ended, steps = after == 4, steps + 1
            rows.append(
                (np.eye(5)[at], action, float(action), ended, steps == 30, np.eye(5)[after])
            )
            at = after
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
    write_npz(path, {k: np.array(c) for k, c in zip(names, zip(*rows, strict=True), strict=True)})
    return str(path)


OBS, ACTIONS = spaces.Box(-np.inf, np.inf, (5,), np.float32), spaces.Discrete(2)


def evaluator(path: str, act: Any, scale: float = 1.0, **options: Any) -> FQEvaluator:
    seed_everything(0)
    data = NpzDataset({"path": path, "reward_scale": scale})
    given = {"updates": 600, "batch_size": 128, "learning_rate": 3e-3, "target_theta": 0.05,
             "hidden_size_list": [32], "discount_factor": 0.9, **options}  # fmt: skip
    return FQEvaluator(
        given, policy=mode_of(act), dataset=data, observation_space=OBS, action_space=ACTIONS
    )


def test_the_values_of_known_policies(tmp_path: Path) -> None:
    """Right: 1 + 0.9 + 0.81 + 0.729 from the first state; left: 0 for ever."""
    path = corridor(tmp_path / "x.npz")
    right = evaluator(path, lambda obs: np.ones(len(obs), np.int64))
    result = right.eval(train_iter=1)
    assert result.mean_return == pytest.approx(1 + 0.9 + 0.81 + 0.729, abs=0.25)
    assert len(result.returns) == 150
    assert result.statistics["episode_count"] == 150
    assert len(right.eval(n_episode=7).returns) == 7
    scaled = evaluator(path, lambda obs: np.ones(len(obs), np.int64), scale=0.01, updates=100)
    plain = evaluator(path, lambda obs: np.ones(len(obs), np.int64), updates=100)
    found, wanted = scaled.eval(train_iter=1), plain.eval(train_iter=1)
    assert found.mean_return == pytest.approx(wanted.mean_return, rel=0.01)
    assert found.statistics["td_error"] == pytest.approx(wanted.statistics["td_error"], rel=0.01)
    left = evaluator(path, lambda obs: np.zeros(len(obs), np.int64))
    assert left.eval(train_iter=1).mean_return == pytest.approx(0, abs=0.25)


def test_a_rare_reward_counts_in_full(tmp_path: Path) -> None:
    """One step: action 0 pays 1, action 1 pays 100 once in 20 times, which is 5 on average."""
    count = np.arange(2_000)
    action, rare = count % 2, count // 2 % 20 == 0
    ones, all_end = np.eye(5)[np.zeros(2_000, int)], np.ones(2_000, bool)
    columns = {
        "obs": ones, "action": action, "reward": np.where(action == 0, 1.0, 100.0 * rare),
        "terminated": all_end, "truncated": ~all_end, "next_obs": ones,
    }  # fmt: skip
    write_npz(tmp_path / "x.npz", columns)
    for chosen, value in ((0, 1.0), (1, 5.0)):
        one = evaluator(str(tmp_path / "x.npz"), lambda obs, a=chosen: np.full(len(obs), a))
        assert one.eval(train_iter=1).mean_return == pytest.approx(value, abs=1.0)


def test_no_target_is_beyond_what_the_rewards_allow(tmp_path: Path) -> None:
    """Rewards of 0 and 1 and gamma = 0.9: returns are from 0 to 10, whatever a network says."""
    one = evaluator(corridor(tmp_path / "x.npz"), lambda obs: np.ones(len(obs), np.int64))
    for offset in (1e3, -1e3):
        one._target_flat.data += offset
        assert float(one._update({})) < 12
        one._target_flat.data -= offset
    other = evaluator(str(tmp_path / "x.npz"), lambda obs: np.ones(len(obs), np.int64))
    other.load_state_dict(one.state_dict())
    assert other.state_dict()["rewards"] == one.state_dict()["rewards"] == (0.0, 1.0)


def test_schedule_best_and_stop(tmp_path: Path) -> None:
    path = corridor(tmp_path / "x.npz")
    one = evaluator(path, lambda obs: np.ones(len(obs), np.int64), updates=2, eval_freq=10,
                    stop_estimate=-1e9)  # fmt: skip
    assert [at for at in (0, 0, 9, 10, 19, 20) if one.should_eval(at)] == [0, 10, 20]
    saved: list[str] = []
    assert one.eval(saved.append, 0).stop is False
    assert one.eval(saved.append, 10).stop is True
    assert saved[:1] == ["ckpt_best.pth.tar"]
    assert one.best_return >= one.last_result.mean_return  # type: ignore[union-attr]
    one.close()
    one.close()
    with pytest.raises(ClosedError):
        one.eval()


def test_an_interrupted_evaluation_is_repeated(tmp_path: Path) -> None:
    path, act = corridor(tmp_path / "x.npz"), lambda obs: np.ones(len(obs), np.int64)
    one, other = (evaluator(path, act, updates=20) for _ in range(2))
    wanted = one.eval(train_iter=5).returns
    other = evaluator(path, act, updates=20)
    other.should_eval(0)
    turns = iter([False] * 7 + [True])
    assert other.eval(should_stop=lambda: next(turns)).interrupted
    assert other.should_eval(0)
    assert other.eval(train_iter=5).returns == wanted
    twin = evaluator(path, act, updates=20)
    twin.load_state_dict(other.state_dict())
    for each in (twin, other):
        each._rng.bit_generator.state = np.random.default_rng(3).bit_generator.state
    assert twin.eval(train_iter=6).returns == other.eval(train_iter=6).returns
    assert twin.best_return == other.best_return


def test_samples_of_several_steps_are_refused(tmp_path: Path) -> None:
    path = corridor(tmp_path / "x.npz")
    with pytest.raises(UsageError, match="needs single steps"):
        FQEvaluator(dataset=NpzDataset({"path": path, "nstep": 3}), observation_space=OBS,
                    action_space=ACTIONS)  # fmt: skip
    with pytest.raises(UsageError, match="samples are sequences"):
        FQEvaluator(dataset=NpzDataset({"path": path, "unroll_len": 3}), observation_space=OBS,
                    action_space=ACTIONS)  # fmt: skip
    with pytest.raises(UsageError, match="needs a dataset"):
        FQEvaluator()


QUICK = ["pipeline.logger=[]", "policy.eval.evaluator.updates=5", "policy.learn.batch_size=16"]


@pytest.mark.parametrize(("policy", "make"), [("td3_bc", pendulum), ("discrete_cql", cartpole)])
def test_a_run_without_an_environment(policy: str, make: Any, tmp_path: Path) -> None:
    """Spaces come from the file; nothing is stepped; the run resumes to the last bit."""
    path = make(tmp_path / "data.npz")

    def train(folder: str, count: int) -> Any:
        words = ["train", "-e", "recorded", "-p", policy, "-m", "serial_offline", *QUICK]
        words += ["pipeline.dataset.type=npz", f"pipeline.dataset.path={path}"]
        words += ["policy.eval.evaluator=fqe", "policy.eval.evaluator.eval_freq=10"]
        words += ["--max-train-iter", str(count), "--exp-name", str(tmp_path / folder)]
        assert main(words) == 0
        return json.loads((tmp_path / folder / "run.json").read_text())["result"]

    assert train("whole", 30)["env_step"] == 0
    assert main(["eval", str(tmp_path / "whole"), "-n", "3"]) == 0
    train("half", 15)
    launch(resume=str(tmp_path / "half"), max_train_iter=30)
    one, two = (read_state(tmp_path / folder / "ckpt/final") for folder in ("whole", "half"))
    one, two = (each["learner"]["policy"]["model"] for each in (one, two))
    assert all((each == two[key]).all() for key, each in one.items())


def test_online_training_cannot_evaluate_on_a_dataset() -> None:
    with pytest.raises(ConfigError, match="'fqe' evaluates on a dataset"):
        launch(env="cartpole", policy="dqn", overrides=["policy.eval.evaluator=fqe"])
