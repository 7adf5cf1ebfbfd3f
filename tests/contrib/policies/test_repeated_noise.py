"""Noise that is kept: for how long, and for environments that step alone."""

from __future__ import annotations

import numpy as np
import pytest

from dicore_contrib import RepeatedNoise


def test_noise_is_kept_for_as_long_as_a_zeta_distribution_says() -> None:
    noise, lengths, last, kept = RepeatedNoise(np.random.default_rng(0), 4), [0, 0, 0, 0], None, 0
    drawn = []
    for _ in range(20_000):
        found = noise.of(np.arange(3), (2,))
        if last is not None and not (found == last).any():
            lengths[kept - 1] += 1
            kept = 0
            drawn.append(found)
        else:
            assert last is None or (found == last).all()
        kept, last = kept + 1, found.copy()
    share = np.array(lengths) / sum(lengths)
    wanted = np.array([1, 1 / 4, 1 / 9, 1 / 16]) / (1 + 1 / 4 + 1 / 9 + 1 / 16)
    assert share == pytest.approx(wanted, abs=0.01)
    assert np.std(drawn, 0) == pytest.approx(np.ones((3, 2)), abs=0.03)


def test_noise_of_environments_that_act_alone_is_never_kept_too_long() -> None:
    noise, rng = RepeatedNoise(np.random.default_rng(0), 3), np.random.default_rng(1)
    last: dict[int, tuple[float, int]] = {}
    for _ in range(3_000):
        ids = np.flatnonzero(rng.random(5) < 0.4)
        if len(ids):
            for each, found in zip(ids.tolist(), noise.of(ids, (1,))[:, 0].tolist(), strict=True):
                before, age = last.get(each, (0.0, 0))
                last[each] = found, age + 1 if found == before else 1
                assert last[each][1] <= 3
    one, two = RepeatedNoise(np.random.default_rng(0), 1), np.random.default_rng(0)
    for _ in range(3):  # of one step each
        two.random()
        assert one.of(np.arange(2), (1,)) == pytest.approx(two.standard_normal((2, 1), np.float32))
