"""The expert acts as the policy of a run, collects for another policy, and never learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import make, spaces

from dicore.cli import main
from dicore.errors import CheckpointError, ConfigError, ModeError, UsageError
from dicore.run.launch import launch
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.policies import ExpertPolicy
from tests.plugins.policies.test_actor_critic import policy_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A short run of DQN."""
    folder = tmp_path_factory.mktemp("work") / "x"
    return launch(
        env="cartpole", policy="dqn", seed=5, exp_name=str(folder), max_env_step=600,
        overrides=["pipeline.logger=[]", "env.n_evaluator_episode=2", "env.evaluator_env_num=2",
                   "policy.learn.update_per_collect=16"],
    )  # fmt: skip


def observations(count: int = 6) -> dict[int, Any]:
    rng = np.random.default_rng(0)
    return {i: rng.normal(size=4).astype(np.float32) for i in range(count)}


def test_it_acts_as_the_trained_policy(run: Any) -> None:
    expert = ExpertPolicy({"run": str(run.run.folder), "checkpoint": "final"})
    wanted = run.policy.eval_mode.forward(observations()).value["action"]
    for mode in (expert.eval_mode, expert.collect_mode):
        assert np.array_equal(mode.forward(observations()).value["action"], wanted)
    assert np.array_equal(
        expert.collect_mode.forward(observations(), eps=1.0).value["action"], wanted
    ), "settings of the policy that is trained are ignored"
    with pytest.raises(ModeError):
        _ = expert.learn_mode


def test_sampled_actions_are_those_of_training(run: Any) -> None:
    """DQN explores with the final epsilon, 0.05."""
    expert = ExpertPolicy({"run": str(run.run.folder), "collect": {"greedy": False}})
    obs = {i: np.zeros(4, np.float32) for i in range(4000)}
    greedy = expert.eval_mode.forward(obs).value["action"]
    sampled = expert.collect_mode.forward(obs).value["action"]
    assert 0.005 < (sampled != greedy).mean() < 0.06


def test_its_samples_are_those_of_the_policy_that_is_trained(run: Any) -> None:
    from dicore_plugins.env_managers import BaseEnvManager

    learner = policy_of("ppo", spaces.Discrete(2), observed=spaces.Box(-1, 1, (4,), np.float32))
    manager = BaseEnvManager([lambda: make("CartPole-v1")] * 2)
    manager.seed(0)
    expert = ExpertPolicy({"run": str(run.run.folder)})
    collector = SampleCollector(None, manager, expert.collect_mode)
    samples = collector.collect_batch(n_sample=50)
    collector.close()
    assert {"obs", "action", "reward", "next_obs", "done"} <= set(samples.columns)
    like = ExpertPolicy({"run": str(run.run.folder)}, like=learner.collect_mode)
    assert like.collect_mode.get_attribute("sample_len") == 1


def test_what_is_missing_is_said(run: Any, tmp_path: Path, capfd: Any) -> None:
    with pytest.raises(ConfigError, match="run: "):
        ExpertPolicy()
    with pytest.raises(UsageError):
        ExpertPolicy({"run": str(tmp_path)})
    with pytest.raises(CheckpointError):
        ExpertPolicy({"run": str(run.run.folder), "checkpoint": "iteration_77"})
    with pytest.raises(UsageError, match="network of its run"):
        ExpertPolicy({"run": str(run.run.folder)}, model=object())
    words = ["-e", "cartpole", "-p", "expert", f"policy.run={run.run.folder}"]
    assert main(["train", *words, "--exp-name", str(tmp_path / "y")]) == 2
    assert "expert" in capfd.readouterr().err
    assert not (tmp_path / "y").exists()
