"""A step of the optimizers of several seeds is that of each."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")

import torch
from torch import nn

from dicore_plugins.models import Flat
from dicore_plugins.optimizers import FlatRMSprop
from dicore_tools.together.optimizers import step_all
from tests.plugins.optimizers.test_flat import batches, losses, make, net, vector

CASES = [
    {"max_grad_norm": 0.05, "weight_decay": 0.1},
    {"decoupled": True, "betas": (0.5, 0.9)},
    {"max_grad_norm": 100.0},
]


@pytest.mark.parametrize("options", CASES)
def test_steps_of_several_optimizers_are_those_of_each(options: dict[str, Any]) -> None:
    alone, together = ([net(seed) for seed in range(3)] for _ in range(2))
    single = [make(each, **options) for each in alone]
    first, *others = [make(each, **options) for each in together]
    for x, y in batches(102):  # past a sweep
        for module, optimizer in zip(alone, single, strict=True):
            losses(module, optimizer, [(x, y)])
        found = []
        for module, optimizer in zip(together, (first, *others), strict=True):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(x), y)
            loss.backward()
            found.append(loss.detach())
        step_all([first, *others], torch.stack(found))
    for module, other in zip(alone, together, strict=True):
        torch.testing.assert_close(vector(other), vector(module), rtol=1e-4, atol=1e-6)
    for one, other in zip(single, (first, *others), strict=True):
        assert one.counts == other.counts == (102, 0)
        entry, same = one.state_dict()["state"][0], other.state_dict()["state"][0]
        assert entry["step"] == same["step"] == 102
        torch.testing.assert_close(same["exp_avg"], entry["exp_avg"], rtol=1e-3, atol=1e-6)


def test_a_step_that_is_not_finite_is_skipped_by_its_optimizer_alone() -> None:
    modules = [net(seed) for seed in range(3)]
    first, *others = [make(each) for each in modules]
    before = [vector(each).clone() for each in modules]
    for each in (first, *others):
        each.flat.grad.fill_(0.1)
    others[0].flat.grad[2] = torch.nan
    step_all([first, *others], torch.tensor([1.0, 1.0, torch.inf]))
    kept = [torch.equal(vector(each), old) for each, old in zip(modules, before, strict=True)]
    assert kept == [False, True, True]
    assert [each.skipped for each in (first, *others)] == [0, 1, 1]


def test_optimizers_other_than_adam_step_one_by_one() -> None:
    alone, together = ([net(seed) for seed in range(2)] for _ in range(2))
    single, every = ([FlatRMSprop(Flat(each)) for each in some] for some in (alone, together))
    for each in (*single, *every):
        each.flat.grad.fill_(0.1)
    for optimizer in single:
        optimizer.step(torch.zeros(()))
    step_all(every, torch.zeros(2))
    for module, other in zip(alone, together, strict=True):
        assert torch.equal(vector(other), vector(module))


def test_optimizers_with_other_rates_or_hooks_step_one_by_one() -> None:
    modules = [net(seed) for seed in range(3)]
    first, slow, hooked = [make(each) for each in modules]
    slow.learning_rate = 0.0
    called: list[object] = []
    hooked.register_step_pre_hook(lambda *_: called.append(1))
    before = [vector(each).clone() for each in modules]
    for each in (first, slow, hooked):
        each.flat.grad.fill_(0.1)
    step_all([first, slow, hooked], torch.ones(3))
    kept = [torch.equal(vector(each), old) for each, old in zip(modules, before, strict=True)]
    assert kept == [False, True, False]
    assert called == [1]
