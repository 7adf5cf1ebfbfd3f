"""V-trace and Retrace against the sums of the papers, n-step returns, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.functional import lambda_return, retrace, upgo_return, vtrace

B, T, GAMMA = 4, 7, 0.9


def columns(seed: int = 0, ends: float = 0.3) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    floats = rng.normal(size=(4, B, T)).astype(np.float32)
    names = ("log_ratio", "reward", "value", "next_value")
    found = dict(zip(names, map(torch.from_numpy, floats), strict=True))
    end = rng.random((B, T)) < ends
    found["done"] = torch.from_numpy(end & (rng.random((B, T)) < 0.5))
    return {**found, "end": torch.from_numpy(end)}


def by_sums(given: dict[str, Any], lam: float, rho_bar: float, c_bar: float) -> tuple[Any, Any]:
    """Equation 1 of the paper, as a sum for each step, within its episode; in doubles."""
    x = {name: each.double().numpy() for name, each in given.items()}
    ratio = np.exp(x["log_ratio"])
    rho, c = np.minimum(ratio, rho_bar), lam * np.minimum(ratio, c_bar)
    alive = GAMMA * (1 - x["done"])
    delta = rho * (x["reward"] + alive * x["next_value"] - x["value"])
    target = np.zeros((B, T))
    for b in range(B):
        for s in range(T):
            total, product = 0.0, 1.0
            for t in range(s, T):
                total += GAMMA ** (t - s) * product * delta[b, t]
                product *= c[b, t]
                if x["end"][b, t]:
                    break
            target[b, s] = x["value"][b, s] + total
    following = x["next_value"].copy()
    for b in range(B):
        for t in range(T - 1):
            if not x["end"][b, t]:
                following[b, t] = target[b, t + 1]
    return target, rho * (x["reward"] + alive * following - x["value"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lam", "rho", "c"), [(1.0, 1.0, 1.0), (0.8, 2.0, 0.5), (0.0, 1.0, 1.0)])
def test_it_equals_the_sum_of_the_paper(seed: int, lam: float, rho: float, c: float) -> None:
    given = columns(seed)
    before = {name: each.clone() for name, each in given.items()}
    found = vtrace(**given, gamma=GAMMA, vtrace_lambda=lam, rho_clip=rho, c_clip=c)
    target, advantage = by_sums(given, lam, rho, c)
    np.testing.assert_allclose(found.target, target, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.advantage, advantage, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(each, before[name]) for name, each in given.items())


def test_it_is_the_nstep_return_on_policy() -> None:
    """Remark 1 of the paper; here the episode is cut by the end of the sequence."""
    given = columns(ends=0.0)
    given["log_ratio"] = torch.zeros(B, T)
    given["next_value"][:, :-1] = given["value"][:, 1:]
    found = vtrace(**given, gamma=GAMMA)
    for s in range(T):
        rewards = sum(GAMMA ** (t - s) * given["reward"][:, t] for t in range(s, T))
        wanted = rewards + GAMMA ** (T - s) * given["next_value"][:, -1]
        torch.testing.assert_close(found.target[:, s], wanted)
    torch.testing.assert_close(found.advantage, found.target - given["value"])


def test_truncations_bootstrap_and_terminations_do_not() -> None:
    """By hand: one step of reward 1 whose next state has value 10."""
    one = torch.ones(2, 1)
    end = torch.tensor([[True], [True]])
    done = torch.tensor([[True], [False]])
    found = vtrace(0 * one, one, 0 * one, 10 * one, done, end, gamma=0.5)
    assert found.target[:, 0].tolist() == [1, 6]


def test_other_shapes_are_refused() -> None:
    given = columns()
    with pytest.raises(SchemaError, match=r"all be \[B, T, \.\.\.\]; got \(4, 1\), \(4, 7\)"):
        vtrace(**{**given, "value": given["value"][:, :1]}, gamma=1.0)


def retrace_by_sums(given: dict[str, Any], lam: float, c_bar: float) -> Any:
    """Equation 4 of Munos et al. 2016: Q + sum of the discounted, weighted TD errors."""
    x = {name: each.double().numpy() for name, each in given.items()}
    c = lam * np.minimum(np.exp(x["log_ratio"]), c_bar)
    delta = x["reward"] + GAMMA * (1 - x["done"]) * x["next_value"] - x["q"]
    found = x["q"].copy()
    for b in range(B):
        for s in range(T):
            product = 1.0
            for t in range(s, T):
                product *= c[b, t] if t > s else 1.0
                found[b, s] += GAMMA ** (t - s) * product * delta[b, t]
                if x["end"][b, t]:
                    break
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lam", "c"), [(1.0, 1.0), (0.8, 2.0), (0.0, 1.0)])
def test_retrace_equals_the_sum_of_the_paper(seed: int, lam: float, c: float) -> None:
    given = columns(seed)
    given["q"] = given.pop("value")
    found = retrace(**given, gamma=GAMMA, retrace_lambda=lam, c_clip=c)
    np.testing.assert_allclose(found, retrace_by_sums(given, lam, c), rtol=1e-4, atol=1e-5)


def test_retrace_by_hand() -> None:
    """Ratios and gamma 1/2, Q = 2, V' = 4; a termination in one row, a truncation in the other."""
    half = torch.full((2, 2), 0.5).log()
    one = torch.ones(2, 2)
    end = torch.tensor([[False, True]] * 2)
    done = end & torch.tensor([[True], [False]])
    found = retrace(half, one, 2 * one, 4 * one, done, end, gamma=0.5)
    assert found[:, 1].tolist() == pytest.approx([1, 3])
    assert found[:, 0].tolist() == pytest.approx([1 + 0.5 * (4 + 0.5 * (1 - 2)), 3.25])


