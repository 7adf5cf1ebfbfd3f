"""TD(lambda) and UPGO returns against sums of n-step returns in float64, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.functional import gae, lambda_return, upgo_return

B, T, GAMMA = 4, 7, 0.9


def columns(seed: int = 0, ends: float = 0.3) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    floats = rng.normal(size=(3, B, T)).astype(np.float32)
    found = dict(zip(("reward", "value", "next_value"), map(torch.from_numpy, floats), strict=True))
    end = rng.random((B, T)) < ends
    found["done"] = torch.from_numpy(end & (rng.random((B, T)) < 0.5))
    return {**found, "end": torch.from_numpy(end)}


def nstep(x: dict[str, Any], b: int, start: int, stop: int) -> float:
    """The return that bootstraps after step `stop`."""
    total = sum(GAMMA ** (t - start) * x["reward"][b, t] for t in range(start, stop + 1))
    alive = 1 - x["done"][b, stop]
    return float(total + GAMMA ** (stop - start + 1) * alive * x["next_value"][b, stop])


def by_mixture(given: dict[str, Any], lam: Any) -> Any:
    """(1 - lambda) sum_n lambda^(n-1) of the n-step returns; the last has what is left."""
    x = {name: each.double().numpy() for name, each in given.items()}
    found = np.zeros((B, T))
    for b in range(B):
        for start in range(T):
            weight = 1.0
            for stop in range(start, T):
                last = stop == T - 1 or x["end"][b, stop]
                share = 0.0 if last else lam[b, stop]
                found[b, start] += weight * (1 - share) * nstep(x, b, start, stop)
                weight *= share
                if last:
                    break
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0, None])
def test_lambda_returns_are_mixtures_of_nstep_returns(seed: int, lam: float | None) -> None:
    given = columns(seed)
    del given["value"]
    weights = torch.rand(B, T) if lam is None else torch.full((B, T), lam)
    found = lambda_return(**given, gamma=GAMMA, td_lambda=weights if lam is None else lam)
    np.testing.assert_allclose(found, by_mixture(given, weights.numpy()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_lambda_returns_are_the_advantages_and_the_values(lam: float) -> None:
    """Where V(s') is the value of the next step."""
    given = columns()
    following = torch.where(given["end"], given["next_value"], given["value"].roll(-1, 1))
    given["next_value"][:, :-1] = following[:, :-1]
    array = {name: each.numpy().T for name, each in given.items()}
    advantage = gae(**array, gamma=GAMMA, gae_lambda=lam)
    del given["value"]
    found = lambda_return(**given, gamma=GAMMA, td_lambda=lam)
    np.testing.assert_allclose(found.T, advantage + array["value"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_upgo_follows_what_is_better_than_expected(seed: int) -> None:
    given = columns(seed)
    x = {name: each.double().numpy() for name, each in given.items()}
    gain = x["reward"] + GAMMA * (1 - x["done"]) * x["next_value"]
    follows = np.zeros((B, T))
    follows[:, :-1] = (gain >= x["value"])[:, 1:]
    found = upgo_return(**given, gamma=GAMMA)
    del given["value"]
    np.testing.assert_allclose(found, by_mixture(given, follows), rtol=1e-4, atol=1e-5)


def test_by_hand() -> None:
    """The second step is better than its V = 1, the third is not; the second row is cut."""
    reward = torch.tensor([[1.0, 2.0, 4.0]] * 2)
    value, after = torch.tensor([[10.0, 1.0, 99.0]] * 2), torch.tensor([[1.0, 99.0, 8.0]] * 2)
    none = torch.zeros(2, 3, dtype=torch.bool)
    end = torch.tensor([[False, False, True], [True, False, False]])
    found = upgo_return(reward, value, after, none, end, gamma=0.5)
    assert found.tolist() == [[1 + 0.5 * (2 + 49.5), 2 + 49.5, 8.0], [1.5, 2 + 49.5, 8.0]]
    td = lambda_return(reward, after, none | end, end, gamma=0.5, td_lambda=1.0)
    assert td.tolist() == [[3.0, 4.0, 4.0], [1.0, 2 + 0.5 * 8, 8.0]]


def test_what_does_not_count_has_no_influence_even_if_it_is_nan() -> None:
    given = columns(ends=0.0)
    given["end"][:, 2] = given["done"][:, 2] = True
    bad = {name: each.clone() for name, each in given.items()}
    bad["next_value"][:, 2] = torch.nan
    for name in ("reward", "value", "next_value"):
        bad[name][:, 3:] = torch.nan
    assert torch.equal(upgo_return(**bad)[:, :3], upgo_return(**given)[:, :3])
    del bad["value"], given["value"]
    assert torch.equal(lambda_return(**bad)[:, :3], lambda_return(**given)[:, :3])


def test_other_shapes_are_refused() -> None:
    given = columns()
    with pytest.raises(SchemaError, match=r"must all be \[B, T, \.\.\.\]; got \(4, 1\), \(4, 7\)"):
        upgo_return(**{**given, "value": given["value"][:, :1]})
