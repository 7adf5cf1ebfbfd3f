"""Recurrent models: steps and sequences agree, episodes inside of sequences start from zeros."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dicore.errors import ConfigError
from dicore_plugins.models import DRQN, VAC, Recurrent, create_model

T, B = 7, 5


def parts(value: Any) -> list[torch.Tensor]:
    return value if isinstance(value, list) else [value]


MODELS = {
    "drqn-lstm": lambda: DRQN("lstm", 6, obs_shape=3, action_shape=[2, 3], dueling=True),
    "drqn-gru": lambda: DRQN("gru", 6, obs_shape=3, action_shape=2),
    "vac-lstm": lambda: VAC(3, 2, rnn="lstm", rnn_hidden_size=6, value_norm=True),
    "vac-gru": lambda: VAC(3, 2, rnn="gru", rnn_hidden_size=6, continuous=True, obs_norm=True),
}


@pytest.mark.parametrize("ends", ["none", "some", "all", "last"])
@pytest.mark.parametrize("name", MODELS)
def test_a_sequence_equals_its_steps(name: str, ends: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    obs, hidden = torch.randn(T, B, 3), torch.randn(B, model.rnn.state_size)
    end = torch.zeros(T, B, dtype=torch.bool)
    if ends == "some":
        end = torch.rand(T, B) < 0.3
    elif ends != "none":
        end[-1 if ends == "last" else slice(None)] = True
    found = model.unroll(obs, hidden, end)
    state, ended = hidden, []
    for t in range(T):
        output = model(obs[t], state)
        for key in output.keys() - {"hidden"}:
            for one, whole in zip(parts(output[key]), parts(found[key]), strict=True):
                torch.testing.assert_close(whole[t], one)
        state = output["hidden"]
        ended.append(state[end[t]])
        state = state * ~end[t].unsqueeze(1)
    torch.testing.assert_close(found["hidden"], state)
    torch.testing.assert_close(found["ended"], torch.cat(ended))
    assert torch.equal(model(obs[0])["hidden"], model(obs[0], hidden * 0)["hidden"])


def test_no_gradient_crosses_the_end_of_an_episode() -> None:
    layer, x = Recurrent(3, 4), torch.randn(T, B, 3, requires_grad=True)
    end = torch.zeros(T, B)
    end[2, 0] = 1
    layer.unroll(x, None, end).output[-1].sum().backward()
    assert x.grad is not None
    assert (x.grad[:3, 0] == 0).all()
    assert (x.grad[3:, 0] != 0).any()
    assert (x.grad[0, 1] != 0).any()


@pytest.mark.parametrize(("kind", "size"), [("lstm", 8), ("gru", 4)])
def test_the_state_is_one_vector(kind: Any, size: int) -> None:
    layer = Recurrent(3, 4, kind)
    output, state = layer(torch.randn(2, 3))
    assert (output.shape, state.shape, layer.state_size) == ((2, 4), (2, size), size)
    assert torch.equal(state[:, :4], output)
    if kind == "lstm":
        assert layer.rnn.bias_ih_l0[4:8].tolist() == [1.0] * 4


def test_nested_observations_are_encoded_in_sequences() -> None:
    obs_parts = ((("vector",), 2, (), ()), (("kind",), 3, (3,), (0,)))
    model = create_model(
        {"type": "drqn", "obs_shape": 5, "action_shape": 2, "obs_parts": obs_parts, "rnn": "gru"}
    )
    obs = {"vector": torch.randn(T, B, 2), "kind": torch.randint(0, 3, (T, B))}
    assert model.unroll(obs)["logit"].shape == (T, B, 2)
    assert model.act_numpy() is None
    assert model.q({key: each[0] for key, each in obs.items()}).shape == (B, 2)


def test_a_value_alone() -> None:
    model, obs = MODELS["vac-lstm"](), torch.randn(B, 3)
    assert torch.equal(model.v(obs), model(obs)["value"])
    assert model(obs, mode="compute_critic").keys() == {"value", "hidden"}
    assert model.act_numpy() is None


def test_actor_and_critic_share_the_recurrent_layer() -> None:
    with pytest.raises(ConfigError, match="share_encoder"):
        VAC(3, 2, rnn="gru", share_encoder=False)
    options = {"type": "vac", "obs_shape": 3, "action_shape": 2, "rnn": "gru"}
    with pytest.raises(ConfigError, match="share_encoder: actor and critic share"):
        create_model({**options, "share_encoder": False})
    assert create_model(options).rnn.kind == "gru"
