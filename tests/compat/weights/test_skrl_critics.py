"""skrl's SAC, TD3 and DDPG: equal actions, or what differs.

The networks have the two layouts of its examples: `net`, or layers by name; and the names of what
its agents save. Their weights are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.request import TrainRequest
from dicore_compat.weights.convert import peer_weights
from dicore_tools.sessions import create
from tests.compat.weights.test_cleanrl import SAC, spread, vectors, words

CRITICS = {"sac": ("critic_1", "critic_2"), "td3": ("critic_1", "critic_2"), "ddpg": ("critic",)}


def sequential(inputs: int, *end: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                         nn.Linear(16, 1), *end)  # fmt: skip


class Net(nn.Module):
    def __init__(self, inputs: int, *end: nn.Module, noise: bool = False) -> None:
        super().__init__()
        self.net = sequential(inputs, *end)
        if noise:
            self.log_std_parameter = nn.Parameter(torch.full((1,), -0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)  # type: ignore[no-any-return]


class Named(nn.Module):
    def __init__(self, inputs: int, *end: nn.Module, noise: bool = False) -> None:
        super().__init__()
        self.action_layer = nn.Linear(16, 1)  # the order of a file says nothing
        self.linear_layer_1, self.linear_layer_2 = nn.Linear(inputs, 16), nn.Linear(16, 16)
        self.end = nn.Sequential(*end)
        if noise:
            self.log_std_parameter = nn.Parameter(torch.full((1,), -0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear_layer_2(self.linear_layer_1(x).relu()).relu()
        return self.end(self.action_layer(x))  # type: ignore[no-any-return]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)

    def make(policy: str, *options: str) -> Path:
        request = TrainRequest(
            env="pendulum", policy=policy, preset=False, exp_name="run",
            overrides=[*SAC, *options],
        )  # fmt: skip
        return create(request).path

    return make


def saved(policy: str, layout: Any, *, normalised: bool = False) -> tuple[nn.Module, list[Net]]:
    """Saves what an agent of skrl saves; returns the policy and its critics."""
    actor = layout(3, nn.Tanh(), noise=policy == "sac")
    spread(actor)
    critics = [Net(4) for _ in CRITICS[policy]]
    state = {"policy": actor.state_dict()}
    for name, each in zip(CRITICS[policy], critics, strict=True):
        state |= {name: each.state_dict(), f"target_{name}": Net(4).state_dict()}
    if policy != "sac":
        state["target_policy"] = layout(3).state_dict()
    adam = {"step": torch.tensor(3.0), "exp_avg": torch.zeros(3)}
    for name in ("policy", "critic"):
        state[f"{name}_optimizer"] = {"state": {0: adam}, "param_groups": [{"lr": 1e-3}]}
    if normalised:
        state["observation_preprocessor"] = {
            "running_mean": torch.tensor([0.3, -0.2, 1.0], dtype=torch.float64),
            "running_variance": torch.tensor([0.5, 2.0, 4.0], dtype=torch.float64),
            "current_count": torch.tensor(100.0, dtype=torch.float64),
        }
    torch.save(state, "theirs.pt")
    return actor, critics


@pytest.mark.parametrize("layout", [Net, Named])
@pytest.mark.parametrize("policy", ["sac", "td3", "ddpg"])
def test_actions_and_values_are_equal(
    policy: str, layout: Any, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run, obs = made(policy), vectors()
    actor, critics = saved(policy, layout)
    with torch.no_grad():
        action = 2 * actor(torch.as_tensor(obs))
    assert len(action.unique()) > 100
    assert main(words(run, obs, action)) == 0
    out = capsys.readouterr()
    assert "256 actions are equal to those of skrl" in out.err
    assert "tanh after the last layer of the policy is not in the file" in out.err
    assert ("exploration differs" in out.err) == (policy == "sac")
    assert "not taken" not in out.out
    assert values_differ("theirs.pt", critics, obs) == 0
    assert main(words(run, obs, action / 2)) == 2


def test_statistics_become_part_of_the_first_layers(made: Any) -> None:
    run, obs = made("sac"), vectors()
    actor, critics = saved("sac", Net, normalised=True)
    mean, std = torch.tensor([0.3, -0.2, 1.0]), torch.tensor([0.5, 2.0, 4.0]).sqrt()
    normal = ((torch.as_tensor(obs) - mean) / std).float()
    with torch.no_grad():
        action = 2 * actor(normal)
    assert main(words(run, obs, action)) == 0
    assert values_differ("theirs.pt", critics, obs, normal) == 0


def test_deviations_of_sac_are_those_of_the_file(made: Any) -> None:
    made("sac")
    saved("sac", Net)
    found = peer_weights("theirs.pt")
    assert found is not None
    weight, bias = (found.tensors[f"model.actor.layers.2.{part}"] for part in ("weight", "bias"))
    assert weight.shape == (2, 16)
    assert not weight[1].any()
    assert bias[1] == pytest.approx(-1.4)  # `spread` doubles it
    assert found.actions.number == 1


def test_a_policy_without_tanh_is_found_out(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run, obs = made("sac"), vectors()
    actor, _ = saved("sac", Net)
    with torch.no_grad():
        action = 2 * actor(torch.as_tensor(obs)).atanh().clip(-1, 1)
    assert main(words(run, obs, action)) == 2
    assert "actions differ from those of skrl" in capsys.readouterr().err


def test_a_deviation_of_another_size_is_refused(made: Any) -> None:
    made("sac")
    saved("sac", Net)
    state = torch.load("theirs.pt", weights_only=True)  # noqa: TID251 - weights only
    state["policy"]["log_std_parameter"] = torch.zeros(2)
    torch.save(state, "theirs.pt")
    with pytest.raises(UsageError, match=r"log_std_parameter is \[2\], but layer policy\.net\.4"):
        peer_weights("theirs.pt")


def values_differ(
    file: str, critics: list[Net], obs: Any, normal: torch.Tensor | None = None
) -> int:
    """Returns how many values of the critics differ from ours."""
    found = peer_weights(file)
    assert found is not None
    action = torch.rand(256, 1)
    differ = 0
    for number, each in enumerate(critics):
        x = torch.cat([torch.as_tensor(obs), action], 1)
        wanted = each(x if normal is None else torch.cat([normal, action], 1))
        for i in range(3):
            x = x @ found.tensors[f"model.critic.weights.{i}"][number]
            x = x + found.tensors[f"model.critic.biases.{i}"][number]
            x = x.relu() if i < 2 else x
        differ += int((~torch.isclose(x, wanted, rtol=1e-4, atol=1e-4)).sum())
    return differ
