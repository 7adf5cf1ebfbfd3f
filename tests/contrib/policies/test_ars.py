"""Augmented random search: its step, its tries, and how they come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError
from dicore.run.launch import launch
from dicore.run.random import seeded
from dicore_contrib import ARSNet, ARSPolicy, ars_step
from dicore_contrib.policies.ars import direction_of


def policy(**options: Any) -> ARSPolicy:
    model = {"obs_shape": 3, "action_shape": 2, "continuous": True, **options.pop("model", {})}
    spaces = {"action_low": (-2.0, -2.0), "action_high": (2.0, 2.0)}
    with seeded(0):
        return ARSPolicy({"model": model, **spaces, **options})


def theta(of: ARSPolicy) -> np.ndarray[Any, Any]:
    model = of.get_attribute("model")
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


@pytest.mark.parametrize("top", [None, 2])
def test_a_step_weights_directions_by_their_returns(top: int | None) -> None:
    plus, minus = np.array([3.0, -1.0, 5.0]), np.array([1.0, -2.0, 4.0])
    used = [0, 1, 2] if top is None else [0, 2]  # highest of each: 3, -1, 5
    returns = [each for k in used for each in (plus[k], minus[k])]
    mean = sum(returns) / len(returns)
    std = (sum((each - mean) ** 2 for each in returns) / len(returns)) ** 0.5
    wanted = [(plus[k] - minus[k]) / (len(used) * std) if k in used else 0.0 for k in range(3)]
    assert ars_step(plus, minus, top) == pytest.approx(wanted)
    assert ars_step(np.ones(2), np.ones(2)).tolist() == [0, 0]
    assert ars_step(np.full(2, np.nan), np.full(2, np.nan)).tolist() == [0, 0]


@pytest.mark.parametrize("bias", [True, False])
def test_networks_side_by_side_are_each_one(bias: bool) -> None:
    net = ARSNet(3, 2, (5, 4), bias=bias)
    rows = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    size = sum(each.numel() for each in net.parameters())
    parameters = np.random.default_rng(1).standard_normal((6, size)).astype(np.float32)
    found = net.each(parameters, rows)
    for row, vector, output in zip(rows, parameters, found, strict=True):
        nn.utils.vector_to_parameters(torch.from_numpy(vector), net.parameters())
        wanted = net(torch.from_numpy(row[None]))["logit"][0].detach().numpy()
        assert output == pytest.approx(wanted, abs=1e-5)


def test_each_episode_tries_one_of_a_pair() -> None:
    ars = policy(collect={"n_episode": 4, "noise": 0.5}, model={"hidden_size_list": ()})
    mode, obs = ars.collect_mode, np.full((2, 3), 0.5, np.float32)
    seen = []
    for _ in range(2):
        first = mode.forward(EnvBatch(np.arange(2), obs)).value
        again = mode.forward(EnvBatch(np.arange(2), obs)).value
        assert np.array_equal(first["action"], again["action"])
        seen += list(zip(first["direction"].tolist(), first["sign"].tolist(), strict=True))
        mode.reset([0, 1])
    assert [sign for _, sign in seen] == [1, -1, 1, -1]
    assert seen[0][0] == seen[1][0] != seen[2][0] == seen[3][0]
    change = theta(ars) + 0.5 * direction_of(seen[0][0], len(theta(ars)))
    weight, bias = change[:6].reshape(2, 3), change[6:]
    wanted = 2 * np.clip(weight @ obs[0] + bias, -1, 1)
    first = mode.forward(EnvBatch(np.arange(1), obs[:1])).value  # a third pair
    assert first["direction"][0] not in {each for each, _ in seen}
    mode.set_attribute("collect_state", {"waiting": [[seen[0][0], 1]], "tries": []})
    assert mode.forward(EnvBatch(np.arange(1), obs[:1])).value["action"][0] == pytest.approx(wanted)


def steps(rows: list[tuple[int, int, float]]) -> Batch:
    """Steps of direction, sign and reward, each twice; the episodes are mixed."""
    direction, sign, reward = (np.array(each) for each in zip(*rows, *rows, strict=True))
    obs = np.random.default_rng(0).standard_normal((len(reward), 3)).astype(np.float32)
    columns = {"direction": direction, "sign": sign, "reward": reward.astype(np.float32)}
    return Batch({"obs": obs, **columns}, len(reward))


def test_the_learner_draws_the_directions_again() -> None:
    ars = policy(learn={"learning_rate": 0.1, "alive_bonus": 1.0})
    before = theta(ars).copy()
    data = steps([(7, 1, 3.0), (7, -1, 2.0), (9, -1, 1.5), (9, 1, 1.0), (11, 1, 6.0)])
    found: Any = ars.learn_mode.forward(data)  # returns: 4, 2, 1, 0, 10; one of 11 is not there
    mean, std = np.mean([4, 2, 1, 0, 10]), np.std([4, 2, 1, 0, 10])
    size = len(before)
    gained = {7: 4 - 2, 9: 0 - 1, 11: 10 - mean}
    wanted = (
        0.1 / (3 * std) * sum(value * direction_of(seed, size) for seed, value in gained.items())
    )
    assert theta(ars) - before == pytest.approx(wanted, abs=1e-6)
    assert found["total_loss"] == pytest.approx(-mean)
    assert found["step_norm"] == pytest.approx(np.linalg.norm(wanted))
    assert found["pairs"] == pytest.approx(2 / 3)


def test_halves_of_pairs_do_not_wait_for_other_parameters() -> None:
    """Else one episode that was broken off would tear all pairs after it apart."""
    ars = policy(collect={"n_episode": 4})
    mode, obs = ars.collect_mode, np.zeros((1, 3), np.float32)
    states = [None, {"model": ars.learn_mode.state_dict()["model"]}]
    for state in states:
        mode.forward(EnvBatch(np.arange(1), obs))  # the first half of a pair
        if state is None:
            ars.learn_mode.forward(steps([(7, 1, 3.0), (7, -1, 2.0)]))
        else:
            mode.load_state_dict(state)
        mode.reset([0])
        assert mode.forward(EnvBatch(np.arange(1), obs)).value["sign"].tolist() == [1]
        mode.reset([0])


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64])
def test_observations_are_numbers_of_any_kind(kind: Any) -> None:
    ars = policy(model={"obs_norm": True})
    seen = EnvBatch(np.arange(2), np.ones((2, 3), kind))
    for mode in (ars.collect_mode, ars.eval_mode):
        assert np.isfinite(mode.forward(seen).value["action"]).all()
    data = steps([(7, 1, 3.0), (7, -1, 2.0)])
    ars.learn_mode.forward(Batch({**data.columns, "obs": np.ones((4, 3), kind)}, 4))


def test_observations_are_normalised_by_those_of_former_collects() -> None:
    ars = policy(model={"obs_norm": True})
    data = steps([(7, 1, 3.0), (7, -1, 2.0)])
    ars.learn_mode.forward(data)
    norm = ars.get_attribute("model").norm
    assert norm.mean.tolist() == pytest.approx(data["obs"].mean(0).tolist(), abs=1e-6)
    assert norm.var.tolist() == pytest.approx(data["obs"].var(0).tolist(), abs=1e-6)
    row = np.ones((1, 3), np.float32)
    vector = theta(ars)[None]
    plain = ARSNet(3, 2, continuous=True)
    nn.utils.vector_to_parameters(torch.from_numpy(vector[0]), plain.parameters())
    wanted = plain(torch.from_numpy((row - norm.mean.numpy()) / norm.std.numpy()))["mean"]
    found = ars.get_attribute("model").each(vector, row)
    assert found[0] == pytest.approx(wanted[0].detach().numpy(), abs=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("collect.n_episode=3", "must be even"),
        ("learn.top_directions=9", "must be <= 8, half of collect.n_episode"),
        ("learn.batch_size=4", "learns from all episodes"),
        ("discount_factor=0.9", "undiscounted"),
        ("collect.n_sample=8", "whole episodes"),
        ("priority_IS_weight=True", "no replay buffer"),
        ("learn.ignore_done=True", "no values"),
        ("learn.optimizer=adam", "without gradients"),
        ("other.replay_buffer=advanced", "used once"),
        ("other.replay_buffer.replay_buffer_size=5", "used once"),
    ],
)
def test_options_that_cannot_be_are_one_error(options: str, text: str) -> None:
    config = {"env": "cartpole", "policy": "ars"}
    with pytest.raises(ConfigError, match=text):
        compile_config(config, overrides=[f"policy.{options}"])


@pytest.mark.parametrize(("preset", "normalised"), [("cartpole_ars", False), ("swimmer_ars", True)])
def test_presets_are_a_version_of_the_paper(preset: str, normalised: bool) -> None:
    policy = compile_config({}, preset=preset).policy
    assert policy.model.obs_norm == normalised
    assert policy.model.hidden_size_list == ()


def test_parameters_that_are_not_finite_are_told() -> None:
    ars = policy()
    with torch.no_grad():
        next(iter(ars.get_attribute("model").parameters())).fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="the network returns NaN"):
        ars.eval_mode.forward(EnvBatch(np.arange(1), np.ones((1, 3), np.float32)))


def test_a_training_that_was_stopped_goes_on_exactly(tmp_path: Path) -> None:
    def trained(name: str, steps: int) -> Any:
        return launch(
            env="cartpole", policy="ars", seed=3, exp_name=str(tmp_path / name),
            max_env_step=steps, overrides=["pipeline.logger=[]", "policy.collect.n_episode=6"],
        )  # fmt: skip

    trained("whole", 900)
    trained("part", 400)
    launch(resume=str(tmp_path / "part"), max_env_step=900)
    whole, part = (
        load_file(tmp_path / name / "ckpt/final/tensors.safetensors") for name in ("whole", "part")
    )
    assert all(np.array_equal(whole[name], part[name]) for name in whole.keys() | part.keys())
