"""Networks of unit norm: layers by torch's own functions, norms, both modes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dicore.errors import ConfigError
from dicore_contrib import FlashSACNet, UnitNormLayers
from dicore_plugins.models import create_model


def reference(part: UnitNormLayers, network: int, x: Tensor, *, training: bool) -> Tensor:
    """Computes what one network returns of [B, I], and leaves its running statistics alone."""

    def norm(index: int, rows: Tensor) -> Tensor:
        one = part.norms[index]
        mean, var, scale, shift = (
            getattr(one, name)[network, 0].clone() for name in ("mean", "var", "scale", "shift")
        )
        return F.batch_norm(rows, mean, var, scale, shift, training, 0.01, 1e-5)

    w = [weight[network].T for weight in part.weights]
    x = F.linear(norm(0, x), w[0])
    for index in range(1, len(w) - 1, 2):
        y = F.relu(norm(index, F.linear(x, w[index])))
        x = x + F.relu(norm(index + 1, F.linear(y, w[index + 1])))
    x = F.rms_norm(x, (x.shape[1],), part.rms_scale[network, 0], 1e-6)
    return F.linear(x, w[-1], part.bias[network, 0])


def disturbed(part: UnitNormLayers) -> UnitNormLayers:
    torch.manual_seed(0)
    with torch.no_grad():
        for each in (*part.parameters(), *part.buffers()):
            each.add_(0.3 * torch.rand_like(each))
    return part


@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_are_those_of_loops(training: bool) -> None:
    part, x = disturbed(UnitNormLayers(3, (5, 4, 4, 2))).train(training), torch.randn(9, 5)
    x.requires_grad_()
    wanted = torch.stack([reference(part, each, x, training=training) for each in range(3)])
    found = part(x)
    torch.testing.assert_close(found, wanted)
    slope = torch.randn_like(found)
    inputs = [x, *part.parameters()]
    for one, two in zip(
        torch.autograd.grad((found * slope).sum(), inputs),
        torch.autograd.grad((wanted * slope).sum(), inputs), strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    frozen = part(x, frozen=True)
    torch.testing.assert_close(frozen, wanted)
    frozen.sum().backward()
    assert x.grad is not None
    assert all(each.grad is None for each in part.parameters())


def test_running_statistics_are_those_of_torch_and_stay_finite() -> None:
    part, x = UnitNormLayers(2, (3, 4, 2)).train(), 2 + torch.randn(6, 3)
    mean, var = torch.zeros(3), torch.ones(3)
    for _ in range(3):
        part(x)
        F.batch_norm(x, mean, var, training=True, momentum=0.01)
    for network in range(2):
        torch.testing.assert_close(part.norms[0].mean[network, 0], mean)
        torch.testing.assert_close(part.norms[0].var[network, 0], var)
    part(torch.full((6, 3), torch.nan))
    part(x[:1])
    assert all(each.isfinite().all() for each in part.buffers())
    kept = [each.clone() for each in part.buffers()]
    part.eval()(x)
    assert all(one.equal(two) for one, two in zip(kept, part.buffers(), strict=True))


@torch.no_grad()
def test_projecting_gives_rows_and_scales_their_norms() -> None:
    part = UnitNormLayers(2, (5, 4, 4, 7))
    for weight in part.weights:  # orthogonal, and of unit norm where there are more outputs
        torch.testing.assert_close(weight.norm(dim=1), torch.ones(2, weight.shape[2]))
    torch.testing.assert_close(part.weights[2][1].T @ part.weights[2][1], torch.eye(4))
    before = disturbed(part).weights[2].detach().clone()
    scale, shift = (each.detach().clone() for each in (part.norms[1].scale, part.norms[1].shift))
    bias = part.bias.clone()
    part.project()
    for network in range(2):
        for row in range(4):
            given = before[network, :, row]
            wanted = given / sum(float(each) ** 2 for each in given) ** 0.5
            torch.testing.assert_close(part.weights[2][network, :, row], wanted)
        total = float(scale[network].square().sum() + shift[network].square().sum())
        torch.testing.assert_close(
            part.norms[1].shift[network], shift[network] * (16 / total) ** 0.5
        )
        assert float(part.rms_scale[network].square().sum()) == pytest.approx(4, rel=1e-5)
        for norm in part.norms:
            total = float((norm.scale[network].square() + norm.shift[network].square()).sum())
            assert total == pytest.approx(norm.scale.shape[-1], rel=1e-5)
    assert part.bias.equal(bias)


def test_deviations_are_between_their_bounds() -> None:
    net = FlashSACNet(3, 2, actor_hidden_size_list=[8], critic_hidden_size_list=[8, 8], n_atom=5)
    assert not any(each.training for each in net.modules())
    with torch.no_grad():
        net.actor.bias.copy_(torch.tensor([0.0, 0.0, 50.0, -50.0]))
    found = net(torch.zeros(4, 3))
    torch.testing.assert_close(found["log_std"][0], torch.tensor([2.0, -10.0]))
    assert found["q_value"].shape == (4, 2)
    assert net.support.tolist() == [-5.0, -2.5, 0.0, 2.5, 5.0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"critic_hidden_size_list": [8, 4]}, "equal size"),
        ({"actor_hidden_size_list": []}, "equal size"),
        ({"v_min": 5.0}, "v_max"),
        ({"n_atom": 1}, "n_atom"),
        ({"obs_shape": (3, 64, 64)}, "vector"),
    ],
)
def test_unsupported_options_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        create_model({"type": "flash_sac", "obs_shape": 3, "action_shape": 1, **options})
