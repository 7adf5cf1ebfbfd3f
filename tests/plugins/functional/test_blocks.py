"""Samples of blocks: what follows a row, rows that are not valid, sequences, whole episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Batch, tree_map
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.samples import (
    flatten_time,
    next_obs_of,
    nstep_samples,
    sequences,
    transitions,
)

F = np.float32


def made(steps: int, envs: int, seed: int, starts: int | None = None) -> tuple[Batch, Tail, Any]:
    """Makes a block and its tail; `after` [T, N] tells what really followed each row."""
    rng = np.random.default_rng(seed)
    place = np.arange((steps + 1) * envs).reshape(steps + 1, envs)
    obs = {"at": place[:, :, None].astype(F), "image": (place % 251).astype(np.uint8)}
    end = rng.random((steps, envs)) < 0.3
    index = np.flatnonzero(end)
    finals = {"at": 1000.0 + index[:, None].astype(F), "image": (255 - index % 3).astype(np.uint8)}
    after = tree_map(lambda leaf: leaf[1:].copy(), obs)
    tree_map(lambda leaf, last: leaf.reshape(-1, *leaf.shape[2:]).__setitem__(index, last),
             after, finals)  # fmt: skip
    columns = {
        "obs": tree_map(lambda leaf: leaf[:-1], obs),
        "reward": rng.normal(size=(steps, envs)).astype(F),
        "done": end & (rng.random((steps, envs)) < 0.5),
        "end": end,
        "valid": rng.random((steps, envs)) < 0.8,
        "env_id": np.tile(np.arange(envs), (steps, 1)),
    }
    tail = Tail(tree_map(lambda leaf: leaf[-1], obs), index, finals, starts or steps)
    return Batch(columns, steps), tail, after


@settings(deadline=None)
@given(steps=st.integers(1, 9), envs=st.integers(1, 3), seed=st.integers(0, 99))
def test_each_row_is_followed_by_what_the_environment_showed(
    steps: int, envs: int, seed: int
) -> None:
    block, tail, after = made(steps, envs, seed)
    found = next_obs_of(block, tail)
    assert all((found[key] == after[key]).all() for key in after)
    assert found["image"].dtype == np.uint8
    samples = transitions(block, tail)
    rows = np.flatnonzero(block["valid"])
    assert (samples["next_obs"]["at"][:, 0] == after["at"].reshape(-1)[rows]).all()
    assert (samples["env_id"] == block["env_id"].reshape(-1)[rows]).all()
    assert (samples["end"] == block["end"].reshape(-1)[rows]).all()
    assert "valid" not in samples


def test_a_column_of_the_policy_comes_first() -> None:
    block, tail, _ = made(4, 2, 0)
    own = Batch({**block.columns, "next_obs": np.zeros((4, 2))}, 4)
    assert next_obs_of(own, tail) is own["next_obs"]
    with pytest.raises(SchemaError, match="no next_obs"):
        next_obs_of(block, None)
    odd = Batch({**block.columns, "obs": {"at": np.zeros((4, 2, 3)), "image": np.zeros((4, 2))}}, 4)
    with pytest.raises(SchemaError, match="differs from the observations") as told:
        next_obs_of(odd, tail._replace(obs={"at": np.zeros((2, 7)), "image": np.zeros(2)}))
    assert "process_transition" in told.value.hint


@settings(deadline=None)
@given(
    steps=st.integers(1, 8),
    nstep=st.integers(1, 5),
    parts=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_whole_episodes_give_a_sample_for_each_row(
    steps: int, nstep: int, parts: int, seed: int
) -> None:
    """The last rows have no n rows after them; their sums end with the episode."""
    block, tail, _ = made(steps, 1, seed)
    block.columns["end"] = np.arange(steps)[:, None] == steps - 1
    block.columns["valid"][:] = True
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=(steps, 1, *[2] * bool(parts))).astype(F)
    samples = nstep_samples(Batch({**block.columns, "reward": reward}, steps), nstep, 0.9, tail)
    assert len(samples) == steps
    for t in range(steps):
        stop = min(t + nstep, steps)
        total = sum(reward[i, 0] * F(0.9 ** (i - t)) for i in range(t, stop))
        assert np.allclose(samples["reward"][t], total, atol=1e-6)
        assert np.isclose(samples["value_gamma"][t], 0.9 ** (stop - t))
        assert samples["done"][t] == float(block["done"][stop - 1, 0])
        assert samples["next_obs"]["at"][t] == next_obs_of(block, tail)["at"][stop - 1, 0]


@settings(deadline=None)
@given(
    steps=st.integers(1, 12),
    length=st.integers(1, 5),
    stride=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_sequences_are_windows_of_valid_rows(
    steps: int, length: int, stride: int, seed: int
) -> None:
    envs = 2
    block, tail, _ = made(steps, envs, seed)
    if steps < length:
        with pytest.raises(SchemaError, match=f"sequences of {length} rows"):
            sequences(block, length, stride)
        assert len(sequences(block, length, stride, tail)) == 0, "an episode may be short"
        return
    found = sequences(block, length, stride, tail)
    wanted = [
        (start, env)
        for start in range(0, steps - length + 1, stride)
        for env in range(envs)
        if block["valid"][start : start + length, env].all()
    ]
    assert len(found) == len(wanted)
    for row, (start, env) in zip(found.rows(), wanted, strict=True):
        rows = slice(start, start + length)
        assert (row["obs"]["at"] == block["obs"]["at"][rows, env]).all()
        assert (row["end"] == block["end"][rows, env]).all()
        assert row["env_id"] == env


def test_one_environment_gives_views() -> None:
    """A block of frames is not copied."""
    frames = np.zeros((8, 2, 4, 4), np.uint8)
    block = Batch({"obs": frames, "end": np.zeros((8, 2), np.bool_)}, 8)
    assert np.shares_memory(flatten_time(block)["obs"], frames)
