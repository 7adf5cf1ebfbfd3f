"""Digideep's samplers as chains of units (FEATURES M11 to M13)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from dicore.errors import NonFiniteError, ReplayUnderflowError, SchemaError, UsageError
from dicore_compat.samplers import (
    Compose,
    Memory,
    check_nan,
    check_shape,
    check_stats,
    compute_advantages,
    flatten_first_two,
    flatten_memory_to_train_key,
    get_last_chunk,
    get_memory_params,
    get_sample_memory,
    print_line,
    sampler_ff,
    sampler_re,
    sampler_rn,
    truncate_datalists,
    wrap_ff,
    wrap_rn,
)
from tests.compat.samplers.test_memory import chunk

VALUES = "/agents/agent/artifacts/values"


def memory(chunks: int = 4, workers: int = 4, steps: int = 5) -> Memory:
    found, rng = Memory(steps, 3), np.random.default_rng(0)
    for number in range(chunks):
        stored = chunk(number, workers, steps)
        size = (workers, steps + 1)
        stored["/masks"] = (rng.random((*size, 1)) > 0.3).astype(np.float32)
        stored[VALUES] = rng.normal(size=(*size, 1)).astype(np.float32)
        stored["/agents/agent/hidden_state"] = stored["/observations"] * 2
        found.store(stored)
    return found


def info(**more: Any) -> dict[str, Any]:
    return {"rng": np.random.default_rng(0), **more}


def test_units_run_in_order_and_share_their_info() -> None:
    """M11: also those of a chain inside the chain; the caller's info stays as it is."""
    seen: list[Any] = []

    def unit(name: str) -> Any:
        def apply(data: Any, shared: Any) -> Any:
            seen.append((name, shared.get("told")))
            shared["told"] = name
            return data + name

        return apply

    chain = Compose([unit("a"), Compose([unit("b"), unit("c")]), unit("d")])
    given = {"told": "nothing"}
    assert chain("-", given) == "-abcd"
    assert seen == [("a", "nothing"), ("b", "a"), ("c", "b"), ("d", "c")]
    assert given == {"told": "nothing"}
    assert chain("+") == "+abcd"


def test_the_last_chunk() -> None:
    found = Compose([get_memory_params, get_last_chunk])(memory())
    assert found["/rewards"].shape == (4, 6, 1)
    np.testing.assert_array_equal(found["/rewards"][2, :, 0], 2000 + np.arange(15, 21))
    told: dict[str, Any] = {}
    get_memory_params(memory(), told)
    assert told == {"num_steps": 5, "num_workers": 4, "num_records": 16, "overrun": 1}


def test_shapes_before_and_after() -> None:
    """M12."""
    found = Compose([get_memory_params, get_last_chunk])(memory())
    cut = truncate_datalists(found, {})
    assert {each.shape[:2] for each in found.values()} == {(4, 6)}
    assert {each.shape[:2] for each in cut.values()} == {(4, 5)}
    assert {each.shape[:2] for each in truncate_datalists(found, {}, n=3).values()} == {(4, 3)}
    flat = flatten_first_two(cut, {})
    assert flat["/observations"].shape == (20, 2)
    np.testing.assert_array_equal(flat["/rewards"][5:10], cut["/rewards"][1])


def test_advantages_of_d12() -> None:
    data = {
        "/rewards": np.array([[1, 1, 1, np.nan]], np.float32)[..., None],
        "/masks": np.ones((1, 4, 1), np.float32),
        VALUES: np.array([[0.5, 0.6, 0.7, 0.8]], np.float32)[..., None],
    }
    options = {"compute_advantages": {"gamma": 0.99, "gae_lambda": 0.95}}
    found = compute_advantages(data, options)
    advantages = found["/agents/agent/artifacts/advantages"][0, :, 0]
    np.testing.assert_allclose(advantages, [3.08788, 2.12003, 1.092, 0], atol=1e-5)
    returns = found["/agents/agent/artifacts/returns"][0, :, 0]
    np.testing.assert_allclose(returns - advantages, [0.5, 0.6, 0.7, 0.8], rtol=1e-5)
    plain = compute_advantages(data, {}, use_gae=False)["/agents/agent/artifacts/returns"]
    np.testing.assert_allclose(plain[0, 0, 0], 1 + 0.99 + 0.99**2 + 0.99**3 * 0.8, rtol=1e-6)
    scaled = compute_advantages(data, {}, normalize=True)["/agents/agent/artifacts/advantages"]
    np.testing.assert_allclose([scaled[0, :3].mean(), scaled[0, :3].std()], [0, 1], atol=1e-4)


