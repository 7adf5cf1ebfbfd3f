"""Middleware that makes training data: advantages, returns, n steps, rewards, priorities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import SchemaError
from dicore.task import OnlineRLContext, task
from dicore_compat.middleware import (
    gae_estimator,
    montecarlo_return_estimator,
    nstep_reward_enhancer,
    ppof_adv_estimator,
    priority_calculator,
    reward_estimator,
)
from dicore_plugins.middleware import inferencer, multistep_trainer, rolloutor
from dicore_plugins.policies import PPOPolicy

PPO = ("policy.type=ppo", "policy.learn.epoch_per_collect=1", "policy.learn.update_per_collect=1")

CFG: Any = SimpleNamespace(policy=SimpleNamespace(nstep=3, discount_factor=0.5))


def context(rows: Any, ends: list[int]) -> OnlineRLContext:
    ctx = OnlineRLContext()
    ctx.trajectories, ctx.trajectory_end_idx = rows, ends
    return ctx


def rows_of(rewards: list[float], done: int = -1) -> list[dict[str, Any]]:
    return [
        {"obs": np.float32(at), "next_obs": np.float32(at + 1), "reward": np.float32(reward),
         "done": np.float32(at == done)}
        for at, reward in enumerate(rewards)
    ]  # fmt: skip


def interleaved() -> tuple[Batch, list[int]]:
    """Samples of two environments in turn; the first one's episode ends after two steps."""
    columns = {
        "obs": np.arange(8, dtype=np.float32), "next_obs": np.arange(8, dtype=np.float32) + 2,
        "reward": np.array([1, 10, 2, 20, 3, 30, 4, 40], np.float32),
        "done": np.array([0, 0, 1, 0, 0, 0, 0, 0], np.float32),
        "env_id": np.array([0, 1] * 4), "end": np.array([0, 0, 1, 0, 0, 0, 0, 0], np.bool_),
    }  # fmt: skip
    return Batch(columns, 8), [2, 6, 7]


def test_n_steps_end_with_a_piece() -> None:
    ctx = context(rows_of([1, 2, 4, 8], done=1), [1, 3])
    nstep_reward_enhancer(CFG)(ctx)
    found: Any = ctx.trajectories
    assert [row["reward"].tolist() for row in found] == [[1, 2, 0], [2, 0, 0], [4, 8, 0], [8, 0, 0]]
    assert [float(row["next_obs"]) for row in found] == [2, 2, 4, 4]
    assert [float(row["done"]) for row in found] == [1, 1, 0, 0]
    assert [row["value_gamma"] for row in found] == [0.25, 0.5, 0.25, 0.5]
    nstep_reward_enhancer(CFG)(ctx)
    assert ctx.trajectories is found, "samples of n steps stay as they are"


def test_n_steps_do_not_mix_environments() -> None:
    ctx = context(*interleaved())
    nstep_reward_enhancer(CFG)(ctx)
    found: Any = ctx.trajectories
    assert found["env_id"].tolist() == [0] * 4 + [1] * 4
    assert found["reward"].tolist()[:4] == [[1, 2, 0], [2, 0, 0], [3, 4, 0], [4, 0, 0]]
    assert found["reward"].tolist()[4] == [10, 20, 30]
    assert ctx.trajectory_end_idx == [1, 3, 7]


def test_returns_are_the_discounted_sums_until_the_end_of_a_piece() -> None:
    for given, wanted in (
        (interleaved(), [2.0, 2.0, 5.0, 4.0, 32.5, 45.0, 50.0, 40.0]),
        ((rows_of([1, 2, 4]), [2]), [3.0, 4.0, 4.0]),
    ):
        ctx = context(*given)
        montecarlo_return_estimator(CFG)(ctx)
        data: Any = ctx.train_data
        assert data["return"].tolist() == wanted
        assert ctx.trajectories is None


def test_advantages_of_single_steps_are_those_of_the_function(make: Any) -> None:
    """Collected by inference and rollout; whole pieces of each environment."""
    cfg, env, _ = make(*PPO)
    policy = PPOPolicy(cfg.policy)
    mode = policy.collect_mode
    seen: list[Any] = []

    def values(rows: Any) -> list[Any]:
        columns = ("obs", "next_obs")
        return [policy._values(np.stack([row[name] for row in rows])) for name in columns]

    with task.start(ctx=OnlineRLContext()):
        task.use(inferencer(0, mode, env)).use(rolloutor(mode, env))
        task.use(lambda ctx: seen.append((ctx.trajectories, ctx.trajectory_end_idx)))
        task.use(gae_estimator(cfg, mode))
        task.use(lambda ctx: seen.append((ctx.train_data, *values(seen[-1][0]))))
        task.use(multistep_trainer(cfg, policy.learn_mode))
        task.run(max_step=3)
        assert task.ctx.train_iter >= 3
    (rows, ends), (data, value, after) = seen[-2:]
    assert len(data) == len(rows) == 4
    assert ends == [0, 1, 2, 3], "one step of each environment"
    gamma = cfg.policy.discount_factor
    done = np.array([float(row["done"]) for row in rows])
    wanted = np.array([float(row["reward"]) for row in rows]) + gamma * after * (1 - done) - value
    assert data["advantage"] == pytest.approx(wanted, abs=1e-4)
    assert data["target"] == pytest.approx(wanted + value, abs=1e-4)


def test_samples_with_advantages_stay_and_may_go_to_a_buffer() -> None:
    data, pushed = Batch({"advantage": np.zeros(3)}, 3), []
    buffer_ = SimpleNamespace(push=lambda rows, cur_collector_envstep: pushed.append(rows))
    for estimator, into in ((gae_estimator(CFG, None), None), (ppof_adv_estimator(None), None),
                            (gae_estimator(CFG, None, buffer_), pushed)):  # fmt: skip
        ctx = context(data, [2])
        estimator(ctx)
        assert (ctx.train_data if into is None else pushed[-1]) is data
        assert ctx.trajectories is None
        estimator(ctx)  # nothing was collected
    bare = Batch({"obs": np.zeros(3)}, 3)
    with pytest.raises(SchemaError, match="no next_obs"):
        gae_estimator(CFG, SimpleNamespace(get_train_sample=None))(context(bare, [2]))


def test_rewards_of_training_data_are_estimated() -> None:
    model = SimpleNamespace(estimate=lambda data: Batch({"reward": data["reward"] + 1}, len(data)))
    ctx = OnlineRLContext()
    reward_estimator(CFG, model)(ctx)
    assert ctx.train_data is None
    ctx.train_data = Batch({"reward": np.zeros(2)}, 2)
    reward_estimator(CFG, model)(ctx)
    assert ctx.train_data["reward"].tolist() == [1, 1]


@pytest.mark.parametrize("form", ["batch", "rows"])
def test_priorities_are_added_to_what_is_pushed(form: str) -> None:
    rows = rows_of([1, -3])
    data: Any = rows if form == "rows" else Batch.from_rows(rows)
    ctx = context(data, [1])
    priority_calculator()(ctx)
    found: Any = ctx.trajectories
    column = found["priority"] if form == "batch" else [row["priority"] for row in found]
    assert [float(each) for each in column] == pytest.approx([1, 3], abs=1e-5)
    assert "priority" not in rows[0], "what others hold is not changed"
    with pytest.raises(SchemaError, match="one number per sample"):
        priority_calculator(lambda data: [1.0])(context(data, [1]))
