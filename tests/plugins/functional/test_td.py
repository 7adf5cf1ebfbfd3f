"""TD errors against plain loops in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional.td import (
    by_head,
    discounted_sum,
    dqn_td_target,
    expected_value,
    nstep_td_error,
    q_nstep_target,
    q_nstep_td_loss,
    sequence_priority,
    td_loss,
)


def batch(rows: int, actions: int, seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "q": torch.randn(rows, actions, generator=g) * 2,
        "next_q": torch.randn(rows, actions, generator=g),
        "online": torch.randn(rows, actions, generator=g),
        "action": torch.randint(actions, (rows,), generator=g),
        "reward": torch.randn(rows, generator=g),
        "done": (torch.rand(rows, generator=g) < 0.3).float(),
        "gamma": torch.rand(rows, generator=g),
        "weight": torch.rand(rows, generator=g),
    }


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_target_is_the_equation(
    rows: int, actions: int, seed: int, double: bool, per_row: bool, ignore: bool
) -> None:
    b = batch(rows, actions, seed)
    kept = {key: value.clone() for key, value in b.items()}
    gamma: Any = b["gamma"] if per_row else 0.9
    done = None if ignore else b["done"]

    y = dqn_td_target(b["next_q"], b["reward"], done, gamma, b["online"] if double else None)

    for i in range(rows):
        chooser = (b["online"] if double else b["next_q"])[i]
        value = float(b["next_q"][i, int(chooser.argmax())])
        boot = (float(gamma[i]) if per_row else 0.9) * (1.0 if ignore else 1 - float(b["done"][i]))
        assert float(y[i]) == pytest.approx(float(b["reward"][i]) + boot * value, abs=1e-6)
    assert all(torch.equal(b[key], kept[key]) for key in b)


def test_a_termination_takes_nothing_from_the_next_state() -> None:
    """Not even an infinite value's rounding: the reward alone is left."""
    next_q, reward = torch.full((1, 2), 1e30), torch.tensor([3.0])
    zero, one = torch.tensor([0]), torch.ones(1)
    assert q_nstep_target(next_q, zero, reward, one, 0.99).item() == 3.0
    assert q_nstep_target(next_q, zero, reward, one, torch.tensor([0.97])).item() == 3.0


@settings(max_examples=40)
@given(
    st.integers(1, 6), st.integers(1, 4), st.integers(0, 99), st.sampled_from(["huber", "mse"]),
    st.booleans(),
)  # fmt: skip
def test_loss_and_gradient_are_those_of_a_loop(
    rows: int, actions: int, seed: int, criterion: Any, weighted: bool
) -> None:
    b = batch(rows, actions, seed)
    q, y = b["q"].requires_grad_(), b["reward"].requires_grad_()
    weight = b["weight"] if weighted else None

    loss, error = q_nstep_td_loss(q, b["action"], y, weight, criterion)
    loss.backward()  # type: ignore[no-untyped-call]

    total, grad = 0.0, np.zeros((rows, actions))
    for i in range(rows):
        a, w = int(b["action"][i]), float(b["weight"][i]) if weighted else 1.0
        d = float(q.detach()[i, a]) - float(y.detach()[i])
        assert float(error[i]) == pytest.approx(abs(d), abs=1e-6)
        if criterion == "mse":
            total, slope = total + w * d * d, 2 * d
        else:
            total, slope = (
                total + w * (d * d / 2 if abs(d) < 1 else abs(d) - 0.5),
                np.clip(d, -1, 1),
            )
        grad[i, a] = w * slope / rows
    assert loss.item() == pytest.approx(total / rows, abs=1e-5)
    assert q.grad is not None
    np.testing.assert_allclose(q.grad.numpy(), grad, atol=1e-6)
    assert y.grad is None
    assert not error.requires_grad


def test_several_heads_are_the_mean_of_single_ones() -> None:
    b, c = batch(4, 3, 0), batch(4, 2, 1)
    action = torch.stack([b["action"], c["action"]], 1)
    loss, error = nstep_td_error([b["q"], c["q"]], action, [b["reward"], c["reward"]], b["weight"])
    one, e_one = nstep_td_error(b["q"], b["action"], b["reward"], b["weight"])
    two, e_two = nstep_td_error(c["q"], c["action"], c["reward"], b["weight"])
    assert torch.allclose(loss, (one + two) / 2)
    assert torch.allclose(error, (e_one + e_two) / 2)