def test_advantages_cut_by_the_mask_of_the_next_entry() -> None:
    """M5: in three steps that end with the second; a truncation has a value after it."""
    data = {
        "/rewards": np.array([[1, 2, 4, 0]], np.float32)[..., None],
        "/masks": np.array([[1, 1, 0, 1]], np.float32)[..., None],
        VALUES: np.array([[10, 20, 30, 40]], np.float32)[..., None],
    }
    key = "/agents/agent/artifacts/returns"
    found = compute_advantages(data, {}, gamma=0.5, use_gae=False)[key][0, :3, 0]
    np.testing.assert_allclose(found, [1 + 0.5 * 2, 2, 4 + 0.5 * 40])
    following = np.array([[20, 120, 130, 0]], np.float32)[..., None]
    data["/agents/agent/artifacts/next_values"] = following
    data["/infos/terminated"] = np.zeros((1, 4, 1), np.float32)
    found = compute_advantages(data, {}, gamma=0.5, use_gae=False)[key][0, :3, 0]
    np.testing.assert_allclose(found, [1 + 0.5 * (2 + 0.5 * 120), 2 + 0.5 * 120, 4 + 0.5 * 130])
    with pytest.raises(SchemaError, match="no /agents/b/artifacts/values"):
        compute_advantages(data, {"agent_name": "b"})


