"""RecurrentPPO of sb3-contrib: equal actions along an episode, or what differs.

`recorded/sb3_recurrent.zip` is what `RecurrentPPO.save` wrote; the networks are built here in its
layout: LSTM, hidden layers, head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.request import TrainRequest
from dicore_compat.weights.convert import peer_weights
from dicore_plugins.export.import_weights import read_tensors
from dicore_tools.sessions import create

ARCHIVE = Path(__file__).parent / "recorded" / "sb3_recurrent.zip"
UNROLL = "policy.collect.unroll_len=32"
MEMORY = ["policy.model.rnn=lstm", "policy.model.rnn_hidden_size=4",
          "policy.model.encoder_hidden_size_list=[]",
          "policy.model.actor_head_hidden_size_list=[8]",
          "policy.model.activation=tanh", "policy.model.value_norm=false",
          UNROLL]  # fmt: skip


class Recurrent(nn.Module):
    """A policy with the names of sb3-contrib."""

    def __init__(self, inputs: int, actions: int, *, shared: bool) -> None:
        super().__init__()
        self.lstm_actor = nn.LSTM(inputs, 4)
        if not shared:
            self.lstm_critic = nn.LSTM(inputs, 4)
        self.mlp_extractor = nn.ModuleDict({
            f"{name}_net": nn.Sequential(nn.Linear(4, 8), nn.Tanh()) for name in ("policy", "value")
        })  # fmt: skip
        self.action_net, self.value_net = nn.Linear(8, actions), nn.Linear(8, 1)

    def act(self, obs: np.ndarray[Any, Any]) -> torch.Tensor:
        """Returns outputs of the head along an episode, [256, actions]."""
        with torch.no_grad():
            seen, _ = self.lstm_actor(torch.as_tensor(obs)[:, None])
            return self.action_net(self.mlp_extractor["policy_net"](seen[:, 0]))  # type: ignore[no-any-return]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)

    def make(env: str, *options: str) -> list[str]:
        memory = [
            each for each in MEMORY if each != UNROLL or "policy.model.rnn=null" not in options
        ]
        request = TrainRequest(
            env=env, policy="ppo", preset=False, exp_name="run",
            overrides=["env.stop_value=1", *memory, *options],
        )  # fmt: skip
        return ["--run", str(create(request).path), "--compare", "actions.npz"]

    return make


def episode(env_id: str) -> np.ndarray[Any, Any]:
    """Returns 256 observations; those of CartPole go on after the pole has fallen."""
    env = gymnasium.make(env_id).unwrapped
    found = [env.reset(seed=0)[0]]
    env.action_space.seed(0)
    while len(found) < 256:
        found.append(np.clip(env.step(env.action_space.sample())[0], -3, 3))
    return np.stack(found).astype(np.float32)


@pytest.mark.filterwarnings("ignore::UserWarning")  # steps beyond the end
def test_an_archive_acts_equally(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, obs = Recurrent(4, 2, shared=False), episode("CartPole-v1")
    theirs.load_state_dict(read_tensors(ARCHIVE))
    action = theirs.act(obs).argmax(1)
    assert len(action.unique()) == 2
    np.savez("actions.npz", obs=obs, action=action)
    given = ["import-weights", str(ARCHIVE), *made("cartpole")]
    assert main(given) == 2  # no critic
    assert "--partial" in capsys.readouterr().err
    assert main([*given, "--partial"]) == 0
    out, err = capsys.readouterr()
    assert "256 actions are equal to those of sb3" in err
    assert "the critic of the file has a network of its own (lstm_critic)" in err
    left = next(line for line in out.splitlines() if " not taken: " in line)
    assert "lstm_critic.weight_ih_l0" in left
    assert "value_net.bias" in left


def test_a_shared_memory_is_taken_whole(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, obs = Recurrent(3, 1, shared=True), episode("Pendulum-v1")
    state = {**theirs.state_dict(), "log_std": torch.full((1,), -0.5)}
    torch.save(state, "theirs.pt")
    action = theirs.act(obs)
    assert len(action.unique()) > 100
    np.savez("actions.npz", obs=obs, action=action)
    options = ["policy.model.critic_head_hidden_size_list=[8]", "policy.action_scaling=false"]
    given = ["import-weights", "theirs.pt", *made("pendulum", *options)]
    assert main(given) == 0
    out, err = capsys.readouterr()
    assert "256 actions are equal to those of sb3" in err
    assert "not taken" not in out
    assert "initial values" not in out
    found = peer_weights("theirs.pt")
    assert found is not None
    for ours, name in (
        ("critic.layers.0.weight", "mlp_extractor.value_net.0.weight"),
        ("critic.layers.1.bias", "value_net.bias"),
        ("rnn.rnn.bias_hh_l0", "lstm_actor.bias_hh_l0"),
        ("log_std", "log_std"),
    ):
        assert torch.equal(found.tensors[f"model.{ours}"], state[name])
    np.savez("actions.npz", obs=obs[::-1], action=action.numpy()[::-1])
    assert main(given) == 2
    assert "have to be those of one episode from its start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("policy.model.rnn=null", "policy.model.rnn is None"),
        ("policy.model.rnn=gru", "policy.model.rnn is gru"),
        ("policy.model.rnn_hidden_size=5", "rnn_hidden_size is 5"),
        ("policy.model.encoder_hidden_size_list=[16]", "encoder_hidden_size_list is [16]"),
        ("policy.model.actor_head_hidden_size_list=[]", "actor_head_hidden_size_list is []"),
    ],
)
def test_another_memory_is_named_with_all_options(
    option: str, said: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(Recurrent(4, 2, shared=True).state_dict(), "theirs.pt")
    assert main(["import-weights", "theirs.pt", *made("cartpole", option)[:2]]) == 2
    err = capsys.readouterr().err
    assert said in err
    for each in (*MEMORY[:4], "policy.model.critic_head_hidden_size_list=[8]"):
        assert each in err


def test_further_layers_and_images_are_refused(tmp_path: Path) -> None:
    state = Recurrent(4, 2, shared=True).state_dict()
    for more, said in (
        ({"lstm_actor.weight_ih_l1": torch.ones(16, 4)}, "of another layer than the first"),
        ({"features_extractor.linear.0.weight": torch.ones(4, 4)}, "behind convolutions"),
    ):
        torch.save(state | more, tmp_path / "theirs.pt")
        with pytest.raises(UsageError, match=said):
            peer_weights(tmp_path / "theirs.pt")
