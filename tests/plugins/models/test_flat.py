"""Flat parameters: what shares memory, what keeps it, what breaks it, and mending."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from dicore.errors import UsageError
from dicore_plugins.models import DQN, Flat


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def pair(other: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(1, 1), other)


def learn(module: nn.Module) -> torch.Tensor:
    loss = module(torch.ones(5, 3)).square().sum()
    loss.backward()
    return loss


def test_the_flat_tensor_is_the_parameters() -> None:
    module = net()
    before = nn.utils.parameters_to_vector(module.parameters()).detach()

    flat = Flat(module)

    assert torch.equal(flat.data, before)
    flat.data.fill_(0.5)
    assert all((parameter == 0.5).all() for parameter in module.parameters())
    with torch.no_grad():
        module[0].weight.zero_()
    assert not flat.data[:12].any()
    assert flat.data[12:].all()


def test_backward_fills_the_flat_gradient_and_adds_to_it() -> None:
    module = net()
    other = copy.deepcopy(module)
    learn(other)
    vector = torch.cat([parameter.grad.reshape(-1) for parameter in other.parameters()])
    assert torch.equal(Flat(other).grad, vector), "an existing gradient is kept"

    flat = Flat(module)
    learn(module)
    assert torch.allclose(flat.grad, vector)
    learn(module)
    assert torch.allclose(flat.grad, 2 * vector, atol=1e-5)
    flat.zero_grad()
    assert not flat.grad.any()
    assert flat.intact()


def test_saving_and_loading_keep_the_views(tmp_path: Any) -> None:
    module, other = net(), net()
    flat = Flat(module)
    Flat(other).data.fill_(2.0)
    save_file(other.state_dict(), tmp_path / "x.safetensors")

    module.load_state_dict(load_file(tmp_path / "x.safetensors"))

    assert flat.intact()
    assert (flat.data == 2.0).all()
    assert module.state_dict().keys() == net().state_dict().keys()


@pytest.mark.parametrize(
    "breaks",
    [
        lambda module: module.double().float(),
        lambda module: module.zero_grad(),
        lambda module: setattr(module[0].weight, "grad", torch.zeros(4, 3)),
    ],
    ids=["another dtype and back", "module.zero_grad()", "a gradient of its own"],
)
def test_what_breaks_the_views_is_seen_and_mended(breaks: Callable[[nn.Module], Any]) -> None:
    module = net()
    flat = Flat(module)
    values = flat.data.clone()
    breaks(module)
    assert not flat.intact()

    flat.rebind()

    assert flat.intact()
    assert torch.equal(flat.data, values)
    learn(module)
    assert flat.grad.any()
    flat.data.zero_()
    assert not module[0].weight.any()


def test_a_deep_copy_does_not_share() -> None:
    module = net()
    flat = Flat(module)
    other = copy.deepcopy(module)
    flat.data.zero_()
    assert other[0].weight.any()
    assert flat.intact()


def test_a_frozen_module_has_no_gradient() -> None:
    flat = Flat(net().requires_grad_(False))
    assert flat.intact()
    assert not hasattr(flat, "grad")


def test_shared_parameters_are_there_once() -> None:
    layer = nn.Linear(3, 3)
    flat = Flat(nn.Sequential(layer, layer))
    assert flat.data.numel() == 12


def test_split_gives_views_in_the_parameters_shapes() -> None:
    flat = Flat(net())
    moment = torch.arange(flat.data.numel(), dtype=torch.float32)
    pieces = flat.split(moment)
    assert [piece.shape for piece in pieces] == [p.shape for p in flat.parameters]
    pieces[0].zero_()
    assert not moment[:12].any()


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (nn.ReLU(), "ReLU has no parameters"),
        (pair(nn.Linear(1, 1).double()), "differ in dtype: torch.float32, torch.float64"),
        (pair(nn.Linear(1, 1, device="meta")), "differ in device: cpu, meta"),
        (pair(nn.Linear(1, 1).requires_grad_(False)), "some do not"),
    ],
    ids=["none", "dtypes", "devices", "partly frozen"],
)
def test_modules_that_cannot_be_flat_are_refused(module: nn.Module, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Flat(module)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda() -> None:
    module = DQN(4, 2).cuda()
    flat = Flat(module)
    module.q(torch.randn(3, 4, device="cuda")).sum().backward()
    assert flat.intact()
    assert flat.grad.is_cuda
    assert flat.grad.any()
    assert module.act_numpy() is None
    module.cpu()
    assert not flat.intact()
    flat.rebind()
    assert flat.data.device.type == "cpu"


@pytest.mark.parametrize("theta", [None, 0.25])
def test_a_target_follows_with_its_buffers(theta: float | None) -> None:
    source, target = net(), net()
    learn(source)  # moves the running statistics
    mean = source[1].running_mean
    assert isinstance(mean, torch.Tensor)
    flat, other = Flat(source), Flat(target.requires_grad_(False))
    flat.data.normal_()
    before = other.data.clone(), target[1].running_mean.clone()  # type: ignore[union-attr,operator]
    other.follow(flat, theta)
    share = 1.0 if theta is None else theta
    torch.testing.assert_close(other.data, torch.lerp(before[0], flat.data, share))
    torch.testing.assert_close(target[1].running_mean, torch.lerp(before[1], mean, share))
    assert target[1].num_batches_tracked == 1


def test_parameters_move_into_given_memory_with_their_values() -> None:
    """Rows of the parameters of several networks, for joint updates."""
    module = net()
    flat = Flat(module)
    before = flat.data.clone()
    rows, grads = torch.zeros(2, len(before)), torch.ones(2, len(before))

    flat.rebind(rows[1], grads[1])

    assert flat.intact()
    assert torch.equal(rows[1], before)
    assert not rows[0].any()
    assert not grads[1].any(), "a gradient begins at zero, or at that which was there"
    learn(module)
    assert grads[1].any()
    assert (grads[0] == 1).all()
    rows[1].fill_(0.5)
    assert (module[0].weight == 0.5).all()