def test_wrong_calls_are_refused() -> None:
    b = batch(4, 3, 0)
    with pytest.raises(UsageError, match="'l1'"):
        q_nstep_td_loss(b["q"], b["action"], b["reward"], criterion="l1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="2 heads need 2 targets"):
        nstep_td_error([b["q"], b["q"]], b["action"], [b["reward"]])


def test_a_target_by_hand() -> None:
    """Rewards 1, 2, 4 by halves, then 0.125 of the 8 that the other network chooses."""
    reward = discounted_sum(torch.tensor([[1.0, 2.0, 4.0]] * 2), 0.5)
    assert reward.tolist() == [3.0, 3.0]
    next_q, online = torch.tensor([[8.0, 16.0]] * 2), torch.tensor([[1.0, 0.0]] * 2)
    done = torch.tensor([0.0, 1.0])
    assert dqn_td_target(next_q, reward, done, 0.125, online).tolist() == [4.0, 3.0]
    assert dqn_td_target(next_q, reward, done, 0.125).tolist() == [5.0, 3.0]
    assert dqn_td_target(next_q, reward, None, 0.125, online).tolist() == [4.0, 4.0]
    loss, error = q_nstep_td_loss(next_q, torch.tensor([0, 1]), reward, torch.tensor([2.0, 1.0]))
    assert loss.item() == pytest.approx((2 * 4.5 + 12.5) / 2)
    assert error.tolist() == [5.0, 13.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_values_of_an_ensemble_share_the_target(weighted: bool) -> None:
    g = torch.Generator().manual_seed(0)
    value, target = torch.randn(2, 5, generator=g), torch.randn(5, generator=g)
    weight = torch.rand(5, generator=g) if weighted else None
    loss, error = td_loss(value, target, weight, "mse")
    both = [td_loss(each, target, weight, "mse") for each in value]
    torch.testing.assert_close(loss, (both[0][0] + both[1][0]) / 2)
    assert torch.equal(error, torch.stack([each for _, each in both]))


def test_columns_that_would_be_broadcast_are_refused() -> None:
    b = batch(4, 3, 0)
    with pytest.raises(SchemaError, match=r"values \(4,\), target and weight \(4, 1\)"):
        q_nstep_td_loss(b["q"], b["action"], b["reward"][:, None])
    with pytest.raises(SchemaError, match=r"target and weight \(4,\) and \(4, 1\)"):
        q_nstep_td_loss(b["q"], b["action"], b["reward"], b["weight"][:, None])
    with pytest.raises(SchemaError, match=r"values \(4, 1\)"):
        td_loss(b["reward"][:, None], b["reward"])


def test_expected_values_by_hand() -> None:
    """pi = 1/4, 3/4, 0: the mean of Q, and the entropy with temperature 2; masked Q is infinite."""
    log_policy = torch.tensor([[0.25, 0.75, 0.0]]).log()
    q = torch.tensor([[4.0, 8.0, torch.inf]])
    assert expected_value(q, log_policy).tolist() == [7.0]
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert expected_value(q, log_policy, 2.0).item() == pytest.approx(7 + 2 * entropy)


def test_priorities_of_sequences_by_hand() -> None:
    """0.75 of the largest and 0.25 of the mean error, over the steps that count."""
    error = torch.tensor([[1.0, -3.0], [8.0, torch.nan], [1.0, 1.0]])
    mask = torch.tensor([[1, 1], [1, 0], [0, 0]])
    assert sequence_priority(error, mask, 0.75).tolist() == [2.25 + 0.5, 8.0, 0.0]
    assert sequence_priority(error[:1], largest_share=0.75).tolist() == [2.75]


def test_a_function_by_head() -> None:
    """Columns of a tensor go with the heads of a list; one action stays one tensor."""
    q = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]])]
    action = torch.tensor([[1, 2], [0, 1]])

    def taken(values: Tensor, chosen: Tensor) -> Tensor:
        return values.gather(1, chosen[:, None])[:, 0]

    assert [each.tolist() for each in by_head(taken, q, action)] == [[2.0, 3.0], [7.0, 9.0]]
    assert [each.tolist() for each in by_head(taken, q[:1], action[:, 0])] == [[2.0, 3.0]]
    assert by_head(taken, q[0], action[:, 0]).tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="shorter"):
        by_head(taken, q, action[:, :1])