@pytest.mark.parametrize("function", [vtrace, retrace])
def test_what_does_not_count_has_no_influence_even_if_it_is_nan(function: Any) -> None:
    given = columns(ends=0.0)
    if function is retrace:
        given["q"] = given.pop("value")
    given["end"][:, 2] = given["done"][:, 2] = True
    bad = {name: each.clone() for name, each in given.items()}
    bad["next_value"][:, 2] = torch.nan
    for name in given.keys() - {"done", "end"}:
        bad[name][:, 3:] = torch.nan
    found, wanted = function(**bad, gamma=0.9), function(**given, gamma=0.9)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one[..., :3], other[..., :3])


@pytest.mark.parametrize("kind", ["vtrace", "retrace", "lambda", "upgo"])
def test_agents_are_sequences_of_their_own(kind: str) -> None:
    """Columns [B, T, A] give what those of each agent do; NaN behind an agent's end stays there."""
    torch.manual_seed(0)
    shape = (4, 9, 3)
    log_ratio, reward, value, later = (torch.randn(shape) for _ in range(4))
    done = torch.rand(shape) < 0.2
    end = done | (torch.rand(shape) < 0.2)
    reward[0, 5, 1], end[0, 4, 1], done[0, 4, 1] = float("nan"), True, True

    def found(*columns: torch.Tensor) -> torch.Tensor:
        _, paid, worth, next_worth, over, last = columns
        if kind == "vtrace":
            return torch.cat([*vtrace(*columns, gamma=0.9, vtrace_lambda=0.8)])
        if kind == "retrace":
            return retrace(*columns, gamma=0.9, retrace_lambda=0.8)
        if kind == "lambda":
            return lambda_return(paid, next_worth, over, last, gamma=0.9)
        return upgo_return(paid, worth, next_worth, over, last)

    columns = (log_ratio, reward, value, later, done, end)
    whole = found(*columns)
    for agent in range(3):
        one = found(*(each[..., agent] for each in columns))
        assert torch.equal(torch.nan_to_num(whole[..., agent]), torch.nan_to_num(one))
    assert not whole[..., 0].isnan().any()
