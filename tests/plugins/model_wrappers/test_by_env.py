"""Wrappers that remember something of each environment: hidden states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.errors import UsageError
from dicore_plugins.model_wrappers import EnvStates
from dicore_plugins.models import DQN, DRQN, model_wrap

LIBRARIES = pytest.mark.parametrize("like", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


class Counter(nn.Module):
    """Its state counts the steps, and sums up the observations [K, 1]; the logits are that sum."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, obs: Any, hidden: Any = None) -> dict[str, Any]:
        if hidden is None:
            hidden = {"sum": obs * 0, "steps": obs[:, 0] * 0}
        hidden = {"sum": hidden["sum"] + obs, "steps": hidden["steps"] + 1}
        return {"logit": hidden["sum"], "hidden": hidden}


def column(like: Any, *values: float) -> Any:
    return like(np.array(values, np.float32)[:, None])


@LIBRARIES
@pytest.mark.parametrize("outer", [None, "argmax_sample", "eps_greedy_sample"])
def test_interleaved_environments_have_their_own_states(like: Any, outer: str | None) -> None:
    wrap = model_wrap(Counter(), "hidden_state", save_prev_state=True)
    if outer is not None:
        wrap = model_wrap(wrap, outer)
    first = wrap(column(like, 1, 10), env_id=[3, 0])
    assert first["prev_state"]["sum"].tolist() == [[0], [0]]
    wrap(column(like, 100), env_id=np.array([1]))
    later = wrap(column(like, 20, 2, 200), env_id=[0, 3, 1])
    assert later["logit"].tolist() == [[30], [3], [300]]
    assert later["prev_state"]["sum"].tolist() == [[10], [1], [100]]
    assert later["hidden"]["steps"].tolist() == [2, 2, 2]
    assert type(later["prev_state"]["sum"]) is type(later["logit"])
    wrap.reset([3, 7])
    assert wrap(column(like, 0, 0, 0), env_id=[0, 1, 3])["logit"].tolist() == [[30], [300], [0]]
    wrap.reset()
    assert wrap(column(like, 5), env_id=[0])["logit"].tolist() == [[5]]


def test_hidden_state_around_a_sampler_passes_it_the_ids() -> None:
    sampler = model_wrap(Counter(), "eps_greedy_sample")
    wrap = model_wrap(sampler, "hidden_state")
    output = wrap(column(np.asarray, 1, 2), env_id=[4, 2], eps={4: 0.0, 2: 0.0})
    assert output["action"].tolist() == [0, 0]


@LIBRARIES
def test_the_first_state_may_be_another_one(like: Any) -> None:
    def first() -> Any:
        return {"sum": like(np.array([7.0], np.float32)), "steps": like(np.array(1.0, np.float32))}

    wrap = model_wrap(Counter(), "hidden_state", init_fn=first)
    assert wrap(column(like, 1, 2), env_id=[0, 2])["logit"].tolist() == [[8], [9]]
    wrap.reset([2])
    assert wrap(column(like, 1, 2), env_id=[0, 2])["logit"].tolist() == [[9], [9]]


def test_states_have_no_graph_and_can_be_saved() -> None:
    model = DRQN(rnn_hidden_size=3, obs_shape=2, action_shape=2)
    wrap, twin = (model_wrap(model, "hidden_state", save_prev_state=True) for _ in range(2))
    with torch.inference_mode():  # states of inference can be written to later
        wrap(torch.randn(2, 2), env_id=[1, 0])
    output = wrap(torch.randn(2, 2), env_id=[1, 0])
    assert output["logit"].requires_grad
    assert not output["prev_state"].requires_grad
    twin.load_env_states(wrap.env_states())
    obs = torch.randn(2, 2)
    assert torch.equal(wrap(obs)["logit"], twin(obs)["logit"])
    assert not torch.equal(wrap(obs)["logit"], model(obs)["logit"])


@pytest.mark.parametrize(
    ("ids", "text"),
    [([0, 2], "from 0 to 2"), ([-1, 0], "from 0 to 2"), ([0], "2 observations need as many")],
)
def test_ids_that_cannot_be_are_refused(ids: list[int], text: str) -> None:
    wrap = model_wrap(Counter(), "hidden_state", state_num=2)
    with pytest.raises(UsageError, match=text):
        wrap(column(np.asarray, 1, 2), env_id=ids)


def test_a_model_without_a_state_is_refused() -> None:
    with pytest.raises(UsageError, match=r"returns logit, but no 'hidden'") as caught:
        model_wrap(DQN(2, 2), "hidden_state")(torch.zeros(1, 2))
    assert "drqn" in caught.value.hint


def test_values_of_environments_grow_with_the_ids() -> None:
    states = EnvStates()
    assert states.read(np.array([0])) is None
    assert states.state() is None
    states.write(np.array([1]), np.array([[5]]))
    assert states.read(np.array([1, 4, 0])).tolist() == [[5], [0], [0]]
    states.reset([])
    assert states.read(np.array([1])).tolist() == [[5]]
