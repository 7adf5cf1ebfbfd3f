"""Advantages and n-step returns against plain loops; terminations and truncations apart."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import (
    advantage,
    gae,
    get_gae,
    get_gae_with_default_last_value,
    next_obs_of,
    nstep_return,
    rows_after,
)

GAMMA, LAMBDA = 0.97, 0.9
KERNELS = ["numpy", *(["numba"] if find_spec("numba") else [])]


def plain(
    columns: dict[str, Any], env: int, gamma: float = GAMMA, lam: float = LAMBDA, kind: Any = None
) -> list[Any]:
    """The definition, one number after the other, in float32 unless told otherwise."""
    found: list[Any] = []
    kind = kind or np.float32
    later = kind(0)
    for t in reversed(range(len(columns["reward"]))):
        reward, value, after, done, end = (columns[key][t, env] for key in columns)
        delta = reward + kind(gamma) * kind(not done) * after - value
        later = delta + kind(gamma * lam) * kind(not end) * later
        found.append(later)
    return found[::-1]


def random_block(seed: int, steps: int = 50, envs: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    reward, value, after = rng.normal(size=(3, steps, envs)).astype(np.float32)
    end = rng.random((steps, envs)) < 0.2
    done = end & (rng.random((steps, envs)) < 0.5)
    return {"reward": reward, "value": value, "next_value": after, "done": done, "end": end}


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gamma", "lam"), [(0.97, 0.9), (1.0, 1.0), (0.99, 0.0)])
def test_it_equals_a_plain_loop_to_the_last_digit(
    seed: int, gamma: float, lam: float, kernels: Any
) -> None:
    columns = random_block(seed)
    found = gae(**columns, gamma=gamma, gae_lambda=lam, kernels=kernels)
    assert found.dtype == np.float32
    for env in range(3):
        assert found[:, env].tolist() == plain(columns, env, gamma, lam)


def test_tensors_and_double_precision_have_the_same_definition() -> None:
    columns = random_block(0)
    kinds = {"done": bool, "end": bool}
    wide = {key: each.astype(kinds.get(key, float)) for key, each in columns.items()}
    found = gae(**wide, gamma=GAMMA, gae_lambda=LAMBDA)
    assert found.dtype == np.float64
    tensors = {key: torch.from_numpy(each) for key, each in columns.items()}
    by_torch = gae(**tensors, gamma=GAMMA, gae_lambda=LAMBDA)
    assert by_torch.dtype == torch.float32
    for env in range(3):
        wanted = plain(wide, env, kind=np.float64)
        np.testing.assert_allclose(found[:, env], wanted, rtol=1e-12)
        np.testing.assert_allclose(by_torch[:, env], wanted, rtol=1e-4, atol=1e-5)


def documents() -> dict[str, Any]:
    """V = .5, .6, .7, then .8; all rewards 1."""
    value, after = np.array([0.5, 0.6, 0.7]), np.array([0.6, 0.7, 0.8])
    return {"reward": np.ones(3), "value": value, "next_value": after, "done": np.zeros(3, bool)}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_documents_numbers(kind: Any) -> None:
    columns = {key: each.astype(kind) for key, each in documents().items()}
    found = gae(**columns, gamma=0.99, gae_lambda=0.95)
    np.testing.assert_allclose(found, [3.08788, 2.12003, 1.092], atol=1e-5)


def test_known_returns_with_terminations_and_truncations_apart() -> None:
    """Three steps of reward 1 and V = 10: what follows a termination is worth nothing."""
    ones = np.ones((3, 2), np.float32)
    end = np.array([[0, 0], [0, 0], [1, 1]], np.bool_)
    done = end & [True, False]
    found = gae(ones, 0 * ones, 10 * ones * end, done, end, gamma=0.5, gae_lambda=1.0)
    assert found[:, 0].tolist() == [1.75, 1.5, 1.0]
    assert found[:, 1].tolist() == [1.75 + 1.25, 1.5 + 2.5, 1.0 + 5.0]


@pytest.mark.parametrize("kernels", [*KERNELS, "torch"])
@pytest.mark.parametrize("function", ["gae", "nstep"])
def test_what_does_not_count_has_no_influence_even_if_it_is_nan(
    function: str, kernels: Any
) -> None:
    """The next episode, and the value of a terminal state; NaN of the own episode shows."""
    columns = random_block(3, steps=6, envs=2)
    columns["end"][:] = columns["done"][:] = False
    columns["end"][2] = columns["done"][2, 0] = True
    bad = {key: each.copy() for key, each in columns.items()}
    bad["next_value"][2, 0] = np.nan
    for key in ("reward", "value", "next_value"):
        bad[key][3:] = np.nan

    def compute(given: dict[str, Any]) -> Any:
        options: Any = {} if kernels == "torch" else {"kernels": kernels}
        if kernels == "torch":
            given = {key: torch.from_numpy(each) for key, each in given.items()}
        if function == "gae":
            return np.asarray(gae(**given, gamma=0.9, gae_lambda=0.8, **options))
        given = {key: each for key, each in given.items() if key != "value"}
        return np.asarray(nstep_return(**given, nstep=4, gamma=0.9, **options))

    found, wanted = compute(bad), compute(columns)
    np.testing.assert_array_equal(found[:3], wanted[:3])
    assert np.isnan(found[3:]).all()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nstep", [1, 3, 60])
def test_nstep_returns_against_a_walk(seed: int, nstep: int, kernels: Any) -> None:
    columns = random_block(seed)
    del columns["value"]
    found = nstep_return(**columns, nstep=nstep, gamma=GAMMA, kernels=kernels)
    assert found.dtype == np.float32
    reward, after, done, end = (each.astype(float) for each in columns.values())
    for env in range(3):
        for t in range(50):
            total, power, step = 0.0, 1.0, t
            while True:
                total += power * reward[step, env]
                power *= GAMMA
                if end[step, env] or step - t + 1 == nstep or step == 49:
                    break
                step += 1
            total += power * (1 - done[step, env]) * after[step, env]
            assert found[t, env] == pytest.approx(total, rel=1e-5, abs=1e-5)
    by_numpy = nstep_return(**columns, nstep=nstep, gamma=GAMMA, kernels="numpy")
    assert found.tolist() == by_numpy.tolist()
    tensors = {key: torch.from_numpy(each) for key, each in columns.items()}
    by_torch = nstep_return(**tensors, nstep=nstep, gamma=GAMMA)
    np.testing.assert_allclose(by_torch, found, rtol=1e-5, atol=1e-5)


def test_nstep_returns_by_hand() -> None:
    """Rewards 1, 2, 4, V' = 10, half of it for each step; the episode ends after the second."""
    reward = np.array([1, 2, 4], np.float32)
    flags = np.array([False, True, False])
    after = np.full(3, 10, np.float32)
    died = nstep_return(reward, after, flags, nstep=2, gamma=0.5)
    cut = nstep_return(reward, after, flags & False, flags, nstep=2, gamma=0.5)
    assert died.tolist() == [2, 2, 9]
    assert cut.tolist() == [2 + 2.5, 2 + 5, 4 + 5]


