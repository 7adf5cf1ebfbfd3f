"""The target network: when it follows, how far, and that it is a copy."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from dicore.errors import SchemaError, UsageError
from dicore_plugins.models import Flat, model_wrap


def net(value: float) -> nn.Module:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(value)
    return module


def source_of(module: nn.Module, form: str) -> Any:
    return Flat(module) if form == "flat" else module.state_dict()


def values(wrap: Any) -> set[float]:
    tensors = [*wrap.parameters(), wrap.state_dict()["1.running_mean"]]
    return {round(float(each), 6) for tensor in tensors for each in tensor.detach().reshape(-1)}


@pytest.mark.parametrize("form", ["flat", "state dict"])
@pytest.mark.parametrize("options", [{"freq": 3}, {"kw": {"freq": 3}}], ids=["freq", "kw"])
def test_assign_copies_every_third_time_only(form: str, options: dict[str, Any]) -> None:
    target = model_wrap(net(0.0), "target", update_type="assign", **options)
    source = source_of(net(1.0), form)
    seen = []
    for _ in range(4):
        target.update(source)
        seen.append(values(target))
    assert seen == [{0.0}, {0.0}, {1.0}, {1.0}]
    assert target.update_count == 4


@pytest.mark.parametrize("form", ["flat", "state dict"])
@pytest.mark.parametrize("options", [{"theta": 0.1}, {"kw": {"theta": 0.1}}], ids=["theta", "kw"])
def test_momentum_moves_by_a_share(form: str, options: dict[str, Any]) -> None:
    target = model_wrap(net(0.0), "target", update_type="momentum", **options)
    source = source_of(net(1.0), form)
    target.update(source)
    assert values(target) == {0.1}
    target.update(source)
    assert values(target) == {0.19}


def test_direct_copies_at_once_and_counts_anew() -> None:
    target = model_wrap(net(0.0), "target", freq=3)
    source = Flat(net(1.0))
    for _ in range(2):
        target.update(source)
    target.update(source, direct=True)
    assert values(target) == {1.0}
    assert target.update_count == 0
    soft = model_wrap(net(0.0), "target", update_type="momentum", theta=0.1)
    soft.update(source, direct=True)
    assert values(soft) == {1.0}


def test_the_model_itself_is_left_alone() -> None:
    model = net(0.0)
    target = model_wrap(model, "target", freq=1)
    target.update(net(1.0).state_dict())
    assert values(model_wrap(model, "base")) == {0.0}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(parameter.requires_grad for parameter in target.parameters())
    assert not target(torch.ones(3, 2)).requires_grad


def test_layers_below_are_kept() -> None:
    target = model_wrap(model_wrap(net(0.0), "base"), "target")
    assert repr(target) == "TargetNetwork(BaseWrapper(Sequential))"


def test_it_follows_after_its_memory_moved() -> None:
    target = model_wrap(net(0.0), "target", freq=1)
    target.double().float()
    target.update(Flat(net(1.0)))
    assert values(target) == {1.0}
    other = copy.deepcopy(target)
    other.update(Flat(net(2.0)))
    assert (values(other), values(target)) == ({2.0}, {1.0})


def test_counters_of_batches_are_copied_too() -> None:
    """Integers cannot move by a share."""
    target = model_wrap(net(0.0), "target", update_type="momentum", theta=0.5)
    target.update(Flat(net(4.0)))
    assert int(target.state_dict()["1.num_batches_tracked"]) == 4


@pytest.mark.parametrize(
    "source", [Flat(nn.Linear(2, 3)), nn.Linear(2, 3).state_dict()], ids=["flat", "state dict"]
)
def test_another_network_is_refused(source: Any) -> None:
    with pytest.raises(SchemaError):
        model_wrap(net(0.0), "target", freq=1).update(source)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"update_type": "copy"}, "'copy'"),
        ({"freq": 0}, "freq of a target must be >= 1"),
        ({"theta": 0.0}, "theta of a target"),
        ({"kw": {"tau": 0.1}}, r"unknown options \['tau'\]"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        model_wrap(net(0.0), "target", **options)
