"""CleanRL's Atari scripts, its SAC, TD3 and DDPG: equal actions, or the layer that is another.

The networks have the shapes of dqn_atari.py, ppo_atari.py and of the scripts named
*_continuous_action.py, with other sizes; their weights are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.request import TrainRequest
from dicore_compat.weights.convert import peer_weights
from dicore_tools.sessions import create

IMAGES = """
import gymnasium, numpy as np

class Images(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (4, 36, 36), np.uint8)
    action_space = gymnasium.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (4, 36, 36), np.uint8), {}

    def step(self, action):
        return self.np_random.integers(0, 256, (4, 36, 36), np.uint8), 0.0, True, False, {}
"""
NATURE = ["env.stop_value=1", "policy.model.encoder_hidden_size_list=[32]",
          "policy.model.activation=relu", "policy.model.layer_norm=false"]  # fmt: skip
SAC = ["policy.model.actor_hidden_size_list=[16, 16]",
       "policy.model.critic_hidden_size_list=[16, 16]"]  # fmt: skip


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a run with the network of a checkpoint."""
    monkeypatch.chdir(tmp_path)
    Path("images.py").write_text(IMAGES)
    torch.manual_seed(0)

    def make(env: str, policy: str, *options: str) -> Path:
        request = TrainRequest(
            env=env, policy=policy, preset=False, exp_name="run", overrides=[*options]
        )
        return create(request).path

    return make


