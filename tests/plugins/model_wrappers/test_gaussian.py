"""Continuous actions: the mean, or samples whose gradient reaches mean and deviation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.run.random import seed_everything
from dicore_plugins.models import model_wrap

K, A = 20_000, 2


class Fixed:
    """Returns a Gaussian."""

    def __init__(self, like: Any) -> None:
        mean = np.tile(np.array([1, -2], np.float32), (K, 1))
        log_std = np.tile(np.log(np.array([0.5, 2], np.float32)), (K, 1))
        self.output = {"mean": like(mean), "log_std": like(log_std)}

    def __call__(self, obs: Any = None) -> dict[str, Any]:
        return dict(self.output)


@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_samples_have_mean_and_deviation(like: Any) -> None:
    wrap = model_wrap(Fixed(like), "reparam_sample", rng=np.random.default_rng(0))
    action = wrap.forward()["action"]
    assert type(action) is type(Fixed(like).output["mean"])
    found = np.asarray(action)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(0), [1, -2], atol=0.05)
    np.testing.assert_allclose(found.std(0), [0.5, 2], rtol=0.03)
    mean = model_wrap(Fixed(like), "deterministic_sample").forward()["action"]
    assert np.array_equal(np.asarray(mean), np.asarray(Fixed(like).output["mean"]))


def test_arrays_and_tensors_draw_the_same() -> None:
    drawn = []
    for like in (np.asarray, torch.from_numpy):
        seed_everything(3)
        drawn.append(np.asarray(model_wrap(Fixed(like), "reparam_sample").forward()["action"]))
    np.testing.assert_allclose(*drawn, rtol=1e-5, atol=1e-6)


def test_gradients_flow_through_samples() -> None:
    model = Fixed(torch.from_numpy)
    for each in model.output.values():
        each.requires_grad_()
    model_wrap(model, "reparam_sample").forward()["action"].sum().backward()
    mean, log_std = model.output["mean"].grad, model.output["log_std"].grad
    assert torch.equal(mean, torch.ones_like(mean))
    assert log_std.std() > 0.4
