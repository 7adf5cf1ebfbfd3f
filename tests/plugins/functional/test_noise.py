"""Exploration noise: moments, correlation, state and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional import GaussianNoise, OUNoise, create_noise_generator


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", ["gauss", "ou"])
def test_shape_dtype_device_and_seed(name: str) -> None:
    first, second = (create_noise_generator(name, {"sigma": 0.5}, rng=generator()) for _ in "ab")
    for shape in [(3, 2)] * 3:
        drawn = first(shape)
        assert drawn.shape == shape
        assert drawn.dtype == torch.float32
        assert torch.equal(drawn, second(shape))
    first.reset()
    assert first((4,), "meta").device.type == "meta"


def test_gauss_has_its_mean_and_deviation() -> None:
    drawn = GaussianNoise(2.0, 0.5, rng=generator())((20_000,))
    assert float(drawn.mean()) == pytest.approx(2.0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(0.5, abs=0.02)
    assert GaussianNoise(3.0, 0.0)((2,)).tolist() == [3.0, 3.0]


def test_ou_is_the_recursion_and_is_correlated() -> None:
    noise, rng = OUNoise(1.0, 0.3, 0.15, 0.5, x0=-1.0, rng=generator(3)), generator(3)
    x = np.full(5, -1.0)
    path = []
    for _ in range(400):
        x = x + 0.15 * (1.0 - x) * 0.5 + 0.3 * 0.5**0.5 * rng.standard_normal(5)
        found = noise((5,))
        np.testing.assert_allclose(found, x, rtol=1e-6, atol=1e-6)
        path.append(found.numpy())
    late = np.array(path[100:]) - np.mean(path[100:], 0)
    correlation = (late[1:] * late[:-1]).mean() / (late * late).mean()
    assert correlation == pytest.approx(1 - 0.15 * 0.5, abs=0.05)
    noise.reset()
    assert noise.x.tolist() == -1.0
    without = OUNoise(0.0, 0.0, 1.0, 0.5, x0=np.array([4.0, 8.0]))
    assert without((2,)).tolist() == [2.0, 4.0]
    assert without((2,)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["gauss", "ou"])
def test_a_state_continues(name: str) -> None:
    noise = create_noise_generator(name, rng=generator())
    noise((3,))
    state = noise.state_dict()
    wanted = [noise((3,)) for _ in range(3)]
    other = create_noise_generator(name, rng=generator(9))
    other.load_state_dict(state)
    assert all(torch.equal(other((3,)), each) for each in wanted)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("pink", {}, "unknown noise 'pink'; expected gauss, ou"),
        ("gauss", {"theta": 1}, "'gauss': .*'theta'"),
        ("gauss", {"sigma": -1.0}, "sigma of the noise must be finite and >= 0"),
        ("ou", {"sigma": float("nan")}, "sigma"),
        ("ou", {"mu": float("inf")}, "mu of the noise must be finite"),
        ("ou", {"dt": 0.0}, "dt of the noise must be > 0"),
    ],
)
def test_what_is_wrong_is_named(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        create_noise_generator(name, options)


def test_another_shape_needs_a_reset() -> None:
    noise = OUNoise(rng=generator())
    noise((2,))
    with pytest.raises(SchemaError, match=r"has shape \(2,\), asked for \(3,\)"):
        noise((3,))
    noise.reset()
    assert noise((3,)).shape == (3,)