def nature() -> nn.Sequential:
    """The layers of both Atari scripts before the heads."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(),
    )  # fmt: skip


class DQN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(*nature(), nn.Linear(32, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x / 255.0)  # type: ignore[no-any-return]


class PPO(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nature()
        self.actor, self.critic = nn.Linear(32, 5), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.actor(self.network(x / 255.0))  # type: ignore[no-any-return]


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 16), nn.Linear(16, 16)
        self.fc_mean, self.fc_logstd = nn.Linear(16, 1), nn.Linear(16, 1)
        self.register_buffer("action_scale", torch.tensor([[2.0]]))
        self.register_buffer("action_bias", torch.tensor([[0.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc2(self.fc1(x).relu()).relu()
        return self.fc_mean(x).tanh() * self.action_scale + self.action_bias  # type: ignore[no-any-return]


class Q(nn.Module):
    def __init__(self, inputs: int = 4) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs, 16), nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())  # type: ignore[no-any-return]


def images() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (256, 4, 36, 36), np.uint8)


def vectors() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)


def spread(network: nn.Module) -> None:
    """Makes outputs so large that actions differ from observation to observation."""
    with torch.no_grad():
        for each in network.parameters():
            each.mul_(2.0)


def words(run: Path, obs: np.ndarray[Any, Any], action: torch.Tensor) -> list[str]:
    np.savez("actions.npz", obs=obs, action=action.numpy())
    return ["import-weights", "theirs.pt", "--run", str(run), "--compare", "actions.npz", "--trust"]


@pytest.mark.parametrize(("policy", "network"), [("dqn", DQN), ("ppo", PPO)])
def test_convolutions_act_equally(
    policy: str, network: Any, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, obs = network(), images()
    spread(theirs)
    torch.save(theirs.state_dict(), "theirs.pt")
    with torch.no_grad():
        action = theirs(torch.as_tensor(obs)).argmax(1)
    assert len(action.unique()) > 1
    more = ["policy.model.value_norm=false"] if policy == "ppo" else ["policy.model.dueling=false"]
    run = made("images.py:Images", policy, *NATURE, *more)
    assert main(words(run, obs, action)) == 0
    assert "256 actions are equal to those of cleanrl" in capsys.readouterr().err
    assert main(words(run, obs, (action + 1) % 5)) == 2


@pytest.mark.parametrize("form", ["tuple", "dict"])
def test_sac_acts_equally(form: str, made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor, twins, obs = Actor(), (Q(), Q()), vectors()
    states = [each.state_dict() for each in (actor, *twins)]
    names = ("actor", "qf1", "qf2")
    torch.save(tuple(states) if form == "tuple" else dict(zip(names, states, strict=True)),
               "theirs.pt")  # fmt: skip
    with torch.no_grad():
        action = actor(torch.as_tensor(obs))
        pair = torch.cat([torch.as_tensor(obs), torch.rand(256, 1)], 1)
        wanted = torch.stack([each(pair) for each in twins])
    run = made("pendulum", "sac", *SAC)
    assert main(words(run, obs, action)) == 0
    out = capsys.readouterr()
    assert "256 actions are equal to those of cleanrl" in out.err
    assert "exploration differs" in out.err
    assert "not taken" not in out.out
    ours = peer_weights("theirs.pt")
    assert ours is not None
    x = pair.expand(2, -1, -1)
    for i in range(3):
        x = x @ ours.tensors[f"model.critic.weights.{i}"] + ours.tensors[f"model.critic.biases.{i}"]
        x = x.relu() if i < 2 else x
    torch.testing.assert_close(x, wanted)


class Mu(nn.Module):
    """The actor of td3_continuous_action.py and ddpg_continuous_action.py."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 16), nn.Linear(16, 16)
        self.fc_mu = nn.Linear(16, 1)
        self.register_buffer("action_scale", torch.tensor([2.0]))
        self.register_buffer("action_bias", torch.tensor([0.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc2(self.fc1(x).relu()).relu()
        return self.fc_mu(x).tanh() * self.action_scale + self.action_bias  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", ["tuple", "dict", "sorted"])
@pytest.mark.parametrize("policy", ["td3", "ddpg"])
def test_actors_without_deviations_act_equally(
    policy: str, form: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    actor, obs = Mu(), vectors()
    spread(actor)
    twins = [Q() for _ in range(2 if policy == "td3" else 1)]
    states = [each.state_dict() for each in (actor, *twins)]
    named = dict(zip(("actor", "qf1", "qf2"), states, strict=False))
    if form == "sorted":  # as safetensors orders names
        named = {name: dict(sorted(each.items())) for name, each in named.items()}
    torch.save(tuple(states) if form == "tuple" else named, "theirs.pt")
    with torch.no_grad():
        action = actor(torch.as_tensor(obs))
    assert len(action.unique()) > 100
    run = made("pendulum", policy, *SAC)
    assert main(words(run, obs, action)) == 0
    out = capsys.readouterr()
    assert "256 actions are equal to those of cleanrl" in out.err
    assert "exploration differs" not in out.err
    assert "not taken" not in out.out
    ours = peer_weights("theirs.pt")
    assert ours is not None
    assert ours.actions.number == 1
    for number, theirs in enumerate(twins):
        pair = torch.cat([torch.as_tensor(obs), torch.rand(256, 1)], 1)
        x = pair
        for i in range(3):
            x = x @ ours.tensors[f"model.critic.weights.{i}"][number]
            x = x + ours.tensors[f"model.critic.biases.{i}"][number]
            x = x.relu() if i < 2 else x
        torch.testing.assert_close(x, theirs(pair))
    assert main(words(run, obs, action + 0.01)) == 2


def test_an_actor_of_td3_alone_needs_partial(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor, obs = Mu(), vectors()
    torch.save(actor.state_dict(), "theirs.pt")
    with torch.no_grad():
        action = actor(torch.as_tensor(obs))
    run = made("pendulum", "td3", *SAC)
    assert main([*words(run, obs, action), "--partial"]) == 0
    assert "256 actions are equal" in capsys.readouterr().err


def test_an_actor_alone_needs_partial(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor, obs = Actor(), vectors()
    torch.save(actor.state_dict(), "theirs.pt")
    with torch.no_grad():
        action = actor(torch.as_tensor(obs))
    run = made("pendulum", "sac", *SAC)
    assert main(words(run, obs, action)) == 2
    capsys.readouterr()
    assert main([*words(run, obs, action), "--partial"]) == 0
    assert "256 actions are equal" in capsys.readouterr().err


def test_another_activation_of_sac_is_named(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    actor, obs = Actor(), vectors()
    torch.save((actor.state_dict(), Q().state_dict(), Q().state_dict()), "theirs.pt")
    with torch.no_grad():
        action = actor(torch.as_tensor(obs))
    run = made("pendulum", "sac", *SAC, "policy.model.activation=tanh")
    assert main(words(run, obs, action)) == 2
    assert "after layer 0.fc1 there is relu" in capsys.readouterr().err


def sac(scale: float = 2.0, bias: float = 0.0) -> list[dict[str, torch.Tensor]]:
    """State dicts of an actor with this range of actions, and of two Q networks."""
    actor = Actor().state_dict()
    actor["action_scale"].fill_(scale)
    actor["action_bias"].fill_(bias)
    return [actor, Q().state_dict(), Q().state_dict()]


@pytest.mark.parametrize(("scale", "bias"), [(0.4, 0.0), (2.0, 0.1)])
def test_another_range_of_actions_is_refused(
    scale: float, bias: float, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(tuple(sac(scale, bias)), "theirs.pt")
    run = made("pendulum", "sac", *SAC)
    assert main(["import-weights", "theirs.pt", "--run", str(run)]) == 2
    wanted = f"action_scale is {scale:g} and action_bias {bias:g} in the file, 2 and 0 in the run's"
    assert wanted in capsys.readouterr().err


def test_networks_in_another_order_or_number_are_named(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    actor, first, second = sac()
    run = made("pendulum", "sac", *SAC)
    torch.save((first, second, actor), "theirs.pt")
    assert main(["import-weights", "theirs.pt", "--run", str(run)]) == 2
    assert "the actor (2.fc_mean) is number 3" in capsys.readouterr().err
    torch.save((actor, first), "theirs.pt")
    assert main(["import-weights", "theirs.pt", "--run", str(run)]) == 2
    err = capsys.readouterr().err
    assert "the file has 1 of the Q networks (1.fc1), but policy.model.num_critics is 2" in err


def test_complex_and_infinite_weights_are_refused(tmp_path: Path) -> None:
    actor, first, second = sac()
    broken = {**second, "fc2.bias": second["fc2.bias"] * float("inf")}
    torch.save((actor, first, broken), tmp_path / "a.pt")
    with pytest.raises(UsageError, match=r"2\.fc2\.bias has values that are not") as caught:
        peer_weights(tmp_path / "a.pt")
    assert "diverged" in caught.value.hint
    actor = {name: each.to(torch.complex64) for name, each in actor.items()}
    torch.save((actor, first, second), tmp_path / "a.pt")
    with pytest.raises(UsageError, match=r"0\.\w+ has complex numbers"):
        peer_weights(tmp_path / "a.pt")


def linear(name: str, inputs: int, outputs: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": torch.ones(outputs, inputs), f"{name}.bias": torch.ones(outputs)}


CONV = {"network.0.weight": torch.ones(8, 4, 3, 3), "network.0.bias": torch.ones(8)}


@pytest.mark.parametrize(("tensors", "error"), [
    ({**CONV, **linear("network.3", 15, 2)}, r"network\.3 takes 15 numbers, which network\.0"),
    ({"network.0.weight": torch.ones(8, 4, 3, 3), **linear("network.3", 16, 2)}, "without a bias"),
    ({**CONV, **linear("network.3", 16, 6), **linear("actor", 5, 2), **linear("critic", 6, 1)},
     r"layer actor is \[2, 5\], but network\.3 before it gives 6"),
    ({**linear("fc1", 3, 4), **linear("fc_mean", 4, 1), **linear("fc_logstd", 4, 2)},
     r"layer fc_mean is \[1, 4\], fc_logstd is \[2, 4\]"),
    ({**linear("actor.fc1", 3, 4), **linear("actor.fc_mean", 4, 1),
      **linear("actor.fc_logstd", 4, 1), **linear("qf1.fc1", 4, 1), **linear("qf2.fc1", 5, 1)},
     "Q networks have layers of different sizes"),
])  # fmt: skip
def test_layers_that_do_not_fit_are_named(
    tensors: dict[str, torch.Tensor], error: str, tmp_path: Path
) -> None:
    torch.save(tensors, tmp_path / "a.pt")
    with pytest.raises(UsageError, match=error):
        peer_weights(tmp_path / "a.pt")
