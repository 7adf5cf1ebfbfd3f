"""The actor-critic network: heads, trunks, initial weights, normalisers, acting by NumPy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ConfigError, UsageError
from dicore_plugins.models import VAC, ACERNet, Flat, PPGNet, RunningNorm, VACConfig, create_model

FORMS: dict[str, dict[str, Any]] = {
    "discrete": {"action_shape": 3},
    "heads": {"action_shape": [3, 2]},
    "gaussian": {"action_shape": 2, "continuous": True},
    "shared": {"action_shape": 3, "share_encoder": True, "actor_head_hidden_size_list": (8,)},
    "layer_norm": {"action_shape": 3, "layer_norm": True, "activation": "relu"},
    "normalised": {"action_shape": 3, "obs_norm": True, "value_norm": True},
}


def leaves(output: dict[str, Any]) -> dict[str, Any]:
    flat = {}
    for key, value in output.items():
        parts = value if isinstance(value, list) else [value]
        flat |= {f"{key}{i}": np.asarray(each.detach() if torch.is_tensor(each) else each)
                 for i, each in enumerate(parts)}  # fmt: skip
    return flat


def noisy(model: VAC) -> VAC:
    with torch.no_grad():
        for index, each in enumerate(model.parameters()):
            each.copy_(torch.randn(each.shape, generator=torch.Generator().manual_seed(index)))
    for norm in (model.obs_norm, model.value_norm):
        if norm is not None:
            norm.update(torch.randn(50, len(norm.mean)) * 3 + 1)
    return model


@pytest.mark.parametrize("form", FORMS)
def test_acting_by_numpy_equals_torch(form: str) -> None:
    torch.manual_seed(0)
    model = noisy(VAC(4, **FORMS[form]))
    act, obs = model.act_numpy(), np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    assert act is not None
    for _ in range(2):
        found, wanted = leaves(act(obs)), leaves(model(torch.from_numpy(obs), mode="compute_actor"))
        assert found.keys() == wanted.keys()
        for key, value in found.items():
            np.testing.assert_allclose(value, wanted[key], rtol=1e-5, atol=1e-5)
            assert value.dtype == np.float32
        noisy(model)  # in place: the views follow
    model.double().float()  # the parameters moved
    assert act(obs).keys() == act(np.repeat(obs, 10_000, 0)).keys()


@pytest.mark.parametrize("form", FORMS)
def test_a_mode_computes_its_part_alone(form: str) -> None:
    model, obs = noisy(VAC(4, **FORMS[form])), torch.randn(5, 4)
    both = leaves(model(obs))
    alone = [model(obs, mode=mode) for mode in ("compute_actor", "compute_critic")]
    parts = {**leaves(alone[0]), **leaves(alone[1])}
    assert both.keys() == parts.keys()
    assert all(np.array_equal(both[key], parts[key]) for key in both)
    assert both["value0"].shape == (5,)


@pytest.mark.parametrize("kind", [VAC, ACERNet, PPGNet])
def test_an_unknown_mode_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match="unknown mode 'compute_acto'; expected compute_actor, "):
        kind(4, 2)(torch.zeros(5, 4), mode="compute_acto")


@pytest.mark.parametrize("shared", [None, False, True])
def test_images_share_the_encoder_unless_told_otherwise(shared: bool | None) -> None:
    model = VAC((4, 36, 36), 3, share_encoder=shared, encoder_hidden_size_list=(8,))
    obs = torch.randint(0, 256, (2, 4, 36, 36), dtype=torch.uint8)
    output = model(obs)
    assert output["logit"].shape == (2, 3)
    assert torch.equal(model.v(obs), output["value"])
    assert model.act_numpy() is None
    convs = sum(name.endswith("conv.layers.0.weight") for name in model.state_dict())
    assert convs == (2 if shared is False else 1)


def test_the_initial_weights_are_those_of_ppo() -> None:
    """Orthogonal: rows of length sqrt(2), 0.01 at the end of the actor, 1 of the critic."""
    model = VAC(8, 3, encoder_hidden_size_list=(8, 8), share_encoder=False)
    for part, last in ((model.actor, 0.01), (model.critic, 1.0)):
        *hidden, output = part.layers
        for layer, gain in [*((each, 2**0.5) for each in hidden), (output, last)]:
            weight: Any = layer.weight
            product = weight @ weight.T
            torch.testing.assert_close(product, torch.eye(len(weight)) * gain**2)
            assert not layer.bias.any()


def test_uniform_weights_are_those_of_linear_layers() -> None:
    torch.manual_seed(0)
    model = VAC(4, 2, encoder_hidden_size_list=[64], initial_weights="uniform")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(*sizes) for sizes in ((4, 64), (64, 2))]
    for layer, wanted in zip(model.actor.layers, layers, strict=True):
        assert torch.equal(layer.weight, wanted.weight)
        assert torch.equal(layer.bias, wanted.bias)


def test_the_deviation_does_not_depend_on_the_state() -> None:
    model = VAC(4, 2, continuous=True, log_std_init=-1.0)
    log_std = model(torch.randn(5, 4))["log_std"]
    assert torch.equal(log_std, torch.full((5, 2), -1.0))
    log_std.sum().backward()
    assert model.log_std is not None
    assert torch.equal(model.log_std.grad, torch.full((2,), 5.0))


def test_running_statistics_are_those_of_all_rows() -> None:
    rows = np.random.default_rng(0).normal(100, 5, (600, 3)).astype(np.float32)
    norm = RunningNorm(3)
    for piece in np.split(rows, [1, 50, 51, 400]):
        norm.update(torch.from_numpy(piece))
    np.testing.assert_allclose(norm.mean, rows.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(norm.var, rows.astype(np.float64).var(0), rtol=1e-5)
    found = norm(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(found.std(0), 1, rtol=1e-3)
    np.testing.assert_allclose(norm.by_numpy()(rows), found, rtol=1e-5, atol=1e-6)
    assert norm(torch.full((1, 3), 1e9)).tolist() == [[10, 10, 10]]
    before = copy.deepcopy(norm.state_dict())
    norm.update(torch.tensor([[1.0, float("nan"), 1.0]]))
    norm.update(torch.tensor([[1.0, float("inf"), 1.0]]))
    assert all(torch.equal(each, before[key]) for key, each in norm.state_dict().items())


def test_statistics_are_saved() -> None:
    model, twin = noisy(VAC(4, 3, obs_norm=True, value_norm=True)), VAC(4, 3, obs_norm=True,
                                                                       value_norm=True)  # fmt: skip
    twin.load_state_dict(model.state_dict())
    obs = torch.randn(5, 4)
    assert torch.equal(model(obs)["value"], twin(obs)["value"])
    assert torch.equal(model(obs)["logit"], twin(obs)["logit"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"obs_shape": None, "action_shape": 2}, "model.obs_shape is missing"),
        ({"obs_shape": 4, "action_shape": None}, "model.action_shape is missing"),
        ({"obs_shape": 4, "action_shape": (2, 0)}, "action_shape"),
        ({"obs_shape": 4, "action_shape": (2,), "continuous": True}, "one vector"),
        ({"obs_shape": (4, 36, 36), "action_shape": 2, "obs_norm": True}, "obs_norm"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VAC(**options)
    with pytest.raises(ConfigError):
        create_model({"type": "vac", **options})
    image = ((("image",), 3888, (), (3, 36, 36)),)
    assert [path for path, _ in VACConfig(obs_parts=image, obs_norm=True).check()] == ["obs_norm"]
    assert VACConfig().activation == "tanh"


@pytest.mark.parametrize("form", [*FORMS, "relu", "hybrid"])
def test_gradients_by_hand_equal_those_of_autograd(form: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "relu": {"action_shape": 3, "activation": "relu", "share_encoder": True},
        "hybrid": {"action_shape": 3, "args_shape": 2},
    }
    torch.manual_seed(0)
    model = noisy(VAC(40, **(FORMS | more)[form], encoder_hidden_size_list=(16, 24)))
    assert not model.differentiable(), "the gradients have no memory yet"
    flat, obs = Flat(model), torch.randn(9, 40)
    if form == "layer_norm":
        assert not model.differentiable()
        return
    assert model.differentiable()

    def loss(output: dict[str, Any]) -> Any:
        parts = [each for value in output.values()
                 for each in (value if isinstance(value, list) else [value])]  # fmt: skip
        return sum((each.tanh() * (1 + index)).sum() for index, each in enumerate(parts))

    wanted = loss(model(obs))
    wanted.backward()
    gradient = flat.grad.clone()
    flat.zero_grad()
    output, pull = model.forward_and_pull(obs)
    found = loss(output)
    found.backward()
    pull()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(flat.grad, gradient)
    handle = model.register_forward_hook(lambda *_: None)
    assert not model.differentiable(), "hooks would not run"
    handle.remove()
