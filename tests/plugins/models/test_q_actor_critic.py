"""Actors with Q networks: what is computed by mode, and multi-pass Q values."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dicore.errors import ConfigError, UsageError
from dicore_plugins.models import (
    PADDPG,
    PDQN,
    QAC,
    BCQNet,
    CategoricalQAC,
    DiscreteQAC,
    IQLNet,
    QuantileQAC,
)

ROWS = 5
KINDS: dict[str, torch.Tensor] = {
    "action_type": torch.tensor([0, 1, 2, 1, 0]),
    "action_args": torch.linspace(-1, 1, 2 * ROWS).view(ROWS, 2),
}
SMALL: dict[str, Any] = {"actor_hidden_size_list": [8], "critic_hidden_size_list": [8]}
MASK = [[1, 0], [0, 1], [0, 0]]


def hybrid(network: Any, **options: Any) -> Any:
    return network(obs_shape=3, action_shape=3, args_shape=2, **SMALL, **options)


@pytest.mark.parametrize(
    "network", [QAC, QuantileQAC, CategoricalQAC, IQLNet, BCQNet, DiscreteQAC, PDQN, PADDPG]
)
def test_actors_with_q_networks_compute_one_part_or_both(network: Any) -> None:
    torch.manual_seed(0)
    both = network in (PDQN, PADDPG)
    model = hybrid(network) if both else network(obs_shape=3, action_shape=2, **SMALL)
    obs = torch.randn(ROWS, 3)
    whole, actor = model(obs), model(obs, mode="compute_actor")
    assert set(actor) < set(whole)
    for name, part in actor.items():
        torch.testing.assert_close(part, whole[name])
    best = {"action_type": whole["logit"].argmax(1), **actor} if both else actor.get("action")
    best = actor["mean"].tanh() if "mean" in actor else best
    values = model({"obs": obs, "action": best}, mode="compute_critic")
    assert set(whole) - set(actor) - {"value"} == set(values)
    for name, value in values.items():
        torch.testing.assert_close(value, whole[name])


def test_a_wrong_mode_or_a_missing_action_is_an_error() -> None:
    model = QAC(3, 2, **SMALL)
    with pytest.raises(UsageError, match="unknown mode 'compute_q'; expected compute_actor, "):
        model(torch.zeros(1, 3), mode="compute_q")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs an action"):
        model(torch.zeros(1, 3), mode="compute_critic")


def test_the_q_value_of_an_action_of_mpdqn_ignores_the_arguments_of_others() -> None:
    torch.manual_seed(0)
    model, obs = hybrid(PDQN, args_mask=MASK), torch.randn(ROWS, 3)
    args = KINDS["action_args"].clone().requires_grad_()
    for kind, row in enumerate(MASK):
        (slope,) = torch.autograd.grad(model.q(obs, args)[:, kind].sum(), args)
        assert ((slope != 0).any(0).int() == torch.tensor(row)).all()
    alone = hybrid(PDQN)
    alone.load_state_dict(model.state_dict())
    own = [alone.q(obs, args * torch.tensor(row))[:, kind] for kind, row in enumerate(MASK)]
    torch.testing.assert_close(model.q(obs, args), torch.stack(own, 1))


@pytest.mark.parametrize(
    "model", [hybrid(PDQN), hybrid(PDQN, args_mask=MASK), hybrid(PADDPG)], ids=str
)
def test_hybrid_actors_are_equal_by_numpy(model: Any) -> None:
    obs = torch.randn(ROWS, 3)
    act = model.act_numpy()
    assert act is not None
    for name, found in act(obs.numpy()).items():
        torch.testing.assert_close(torch.from_numpy(found.copy()), model(obs)[name].detach())


def test_a_mask_of_another_size_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"args_mask must have 3 rows .* of 2 numbers"):
        hybrid(PDQN, args_mask=MASK[:2])
