"""DQNPolicy: its update against a hand-written one, its modes, its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dicore.data import Batch, EnvBatch
from dicore.errors import ModeError
from dicore.run.rng import seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.policies import DQNPolicy, RandomPolicy
from dicore_plugins.policies.dqn.config import DQNCollectConfig, DQNConfig, DQNLearnConfig


def make(action_shape: Any = 2, seed: int = 0, **options: Any) -> DQNPolicy:
    seed_everything(seed)
    model = DQNModelConfig(
        type="dqn", obs_shape=4, action_shape=action_shape, encoder_hidden_size_list=(16, 16)
    )
    return DQNPolicy(DQNConfig(model=model, **options))


def rows(count: int = 32, **more: Any) -> Batch:
    rng = np.random.default_rng(1)
    return Batch(
        {
            "obs": rng.standard_normal((count, 4)).astype(np.float32),
            "next_obs": rng.standard_normal((count, 4)).astype(np.float32),
            "action": rng.integers(0, 2, count),
            "reward": rng.standard_normal(count).astype(np.float32),
            "done": (rng.random(count) < 0.3).astype(np.float32),
            **more,
        }
    )


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("ignore_done", [True, False])
def test_one_update_is_the_papers(double: bool, ignore_done: bool) -> None:
    """Loss and TD errors against the equation, written out; the target net is still the net."""
    learn = DQNLearnConfig(double=double, ignore_done=ignore_done)
    policy = make(learn=learn, discount_factor=0.9)
    gamma = np.full(32, 0.9**2, np.float32)
    weight = np.linspace(0.5, 1, 32, dtype=np.float32)
    batch = rows(value_gamma=gamma, weight=weight)
    t = batch.copy().to_torch()
    model = policy.get_attribute("model")
    with torch.no_grad():
        next_q = model.q(t["next_obs"])
        done = torch.zeros(32) if ignore_done else t["done"]
        y = t["reward"] + t["value_gamma"] * (1 - done) * next_q.max(1).values
        taken = model.q(t["obs"]).gather(1, t["action"].unsqueeze(1)).squeeze(1)
    before = torch.cat([p.detach().clone().reshape(-1) for p in model.parameters()])
    result = policy.learn_mode.forward(batch)
    expected = (F.huber_loss(taken, y, reduction="none") * t["weight"]).mean()
    assert result["total_loss"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(result["priority"], (y - taken).abs(), atol=1e-5)
    assert not result["total_loss"].requires_grad
    after = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    assert not torch.equal(before, after)
    assert set(policy.learn_mode.monitor_vars()) <= set(result)


def test_rows_and_columns_learn_alike() -> None:
    by_batch, by_rows = make(), make()
    one = by_batch.learn_mode.forward(rows())["total_loss"]
    two = by_rows.learn_mode.forward(rows().rows())["total_loss"]
    assert torch.equal(one, two)


def test_several_heads() -> None:
    policy = make(action_shape=(2, 3))
    batch = rows()
    batch.columns["action"] = np.stack([batch["action"], batch["action"]], 1)
    assert torch.isfinite(policy.learn_mode.forward(batch)["total_loss"])
    obs = EnvBatch(np.arange(5), np.zeros((5, 4), np.float32))
    assert policy.collect_mode.forward(obs, eps=0.5).value["action"].shape == (5, 2)


def test_state_goes_on_as_it_would_have() -> None:
    policy, twin = make(seed=0), make(seed=5)
    for _ in range(3):
        policy.learn_mode.forward(rows())
    twin.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    for each in (policy, twin):
        for _ in range(2):
            each.learn_mode.forward(rows())
    ours, theirs = (dict(each.get_attribute("model").state_dict()) for each in (policy, twin))
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_modes_are_immutable_and_only_those_asked_for() -> None:
    policy = make()
    assert isinstance(policy.learn_mode, tuple)
    with pytest.raises(AttributeError):
        policy.learn_mode.forward = None  # type: ignore[misc]
    only_eval = DQNPolicy(
        DQNConfig(model=DQNModelConfig(type="dqn", obs_shape=4, action_shape=2)),
        enable_field=["eval"],
    )
    with pytest.raises(ModeError, match="learn_mode"):
        only_eval.learn_mode.forward(rows())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        policy.get_attribute("nothing")


def test_acting_by_numpy_and_by_torch_agree() -> None:
    obs = EnvBatch(np.arange(64), np.random.default_rng(0).standard_normal((64, 4), np.float32))
    by_numpy, by_torch = (
        make(collect=DQNCollectConfig(act_by_numpy=flag)).eval_mode.forward(obs).value["action"]
        for flag in (True, False)
    )
    assert np.array_equal(by_numpy, by_torch)
    assert set(by_numpy.tolist()) == {0, 1}


def test_learning_is_seen_by_those_who_act() -> None:
    policy = make(learn=DQNLearnConfig(learning_rate=0.5))
    obs = EnvBatch(np.arange(256), np.random.default_rng(0).standard_normal((256, 4), np.float32))
    before = policy.eval_mode.forward(obs).value["action"].copy()
    for _ in range(5):
        policy.learn_mode.forward(rows())
    assert not np.array_equal(before, policy.eval_mode.forward(obs).value["action"])


def test_epsilon_by_env_steps() -> None:
    setting = make().command_mode.get_setting_collect
    assert setting({"envstep": 0})["eps"] == pytest.approx(0.95)
    assert setting({"envstep": 10_000})["eps"] == pytest.approx(0.4127, abs=1e-4)


def test_a_loss_that_is_not_finite_is_not_learned() -> None:
    policy = make()
    before = {k: v.clone() for k, v in policy.get_attribute("model").state_dict().items()}
    bad = rows()
    bad["reward"][3] = np.nan
    policy.learn_mode.forward(bad)
    after = policy.get_attribute("model").state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


# ---- samples, through the collector


def manager(envs: int = 2, seed: int = 0) -> BaseEnvManager:
    import gymnasium

    made = BaseEnvManager([lambda: gymnasium.make("CartPole-v1", max_episode_steps=9)] * envs)
    made.seed(seed)
    return made


@pytest.mark.parametrize("nstep", [1, 3, 5])
@pytest.mark.parametrize("n_sample", [1, 2, 3, 7])
def test_exactly_as_many_samples_as_asked_for(nstep: int, n_sample: int) -> None:
    collector = SampleCollector(None, manager(), make(nstep=nstep).collect_mode)
    for train_iter in range(4):
        data = collector.collect_batch(n_sample, train_iter=train_iter)
        assert len(data) == n_sample
        assert data["collect_iter"].tolist() == [train_iter] * n_sample
        assert ("value_gamma" in data) == (nstep > 1)
    assert len(collector.collect(n_sample=1, drop_extra=False)) == 2
    collector.close()
    collector.close()


@pytest.mark.parametrize("nstep", [1, 3, 5])
def test_small_collects_are_the_large_one_bit_for_bit(nstep: int) -> None:
    """A stream in pieces of 8 equals one block of 240; episodes end and are cut in between."""

    def stream(pieces: list[int]) -> Batch:
        policy = make(nstep=nstep)
        collector = SampleCollector(None, manager(), policy.collect_mode)
        data = Batch.concat(
            [collector.collect_batch(n, policy_kwargs={"eps": 0.7}) for n in pieces]
        )
        collector.close()
        return data

    small, large = stream([8] * 30), stream([240])
    for key in large.columns:
        assert np.array_equal(small[key], large[key]), key


def test_truncation_bootstraps_and_termination_does_not() -> None:
    """With a limit of 9 steps most episodes are cut: their last samples are not `done`."""
    policy = make(nstep=1)
    collector = SampleCollector(None, manager(), policy.collect_mode)
    data = collector.collect_batch(400, policy_kwargs={"eps": 0.0})
    ends = np.zeros(400, bool)
    ends[collector.trajectory_end_idx] = True
    assert ends.sum() > 20
    upright = np.abs(data["next_obs"][:, 2]) < 0.2
    assert (data["done"][ends & upright] == 0).all()
    assert (data["done"][~ends] == 0).all()
    same_env = data["next_obs"][:-2][~ends[:-2]] == data["obs"][2:][~ends[:-2]]
    assert same_env.all()
    collector.close()


def test_warm_up_samples_have_the_same_columns() -> None:
    policy, envs = make(nstep=3), manager()
    collector = SampleCollector(None, envs, policy.collect_mode)
    collector.reset_policy(
        RandomPolicy(action_space=envs.action_space, like=policy.collect_mode).collect_mode
    )
    warm = collector.collect_batch(10)
    collector.reset_policy(policy.collect_mode)
    data = collector.collect_batch(10)
    assert warm.keys() == data.keys()
    assert warm.schema is data.schema
    collector.close()