def test_flags_in_other_types_and_arrays_in_other_layouts_are_the_same() -> None:
    columns = random_block(1)
    wanted = gae(**columns, gamma=GAMMA, gae_lambda=LAMBDA)
    for kernels in KERNELS:
        other = {key: np.asfortranarray(each) for key, each in columns.items()}
        other["done"], other["end"] = other["done"].astype(np.float32), other["end"].tolist()
        other["value"].flags.writeable = False
        for given in (other, {**columns, "done": columns["done"].astype(np.uint8)}):
            found = gae(**given, gamma=GAMMA, gae_lambda=LAMBDA, kernels=kernels)  # type: ignore[arg-type]
            assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0,), (1,)])
def test_empty_and_short_blocks(shape: tuple[int, ...], kernels: Any) -> None:
    zero, flag = np.zeros(shape, np.float32), np.zeros(shape, bool)
    assert gae(zero, zero, zero, flag, flag, kernels=kernels).shape == shape
    assert nstep_return(zero, zero, flag, nstep=3, kernels=kernels).shape == shape
    assert gae(*map(torch.from_numpy, (zero, zero, zero, flag, flag))).shape == shape


@pytest.mark.skipif(len(KERNELS) < 2, reason="numba is not installed")
def test_numba_is_imported_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, numpy as np, dicore_plugins.functional.advantage as a\n"
        "x, f = np.ones((9, 2), np.float32), np.zeros((9, 2), bool)\n"
        "first = a.gae(x, x, x, f); assert 'numba' not in sys.modules\n"
        "a._COMPILE_AFTER = 5\n"
        "assert (a.gae(x, x, x, f) == first).all(); assert 'numba' in sys.modules\n"
        "assert (a.gae(x, x, x, f) == first).all()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numba_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advantage, "_gae", None)
    monkeypatch.setattr(advantage, "_nstep", None)
    monkeypatch.setattr(advantage, "_installed", lambda: False)
    monkeypatch.setattr(advantage, "_COMPILE_AFTER", 0)
    columns = random_block(0)
    assert gae(**columns).shape == (50, 3)
    with pytest.raises(UsageError, match="numba is not installed"):
        gae(**columns, kernels="numba")
    with pytest.raises(UsageError, match="unknown kernels 'cuda'"):
        gae(**columns, kernels="cuda")  # type: ignore[arg-type]
    del columns["value"]
    with pytest.raises(UsageError, match="nstep must be >= 1"):
        nstep_return(**columns, nstep=0)


