"""n-step returns against a brute-force walk over each stream, and the documents' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional.samples import (
    as_rows,
    get_nstep_return_data,
    nstep_columns,
    sequences,
)

F = np.float32


def stream(steps: int, envs: int, seed: int, ends: float = 0.3) -> dict[str, Any]:
    """Makes columns [T, N] with both kinds of end; next_obs tells where it comes from."""
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, envs)) < ends / 2
    truncated = rng.random((steps, envs)) < ends / 2
    place = np.arange(steps * envs, dtype=F).reshape(steps, envs)
    return {
        "reward": rng.normal(size=(steps, envs)).astype(F),
        "terminated": terminated,
        "end": terminated | truncated,
        "next_obs": {"at": np.stack([place, -place], -1), "image": place.astype(np.uint8)},
    }


def by_hand(columns: dict[str, Any], nstep: int, gamma: float) -> dict[str, Any]:
    """Walks every stream step by step, in float32."""
    steps, envs = columns["reward"].shape
    shape = (steps - nstep + 1, envs)
    reward, done, power = np.zeros(shape, F), np.zeros(shape, F), np.zeros(shape, F)
    at = np.zeros((*shape, 2), F)
    for env in range(envs):
        for start in range(shape[0]):
            total = columns["reward"][start, env]
            last = start
            while last < start + nstep - 1 and not columns["end"][last, env]:
                last += 1
                total = total + columns["reward"][last, env] * F(gamma ** (last - start))
            reward[start, env] = total
            done[start, env] = columns["terminated"][last, env]
            power[start, env] = F(gamma ** (last - start + 1))
            at[start, env] = columns["next_obs"]["at"][last, env]
    return {"reward": reward, "done": done, "value_gamma": power, "at": at}


@given(
    steps=st.integers(1, 14),
    envs=st.integers(1, 3),
    nstep=st.integers(1, 6),
    gamma=st.sampled_from([0.0, 0.5, 0.97, 1.0]),
    seed=st.integers(0, 999),
)
def test_columns_equal_a_walk_over_each_stream(
    steps: int, envs: int, nstep: int, gamma: float, seed: int
) -> None:
    columns = stream(max(steps, nstep), envs, seed)
    kept = {key: value.copy() for key, value in columns.items() if key != "next_obs"}

    got = nstep_columns(**columns, nstep=nstep, gamma=gamma)

    want = by_hand(columns, nstep, gamma)
    for key in ("reward", "done", "value_gamma"):
        np.testing.assert_array_equal(got[key], want[key], err_msg=key)
        assert got[key].dtype == F
    np.testing.assert_array_equal(got["next_obs"]["at"], want["at"])
    np.testing.assert_array_equal(got["next_obs"]["image"], want["at"][..., 0].astype(np.uint8))
    assert got["next_obs"]["image"].dtype == np.uint8
    for key, value in kept.items():
        np.testing.assert_array_equal(columns[key], value, err_msg=f"{key} was changed")


@given(
    cuts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    nstep=st.integers(1, 5),
    seed=st.integers(0, 999),
)
def test_small_blocks_that_carry_their_tail_equal_one_large_block(
    cuts: list[int], nstep: int, seed: int
) -> None:
    """Bit for bit, however the stream is cut."""
    steps = sum(cuts) + nstep - 1
    columns = stream(steps, 2, seed)
    whole = nstep_columns(**columns, nstep=nstep, gamma=0.97)

    pieces = []
    start = 0
    for cut in cuts:
        window = slice(start, start + cut + nstep - 1)
        block = {key: columns[key][window] for key in ("reward", "terminated", "end")}
        at = columns["next_obs"]["at"][window]
        pieces.append(nstep_columns(**block, next_obs=at, nstep=nstep, gamma=0.97))
        start += cut

    for key in ("reward", "done", "value_gamma"):
        joined = np.concatenate([piece[key] for piece in pieces])  # type: ignore[literal-required]
        assert joined.tobytes() == whole[key].tobytes(), key  # type: ignore[literal-required]
    joined = np.concatenate([piece["next_obs"] for piece in pieces])
    assert joined.tobytes() == whole["next_obs"]["at"].tobytes()


def test_a_truncation_ends_the_bridge_and_keeps_its_value() -> None:
    end = np.array([[False], [True], [False], [False]])
    reward = np.array([[1], [2], [4], [8]], F)
    next_obs = np.arange(1, 5, dtype=F)[:, None]

    cut = nstep_columns(reward, np.zeros_like(end), end, next_obs, nstep=3, gamma=0.5)
    died = nstep_columns(reward, end, end, next_obs, nstep=3, gamma=0.5)

    assert cut["reward"][:, 0].tolist() == [2.0, 2.0]
    assert cut["next_obs"][:, 0].tolist() == [2.0, 2.0]
    assert cut["value_gamma"][:, 0].tolist() == [0.25, 0.5]
    assert cut["done"][:, 0].tolist() == [0.0, 0.0]
    assert died["done"][:, 0].tolist() == [1.0, 1.0]


def test_the_next_episode_has_no_influence_even_if_its_rewards_are_nan() -> None:
    """As those of an episode that broke off."""
    columns = stream(8, 2, 0)
    columns["end"][:] = columns["terminated"][:] = False
    columns["end"][3] = True
    columns["reward"][4:] = np.nan
    found = nstep_columns(**columns, nstep=3, gamma=0.9)["reward"]
    assert np.isfinite(found[:4]).all()
    assert np.isnan(found[4:]).all()
    parts = np.repeat(columns["reward"][..., None], 3, -1)
    several = nstep_columns(**{**columns, "reward": parts}, nstep=3, gamma=0.9)["reward"]
    np.testing.assert_array_equal(several, np.repeat(found[..., None], 3, -1))


def test_columns_that_cannot_be_bridged_are_refused() -> None:
    columns = stream(2, 1, 0)
    with pytest.raises(SchemaError, match="at least 3 steps, got 2"):
        nstep_columns(**columns, nstep=3, gamma=0.9)
    with pytest.raises(UsageError, match="nstep must be >= 1"):
        nstep_columns(**columns, nstep=0, gamma=0.9)
    with pytest.raises(SchemaError, match=r"must all be \[T, N\]"):
        nstep_columns(**{**columns, "end": columns["end"][:1]}, nstep=1, gamma=0.9)


def documents() -> list[dict[str, Any]]:
    """Rewards 1..5, observation t, next observation t + 1; the piece was cut, not done."""
    return [{"obs": t, "next_obs": t + 1, "reward": t + 1.0, "done": False} for t in range(5)]


def test_the_documents_numbers() -> None:
    rows = get_nstep_return_data(documents(), 3, gamma=0.9)

    assert [row["reward"].tolist() for row in rows] == [
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 5],
        [4, 5, 0],
        [5, 0, 0],
    ]
    assert [row["next_obs"] for row in rows] == [3, 4, 5, 5, 5]
    assert [row["obs"] for row in rows] == [0, 1, 2, 3, 4]
    powers = [0.9**3, 0.9**3, 0.9**3, 0.9**2, 0.9]
    assert [row["value_gamma"] for row in rows] == pytest.approx(powers)


def test_cumulated_rewards_and_constant_gamma() -> None:
    rows = get_nstep_return_data(documents(), 2, True, False, 0.5)

    assert [row["reward"] for row in rows] == [2.0, 3.5, 5.0, 6.5, 5.0]
    assert all("value_gamma" not in row for row in rows)


def test_a_truncation_inside_a_list_ends_the_bridge() -> None:
    data = [{**row, "truncated": row["obs"] == 1} for row in documents()]
    rows = get_nstep_return_data(data, 3, cum_reward=True, gamma=0.5)
    assert [row["reward"] for row in rows[:2]] == [2.0, 2.0]
    assert [row["next_obs"] for row in rows[:2]] == [2, 2]
    assert [row["value_gamma"] for row in rows[:2]] == [0.25, 0.5]
    assert [row["truncated"] for row in rows] == [True, True, False, False, False]
    assert not any(row["done"] for row in rows)


def test_tensor_rewards_stay_tensors() -> None:
    """Rows of the documents hold rewards of shape (1,)."""
    data = [{**row, "reward": torch.tensor([row["reward"]])} for row in documents()]

    vectors = get_nstep_return_data(data, 3)
    sums = get_nstep_return_data(data, 3, cum_reward=True, gamma=0.5)

    assert torch.equal(vectors[3]["reward"], torch.tensor([4.0, 5.0, 0.0]))
    assert torch.equal(sums[3]["reward"], torch.tensor([6.5]))


def test_one_step_returns_the_rows_as_they_are() -> None:
    assert get_nstep_return_data(documents(), 1) == documents()
    with pytest.raises(UsageError, match="nstep must be >= 1"):
        get_nstep_return_data(documents(), 0)


@settings(max_examples=60)
@given(
    length=st.integers(1, 10),
    nstep=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_rows_and_columns_agree(length: int, nstep: int, seed: int) -> None:
    """A list of rows gives what the columns give; an episode that ends inside cuts the bridge."""
    columns = stream(length + nstep - 1, 1, seed)
    data = [
        {
            "reward": columns["reward"][t, 0],
            "next_obs": columns["next_obs"]["at"][t, 0],
            "done": bool(columns["terminated"][t, 0]),
            "truncated": bool(columns["end"][t, 0]),
        }
        for t in range(length + nstep - 1)
    ]
    kept = [dict(row) for row in data]

    rows = get_nstep_return_data(data, nstep, cum_reward=True, gamma=0.97)

    assert all(a.keys() == b.keys() for a, b in zip(kept, data, strict=True))
    want = nstep_columns(**columns, nstep=nstep, gamma=0.97)
    for t, row in enumerate(rows[:length]):
        assert row["reward"] == pytest.approx(float(want["reward"][t, 0]), rel=1e-5, abs=1e-5)
        assert row["done"] == bool(want["done"][t, 0])
        assert row["value_gamma"] == pytest.approx(float(want["value_gamma"][t, 0]))
        np.testing.assert_array_equal(row["next_obs"], want["next_obs"]["at"][t, 0])


def test_items_without_numbers_keep_their_rows() -> None:
    """As a leaf Box(0,) of an observation has them."""
    end, nothing = np.zeros((6, 2), np.bool_), np.zeros((6, 2, 0), np.float32)
    assert as_rows(nothing).shape == (12, 0)
    found = sequences(Batch({"obs": {"nothing": nothing}, "end": end}, 6), 3, 3)
    assert found["obs"]["nothing"].shape == (4, 3, 0)
