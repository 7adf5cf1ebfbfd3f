"""MBPO: rollouts branch from collected states, shares of a batch, resuming, what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore.task import OnlineRLContext
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.middleware import WorldModelLearner
from tests.plugins.policies.resuming import same_after_resume

OTHER = {"rollout_batch_size": 50, "rollout_length": 3, "model_buffer_size": 500}
FAST = [
    "policy.model.actor_hidden_size_list=[8]", "policy.model.critic_hidden_size_list=[8]",
    "policy.learn.batch_size=16", "policy.learn.update_per_step=0.5",
    "policy.collect.random_collect_size=40",
    "policy.world_model.hidden_size_list=[8]", "policy.world_model.ensemble_size=2",
    "policy.world_model.elite_size=1", "policy.world_model.train_freq=40",
    "policy.world_model.max_epoch=2", "policy.other.rollout_batch_size=50",
    "policy.eval.evaluator.max_episode_steps=5",
]  # fmt: skip


class Doubling:
    """A world in which states double; a state above 8 is terminal, one above 100 infinite."""

    def __init__(self) -> None:
        self.trained: list[int] = []

    def should_train(self, env_step: int) -> bool:
        return env_step % 10 == 0

    def train(self, data: Batch) -> dict[str, float]:
        self.trained.append(len(data))
        return {"loss": 0.5}

    def step(self, obs: Any, action: Any) -> Any:
        after = np.where(obs > 100, np.inf, obs * 2).astype(np.float32)
        return after, action[:, 0] * 10, (after > 8).all(1)


def learner(obs: Any, **other: Any) -> tuple[WorldModelLearner, Any, Any]:
    compiled = compile_config(
        {"env": "pendulum", "policy": {"type": "mbpo", "other": {**OTHER, **other},
         "learn": {"batch_size": 4}}}
    )  # fmt: skip
    real, model = NaiveReplayBuffer({}), NaiveReplayBuffer({"replay_buffer_size": 500})
    count = len(obs)
    zeros = np.zeros(count, np.float32)
    columns = {"obs": obs, "action": zeros[:, None], "reward": zeros, "next_obs": obs}
    real.push(Batch({**columns, "done": zeros}, count))

    class Mode:
        def forward(self, given: Any) -> Any:
            return EnvBatch(given.env_id, {"action": given.value * 3})

    world = Doubling()
    return WorldModelLearner(compiled.cfg, Mode(), world, real, model), world, model


def test_rollouts_branch_from_collected_states_and_end_where_the_model_says() -> None:
    step, world, model = learner(np.array([[1.0], [3.0], [200.0], [1.0]], np.float32))
    step(OnlineRLContext(env_step=9))
    assert not world.trained
    assert model.count() == 0
    step(OnlineRLContext(env_step=10))
    assert world.trained == [4]
    found = model.samples()
    assert {*found["obs"][:, 0].tolist()} == {1.0, 2.0, 4.0, 3.0, 6.0}  # infinite ones are dropped
    np.testing.assert_array_equal(found["next_obs"], found["obs"] * 2)
    np.testing.assert_array_equal(found["reward"], found["obs"][:, 0] * 30)
    np.testing.assert_array_equal(found["done"], found["next_obs"][:, 0] > 8)
    assert {*found["obs"][found["done"]][:, 0].tolist()} == {6.0}


def test_rollouts_grow() -> None:
    step, *_ = learner(
        np.ones((4, 1), np.float32), rollout_length=1, rollout_length_end=5,
        rollout_length_anneal=[100, 200],
    )  # fmt: skip
    assert [step.rollout_length(at) for at in (0, 100, 125, 199, 200, 999)] == [1, 1, 2, 4, 5, 5]


def test_a_buffer_must_return_all_samples() -> None:
    cfg = compile_config({"env": "pendulum", "policy": "mbpo"}).cfg
    with pytest.raises(UsageError, match="no method samples"):
        WorldModelLearner(cfg, None, Doubling(), object(), object())


@pytest.mark.parametrize("mode", ["serial", "serial_dyna"])
def test_it_trains_by_name(mode: str, tmp_path: Path) -> None:
    outcome = launch(
        env="pendulum", policy="mbpo", mode=mode, max_env_step=100, exp_name=str(tmp_path / "x"),
        overrides=["pipeline.logger=[]", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
                   *FAST],
    )  # fmt: skip
    assert outcome.run.result.train_iter > 10


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    one, two = same_after_resume("mbpo", "Pendulum-v1", FAST, tmp_path, 128)
    assert all((one[key] == two[key]).all() for key in one)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["policy.nstep=3"], "policy.nstep: mbpo simulates single steps"),
        (["policy.priority=true"], "policy.priority: mbpo draws simulated samples uniformly"),
        (["policy.model.gsde=true"], "policy.model.gsde: mbpo keeps no noise per environment"),
        (["policy.world_model.elite_size=9"], "elite_size: must be <= ensemble_size"),
    ],
)
def test_what_does_not_fit(options: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_config({"env": "pendulum", "policy": "mbpo"}, overrides=options)


def test_sequences_are_refused(tmp_path: Path) -> None:
    options = ["policy.other.replay_buffer.type=sequence"]
    with pytest.raises(ConfigError, match="'sequence' returns sequences, a world model simulates"):
        launch(env="pendulum", policy="mbpo", exp_name=str(tmp_path / "x"), overrides=options)


def test_other_policies_need_another_pipeline(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'serial_dyna' trains .* and has a world model"):
        launch(env="pendulum", policy="sac", mode="serial_dyna", exp_name=str(tmp_path / "x"))