def test_values_of_the_next_states_come_from_the_next_row_the_tail_and_the_finals() -> None:
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    tail = Tail(np.array([8.0, 9.0]), np.array([1, 2]), np.array([-1.0, -2.0]), 3)
    found = rows_after(value, tail.obs, tail.final_obs, tail)
    assert found.tolist() == [[2, -1], [-2, 5], [8, 9]]
    block = Batch({"obs": value, "end": np.zeros((3, 2), np.bool_)}, 3)
    assert np.array_equal(next_obs_of(block, tail), found)


@pytest.mark.parametrize("kernels", KERNELS)
def test_other_shapes_are_refused(kernels: Any) -> None:
    columns = random_block(0)
    with pytest.raises(SchemaError, match=r"all be \[T, N\]; got \(50, 1\), \(50, 3\)"):
        gae(**{**columns, "value": columns["value"][:, :1]}, kernels=kernels)
    with pytest.raises(SchemaError, match=r"all be \[T, N\]; got \(50,\), \(50, 3\)"):
        nstep_return(columns["reward"], columns["reward"], columns["done"][:, 0], nstep=2)


# ---- lists of transitions


def rows(kind: Any = float) -> list[dict[str, Any]]:
    """The transitions of the documents."""
    return [{"value": kind(v), "reward": kind(1), "done": False} for v in (0.5, 0.6, 0.7)]


@pytest.mark.parametrize("kind", [float, np.float32, torch.tensor, lambda v: torch.tensor([v])])
def test_get_gae_of_a_list(kind: Any) -> None:
    data = rows(kind)
    found = get_gae(data, kind(0.8), 0.99, 0.95)
    np.testing.assert_allclose([float(row["adv"]) for row in found], [3.08788, 2.12003, 1.092],
                               atol=1e-5)  # fmt: skip
    assert all("adv" not in row for row in data)
    if isinstance(data[0]["value"], torch.Tensor):
        assert found[0]["adv"].shape == data[0]["value"].shape


def test_ends_inside_a_list_cut() -> None:
    """By hand: gamma lambda = 1/4, delta of the last step 1 + 0.4 - 0.7."""
    data = rows()
    data[1]["done"] = True
    found = [row["adv"] for row in get_gae(data, 0.8, 0.5, 0.5)]
    np.testing.assert_allclose(found, [0.8 + 0.25 * 0.4, 0.4, 0.7], rtol=1e-6)
    data[1] |= {"done": False, "truncated": True}
    with pytest.raises(SchemaError, match="row 1 is truncated"):
        get_gae(data, 0.8, 0.5, 0.5)
    data[1]["next_value"] = 2.0
    found = [row["adv"] for row in get_gae(data, 0.8, 0.5, 0.5)]
    np.testing.assert_allclose(found, [0.8 + 0.25 * 1.4, 1.4, 0.7], rtol=1e-6)


def test_without_a_last_value() -> None:
    data = [*rows(), {"value": 0.8, "reward": 9.0, "done": False}]
    found = get_gae_with_default_last_value(data, False, 0.99, 0.95)
    np.testing.assert_allclose([row["adv"] for row in found], [3.08788, 2.12003, 1.092], atol=1e-5)
    assert len(data) == 4
    data[-1]["done"] = True
    found = get_gae_with_default_last_value(data, True, 0.99, 0.95)
    assert len(found) == 4
    assert found[-1]["adv"] == pytest.approx(9 - 0.8)
    assert get_gae([], 0.0, 0.9, 0.9) == get_gae_with_default_last_value([], False, 0.9, 0.9) == []


def test_agents_are_computed_as_if_each_was_alone() -> None:
    rng = np.random.default_rng(3)
    reward, value, after = rng.normal(size=(3, 7, 3, 2)).astype(np.float32)
    done = rng.random((7, 3)) < 0.2
    died = done[..., None] | (rng.random((7, 3, 2)) < 0.3)
    end = done | (rng.random((7, 3)) < 0.2)
    for over in (done, died):
        both = gae(reward, value, after, over, end)
        summed = nstep_return(reward, after, over, end, nstep=3)
        for agent in range(2):
            own = over if over.ndim == 2 else over[..., agent]
            one = reward[..., agent], value[..., agent], after[..., agent], own, end
            np.testing.assert_array_equal(both[..., agent], gae(*one))
            np.testing.assert_array_equal(
                summed[..., agent], nstep_return(one[0], *one[2:], nstep=3)
            )
        tensors = map(torch.as_tensor, (reward, value, after, over, end))
        torch.testing.assert_close(gae(*tensors), torch.as_tensor(both), atol=1e-5, rtol=1e-5)
    with pytest.raises(SchemaError, match=r"must all be \[7, 3, 2\]; got \[7, 3\]"):
        gae(reward, value[..., 0], after, done, end)
