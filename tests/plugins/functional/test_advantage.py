"""Advantages against a plain loop, to the last digit, with terminations and truncations apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import SchemaError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import gae, next_obs_of, rows_after

GAMMA, LAMBDA = 0.97, 0.9


def plain(
    columns: dict[str, Any], env: int, gamma: float = GAMMA, lam: float = LAMBDA
) -> list[np.float32]:
    """The definition, one number after the other, in float32."""
    found: list[np.float32] = []
    later = np.float32(0)
    for t in reversed(range(len(columns["reward"]))):
        reward, value, after, done, end = (columns[key][t, env] for key in columns)
        delta = reward + np.float32(gamma) * np.float32(not done) * after - value
        later = delta + np.float32(gamma * lam) * np.float32(not end) * later
        found.append(later)
    return found[::-1]


def random_block(seed: int, steps: int = 50, envs: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    reward, value, after = rng.normal(size=(3, steps, envs)).astype(np.float32)
    end = rng.random((steps, envs)) < 0.2
    done = end & (rng.random((steps, envs)) < 0.5)
    return {"reward": reward, "value": value, "next_value": after, "done": done, "end": end}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gamma", "lam"), [(0.97, 0.9), (1.0, 1.0), (0.99, 0.0)])
def test_it_equals_a_plain_loop_to_the_last_digit(seed: int, gamma: float, lam: float) -> None:
    columns = random_block(seed)
    found = gae(**columns, gamma=gamma, gae_lambda=lam)
    assert found.dtype == np.float32
    for env in range(3):
        assert found[:, env].tolist() == plain(columns, env, gamma, lam)


def test_known_returns_with_terminations_and_truncations_apart() -> None:
    """Three steps of reward 1 and V = 10: what follows a termination is worth nothing."""
    ones = np.ones((3, 2), np.float32)
    end = np.array([[0, 0], [0, 0], [1, 1]], np.bool_)
    done = end & [True, False]
    found = gae(ones, 0 * ones, 10 * ones * end, done, end, gamma=0.5, gae_lambda=1.0)
    assert found[:, 0].tolist() == [1.75, 1.5, 1.0]
    assert found[:, 1].tolist() == [1.75 + 1.25, 1.5 + 2.5, 1.0 + 5.0]


def test_values_of_the_next_states_come_from_the_next_row_the_tail_and_the_finals() -> None:
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    tail = Tail(np.array([8.0, 9.0]), np.array([1, 2]), np.array([-1.0, -2.0]), 3)
    found = rows_after(value, tail.obs, tail.final_obs, tail)
    assert found.tolist() == [[2, -1], [-2, 5], [8, 9]]
    block = Batch({"obs": value, "end": np.zeros((3, 2), np.bool_)}, 3)
    assert np.array_equal(next_obs_of(block, tail), found)


def test_other_shapes_are_refused() -> None:
    columns = random_block(0)
    with pytest.raises(SchemaError, match=r"all be \[T, N\]; got \(50, 1\), \(50, 3\)"):
        gae(**{**columns, "value": columns["value"][:, :1]}, gamma=1.0, gae_lambda=1.0)