def test_a_batch_of_the_whole_memory() -> None:
    """Each row has what follows it in its own worker, with the mask that belongs to it."""
    found = memory()
    whole = {key: column[:] for key, column in found.get_buffer().items()}
    batch = sampler_re({"train": found}, info(batch_size=60))
    assert {len(each) for each in batch.values()} == {60}
    worker = (batch["/rewards"][:, 0] // 1000).astype(int)
    entry = (batch["/rewards"][:, 0] % 1000).astype(int) - 5
    for key, column in whole.items():
        np.testing.assert_array_equal(batch[key], column[worker, entry])
    np.testing.assert_array_equal(
        batch["/observations_2"], whole["/observations"][worker, entry + 1]
    )
    np.testing.assert_array_equal(batch["/masks_2"], whole["/masks"][worker, entry + 1])
    assert "/agents/agent/hidden_state_2" not in batch


def test_draws_are_uniform_over_workers_and_steps() -> None:
    """Chi-square of 60 steps: 99.6 is the 0.999 quantile of 59 degrees."""
    found, counts = memory(), np.zeros((4, 15))
    for seed in range(200):
        batch = sampler_re(found, {"rng": np.random.default_rng(seed), "batch_size": 60})
        worker = (batch["/rewards"][:, 0] // 1000).astype(int)
        np.add.at(counts, (worker, (batch["/rewards"][:, 0] % 1000).astype(int) - 5), 1)
    assert ((counts - 200) ** 2 / 200).sum() < 99.6


def test_truncated_steps_are_not_drawn() -> None:
    found = Memory(4, 2)
    for number in range(2):
        stored = chunk(number, 1, 4)
        stored["/masks"] = np.array([[[1.0], [0], [1], [0], [1]]], np.float32)
        stored["/infos/terminated"] = np.array([[[0.0], [0], [1], [0], [0]]], np.float32)
        found.store(stored)
    batch = sampler_re(found, info(batch_size=8, get_sample_memory={"use_cer": True}))
    drawn = set()
    for seed in range(30):
        batch = sampler_re(found, {"rng": np.random.default_rng(seed), "batch_size": 8})
        drawn |= set(batch["/rewards"][:, 0].astype(int).tolist())
    assert drawn == {1, 2, 3, 5, 6, 7}, "entries 0 and 4 ended by truncation"


def test_the_newest_step_is_in_every_batch_of_cer() -> None:
    for seed in range(5):
        given = {"rng": np.random.default_rng(seed), "get_sample_memory": {"use_cer": True}}
        batch = sampler_re(memory(), {**given, "batch_size": 4})
        assert batch["/rewards"][-1, 0] % 1000 == 19


@pytest.mark.parametrize("number", [1, 3, 4])
def test_mini_batches_of_rows(number: int) -> None:
    batches = [*sampler_ff(memory(), info(num_mini_batches=number))]
    sizes = [len(batch["/rewards"]) for batch in batches]
    assert sum(sizes) == 20
    assert max(sizes) - min(sizes) <= 1
    assert len(batches) == number
    rows = sorted(float(row) for batch in batches for row in batch["/rewards"][:, 0])
    assert rows == [1000 * b + t for b in range(4) for t in range(15, 20)]
    assert all(f"/agents/agent/artifacts/{k}" in batches[0] for k in ("advantages", "returns"))


def test_mini_batches_of_sequences() -> None:
    """Rows of a step stand together; of hidden states there are those of the first step."""
    batches = [*sampler_rn(memory(), info(num_mini_batches=2))]
    assert [each["/rewards"].shape for each in batches] == [(10, 1), (10, 1)]
    workers = []
    for batch in batches:
        rewards = batch["/rewards"].reshape(5, 2)
        np.testing.assert_array_equal(rewards - rewards[0], np.arange(5)[:, None] * [1, 1])
        assert batch["/agents/agent/hidden_state"].shape == (2, 2)
        np.testing.assert_array_equal(
            batch["/agents/agent/hidden_state"], batch["/observations"][:2] * 2
        )
        workers += (rewards[0] // 1000).tolist()
    assert sorted(workers) == [0, 1, 2, 3]


def test_what_units_refuse() -> None:
    found = memory(1)
    with pytest.raises(ReplayUnderflowError, match="asked 21, have 20 steps"):
        sampler_re(found, info(batch_size=21))
    for size in (0, -1):
        with pytest.raises(UsageError, match=f"batch_size must be >= 1, got {size}"):
            sampler_re(found, info(batch_size=size))
    for n in (-1, 7):
        with pytest.raises(UsageError, match=f"n must be from 0 to 6, .* got {n}"):
            truncate_datalists({"/x": np.zeros((2, 6, 1))}, {}, n=n)
    with pytest.raises(SchemaError, match="the chunk has no /masks"):
        compute_advantages({"/agents/agent/artifacts/values": np.zeros((2, 6, 1))}, {})
    with pytest.raises(UsageError, match="from 1 to 4, the number of workers, got 5"):
        sampler_rn(found, info(num_mini_batches=5))
    with pytest.raises(UsageError, match="from 1 to 20, the number of rows, got 0"):
        sampler_ff(found, info(num_mini_batches=0))
    with pytest.raises(UsageError, match=r"get_last_chunk needs info\['num_steps'\]"):
        get_last_chunk(found.get_buffer(), {})
    with pytest.raises(UsageError, match="compute_advantages has no option 'lambda'"):
        sampler_ff(found, info(compute_advantages={"lambda": 0.9}))
    with pytest.raises(SchemaError, match="no memory 'train' among demo"):
        flatten_memory_to_train_key({"demo": found}, {})
    assert flatten_memory_to_train_key(found, {}) is found


@pytest.mark.parametrize("wrap", [wrap_ff, wrap_rn])
def test_the_same_generator_gives_the_same_batches(wrap: Any) -> None:
    chain = Compose([get_memory_params, get_last_chunk, wrap])
    first, again = ([*chain(memory(), info())] for _ in range(2))
    for one, other in zip(first, again, strict=True):
        for key, column in one.items():
            np.testing.assert_array_equal(other[key], column)


# ---- debug units


def test_a_planted_nan_is_named() -> None:
    """M13."""
    found = Compose([get_memory_params, get_last_chunk])(memory())
    assert check_nan(found, {}) is found
    spoilt = {**found, VALUES: found[VALUES].copy()}
    spoilt[VALUES][2, 3] = np.nan
    with pytest.raises(NonFiniteError, match=rf"{VALUES}: nan at index \[2, 3, 0\] \(1 of 24"):
        check_nan(spoilt, {})


def test_debug_units_anywhere_in_a_chain(caplog: pytest.LogCaptureFixture) -> None:
    """Shapes are logged once per call."""
    caplog.set_level(logging.INFO, "dicore.sampler")
    every = [print_line, check_shape, check_stats, check_nan]
    chain = Compose([*every, get_memory_params, *every, get_last_chunk, *every, wrap_ff, *every])
    assert len([*chain(memory(), info())]) == 4
    texts = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("shapes: ") for text in texts) == 4
    assert any("/observations float32[4, 6, 2]" in text for text in texts)
    assert sum(text == "=" * 40 for text in texts) == 4
    assert any(text.startswith("/rewards: mean ") for text in texts)


def test_stats_are_exact(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dicore.sampler")
    check_stats({"/a": np.array([1.0, 3.0, np.nan]), "/b": np.array([np.nan])}, {})
    assert [record.getMessage() for record in caplog.records] == [
        "/a: mean 2, std 1, min 1, max 3", "/b: no values",
    ]  # fmt: skip


def test_units_of_the_whole_are_those_of_names() -> None:
    assert repr(sampler_re) == (
        "Compose(flatten_memory_to_train_key, get_memory_params, get_sample_memory)"
    )
    assert get_sample_memory in sampler_re.units
