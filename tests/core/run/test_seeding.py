"""Stateless seeds: stable for good, sensitive to every part."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import timeit
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.run.random import episode_seed, hash_seed

PARTS = st.lists(st.integers(-(2**70), 2**70) | st.text(max_size=8), max_size=5)


def test_seeds_are_the_same_in_every_process_and_version() -> None:
    """Literal values: a change here changes every seeded run in the world."""
    assert hash_seed() == 16294208416658607535
    assert hash_seed(0) == 6791897765849424158
    assert hash_seed(0, "collector", 3) == hash_seed(0, "collector", 3)
    program = (
        "from dicore.run.random import *; print(hash_seed(7, 'é', 2), episode_seed(1, 'a', 2, 3))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert outputs == {f"{hash_seed(7, 'é', 2)} {episode_seed(1, 'a', 2, 3)}\n"}


@given(PARTS, PARTS)
def test_different_parts_give_different_seeds(
    first: list[int | str], second: list[int | str]
) -> None:
    """Integers count modulo 2**64; otherwise a clash of 64 bits would be a bug, not bad luck."""
    plain = [[p % 2**64 if isinstance(p, int) else p for p in parts] for parts in (first, second)]
    assert (hash_seed(*first) == hash_seed(*second)) == (plain[0] == plain[1])
    assert 0 <= hash_seed(*first) < 2**64


def test_a_number_and_its_text_differ() -> None:
    assert hash_seed(1) != hash_seed("1")


def test_small_numbers_never_cancel_out() -> None:
    small = range(-3, 6)
    parts = [(), *itertools.product(small), *itertools.product(small, small)]
    assert len({hash_seed(*some) for some in parts}) == len(parts)


def test_a_float_is_refused() -> None:
    with pytest.raises(TypeError):
        hash_seed(1.5)  # type: ignore[arg-type]


def test_episode_seeds_of_a_run_are_distinct_and_fit_31_bits() -> None:
    """8 environments, 3 episodes, two roles: 48 starts, none of them twice."""
    seeds = [
        episode_seed(0, role, env_id, episode)
        for role in ("collector", "evaluator")
        for env_id in range(8)
        for episode in range(3)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_neighbouring_episode_seeds_share_no_pattern() -> None:
    """Each output bit flips about half of the time between one episode and the next."""
    n = 4000
    seeds = [episode_seed(5, "collector", 0, episode) for episode in range(n)]
    for bit in range(31):
        flips = sum((a ^ b) >> bit & 1 for a, b in itertools.pairwise(seeds))
        assert 0.45 < flips / n < 0.55


def test_an_episode_seed_is_cheap() -> None:
    """As fast as ten plain calls on the reference machine; both are slower on a busy one."""

    def fastest(call: Callable[[], object]) -> float:
        return min(timeit.repeat(call, number=5_000, repeat=20))

    assert fastest(lambda: episode_seed(0, "collector", 3, 5)) < 60 * fastest(lambda: int("3"))
