"""What users override, replace or freeze counts, also where formulas and NumPy save time."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.random import seed_everything
from dicore_plugins.models import DQN, QAC, VAC
from dicore_plugins.models.encoders.mlp import MLP
from dicore_plugins.policies import PPOPolicy, create_policy

OBS = spaces.Box(-1, 1, (4,), np.float32)
ROWS = 16
CONTINUOUS = ("sac", "td3", "tqc")


def policy_of(name: str, model: Any = None, **options: Any) -> Any:
    box = spaces.Box(-1, 1, (2,), np.float32)
    seed_everything(0)
    return create_policy(
        {"type": name, **options},
        model=model,
        observation_space=OBS,
        action_space=box if name in CONTINUOUS else spaces.Discrete(3),
    )


def samples(name: str) -> Batch:
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((ROWS, 4), np.float32) for _ in range(2)]
    numbers = rng.standard_normal((4, ROWS)).astype(np.float32)
    actions = rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32)
    return Batch(
        {
            "obs": rows[0],
            "next_obs": rows[1],
            "action": actions if name in CONTINUOUS else rng.integers(0, 3, ROWS),
            **dict(zip(("reward", "advantage", "target", "value"), numbers, strict=True)),
            "log_prob": np.full(ROWS, -1.0, np.float32),
            "done": np.zeros(ROWS, np.float32),
        },
        ROWS,
    )


def acted(policy: Any) -> dict[str, Any]:
    obs = np.random.default_rng(2).standard_normal((5, 4), np.float32)
    output: dict[str, Any] = policy.get_attribute("actor").forward(obs)
    return output


def parameters(policy: Any) -> list[Any]:
    both = [policy.get_attribute("model"), getattr(policy, "_target_model", None)]
    return [each.detach().clone() for net in both if net is not None for each in net.parameters()]


class Still(PPOPolicy):
    """PPO without a loss."""

    def _loss(self, *args: Any, **settings: Any) -> Any:
        parts, info = super()._loss(*args, **settings)
        return type(parts)(*(0 * each for each in parts)), info


def test_a_loss_that_a_subclass_overrides_is_minimised() -> None:
    model = VAC(4, 3)
    policy = Still({"model": {"obs_shape": 4, "action_shape": 3}}, model=model)
    before = parameters(policy)
    policy.learn_mode.forward(samples("ppo"))
    torch.testing.assert_close(parameters(policy), before, rtol=0, atol=0)


class Doubled(nn.Linear):
    """A layer with another output."""

    def forward(self, x: Any) -> Any:
        """Returns twice the output of a linear layer."""
        return 2 * super().forward(x)


class DoubledMLP(MLP):
    """Layers with another output."""

    def forward(self, x: Any) -> Any:
        """Returns twice the output."""
        return 2 * super().forward(x)


class DoubledVAC(VAC):
    """A network with other logits and values."""

    def forward(self, *args: Any, **mode: Any) -> dict[str, Any]:
        """Returns twice each output."""
        return {key: 2 * each for key, each in super().forward(*args, **mode).items()}


class DoubledLogit(VAC):
    """A network with other logits."""

    def _distribution(self, x: Any) -> dict[str, Any]:
        return {"logit": 2 * super()._distribution(x)["logit"]}


class DoubledDQN(DQN):
    """A network with other values."""

    def forward(self, obs: Any) -> dict[str, Any]:
        """Returns twice the values."""
        return {"logit": 2 * super().forward(obs)["logit"]}


class DoubledQAC(QAC):
    """A network with another policy."""

    def policy(self, obs: Any) -> dict[str, Any]:
        """Returns twice the mean."""
        return {"mean": 2 * super().policy(obs)["mean"], "log_std": super().policy(obs)["log_std"]}


def replaced(model: Any, part: str, made: nn.Module) -> Any:
    *most, last = part.split(".")
    at: Any = model
    for name in most:
        at = at[int(name)] if name.isdigit() else getattr(at, name)
    if last.isdigit():
        at[int(last)] = made
    else:
        setattr(at, last, made)
    return model


def tanh_net(*sizes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(sizes[0], 8), nn.Tanh(), nn.Linear(8, sizes[1]))


CHANGED: dict[str, tuple[str, Callable[[], Any]]] = {
    "forward of VAC": ("ppo", lambda: DoubledVAC(4, 3)),
    "logits of VAC": ("ppo", lambda: DoubledLogit(4, 3)),
    "forward of DQN": ("dqn", lambda: DoubledDQN(4, 3)),
    "policy of QAC": ("sac", lambda: DoubledQAC(4, 2)),
    "actor of VAC": ("ppo", lambda: replaced(VAC(4, 3), "actor", tanh_net(4, 3))),
    "class of an actor": ("ppo", lambda: replaced(VAC(4, 3), "actor", DoubledMLP((4, 8, 3)))),
    "layer of VAC": ("ppo", lambda: replaced(VAC(4, 3), "actor.layers.2", nn.Linear(64, 3))),
    "class of a layer": ("ppo", lambda: replaced(VAC(4, 3), "actor.layers.1", Doubled(64, 64))),
    "encoder of DQN": ("dqn", lambda: replaced(DQN(4, 3), "encoder", tanh_net(4, 64))),
    "head of DQN": ("dqn", lambda: replaced(DQN(4, 3), "heads.0", nn.Linear(64, 3))),
    "stream of DQN": ("dqn", lambda: replaced(DQN(4, 3), "heads.0.advantage", nn.Linear(64, 3))),
    "actor of QAC": ("sac", lambda: replaced(QAC(4, 2), "actor", tanh_net(4, 4))),
    "critic's class": ("sac", lambda: with_dropout(QAC(4, 2))),
}


def with_dropout(model: QAC) -> QAC:
    critic = importlib.import_module("tests.plugins.policies.strangers.dropq").DropoutMLP
    model.critic = critic(2, (6, 256, 256, 1))
    return model


@pytest.mark.parametrize("form", CHANGED)
def test_what_a_network_overrides_or_replaces_acts_and_learns(form: str) -> None:
    """Acting equals the module's outputs, and updates those by autograd through them."""
    name, made = CHANGED[form]
    torch.manual_seed(0)
    model = made()
    twin = copy.deepcopy(model)
    policy = policy_of(name, model)
    obs = np.random.default_rng(2).standard_normal((5, 4), np.float32)
    with torch.no_grad():
        wanted = model(torch.from_numpy(obs))
    for key, found in acted(policy).items():
        np.testing.assert_allclose(found, wanted[key].numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
    twin.differentiable = lambda: False  # by autograd
    other = policy_of(name, twin)
    for each in (policy, other):
        each.learn_mode.forward(samples(name))
    torch.testing.assert_close(parameters(policy), parameters(other), rtol=1e-4, atol=1e-5)
    trained = {key for key, each in model.named_parameters() if each.grad.any()}
    assert trained.issuperset(key for key, _ in model.named_parameters() if "weight" in key)


def test_a_reparametrised_layer_is_called() -> None:
    model = VAC(4, 3)
    layer: Any = model.actor.layers[0]
    nn.utils.parametrizations.spectral_norm(layer)
    policy = policy_of("ppo", model)
    assert acted(policy)["logit"].shape == (5, 3)
    policy.learn_mode.forward(samples("ppo"))
    assert layer.parametrizations.weight.original.grad.any()


def test_hooks_run_in_updates() -> None:
    policy, calls = policy_of("ppo"), []
    model = policy.get_attribute("model")
    model.register_forward_pre_hook(lambda *_: calls.append("before"))
    policy.learn_mode.forward(samples("ppo"))
    assert calls
    policy = policy_of("sac")
    weight = next(policy.get_attribute("model").critic.parameters())
    weight.register_hook(lambda gradient: calls.append("gradient"))
    policy.learn_mode.forward(samples("sac"))
    assert "gradient" in calls


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_a_network_that_is_frozen_in_part_is_refused(name: str) -> None:
    """Later updates do not move it in silence either."""
    policy = policy_of(name)
    policy.learn_mode.forward(samples(name))
    next(policy.get_attribute("model").parameters()).requires_grad_(False)
    with pytest.raises(UsageError, match="require a gradient and some do not"):
        policy.learn_mode.forward(samples(name))


@pytest.mark.parametrize("name", ["dqn", "fqf", "sac", "td3", "ppo", "acer"])
def test_a_copy_of_a_policy_learns_and_acts_by_its_own_networks(name: str) -> None:
    policy = policy_of(name)
    if name == "acer":
        assert copy.deepcopy(policy).get_attribute("average_flat").intact()
        return
    policy.learn_mode.forward(samples(name))
    twin, before = copy.deepcopy(policy), parameters(policy)
    shown = acted(policy)
    twin.learn_mode.forward(samples(name))
    torch.testing.assert_close(parameters(policy), before, rtol=0, atol=0)
    np.testing.assert_equal(acted(policy), shown)
    policy.learn_mode.forward(samples(name))
    torch.testing.assert_close(parameters(twin), parameters(policy))
    for key, each in acted(twin).items():
        np.testing.assert_allclose(each, acted(policy)[key], rtol=1e-5, atol=1e-6)
        assert key == "log_std" or (each != shown[key]).any()
