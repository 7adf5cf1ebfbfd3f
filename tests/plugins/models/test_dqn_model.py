"""The Q network: shapes, heads, and acting by numpy on the very same parameters."""

from __future__ import annotations

import copy
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from torch.nn.utils import parametrizations

from dicore.errors import ConfigError, UnknownComponentError
from dicore_plugins.models import DQN, Flat, create_model
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.models.encoders.conv import output_size
from dicore_plugins.models.shapes import SMALLEST_IMAGE


def as_list(logit: Any) -> list[Any]:
    return logit if isinstance(logit, list) else [logit]


@pytest.mark.parametrize("obs_shape", [4, (4,), [4]], ids=str)
@pytest.mark.parametrize("dueling", [False, True])
def test_vectors_go_through_an_mlp(obs_shape: Any, dueling: bool) -> None:
    output = DQN(obs_shape, 2, dueling=dueling)(torch.randn(5, 4))
    assert output["logit"].shape == (5, 2)
    assert set(output) == {"logit"}


def test_the_documents_image_model() -> None:
    model = DQN(obs_shape=(4, 84, 84), action_shape=6)
    image = torch.randint(0, 256, (3, 4, 84, 84), dtype=torch.uint8)

    logit = model(image)["logit"]

    assert logit.shape == (3, 6)
    assert torch.allclose(logit, model(image.float() / 255)["logit"], atol=1e-6)
    assert model.act_numpy() is None


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (DQN(4, 2), [(128, 4), (128, 128), (64, 128), (2, 64)]),
        (
            DQN((4, 84, 84), 6, encoder_hidden_size_list=(512,)),
            [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (6, 512)],
        ),
    ],
    ids=["default", "Nature CNN"],
)
def test_the_layers_have_the_documented_sizes(model: DQN, shapes: list[Any]) -> None:
    assert [tuple(each.shape) for each in model.parameters() if each.dim() > 1] == shapes


@pytest.mark.parametrize("actions", [[3], [3, 2], (4, 1, 2)], ids=str)
@pytest.mark.parametrize("dueling", [False, True])
def test_a_list_of_actions_gives_a_list_of_logits(actions: Any, dueling: bool) -> None:
    model = DQN(5, actions, (16,), head_hidden_size_list=(8,), dueling=dueling)
    logit = model(torch.randn(7, 5))["logit"]
    assert isinstance(logit, list)
    assert [tuple(each.shape) for each in logit] == [(7, size) for size in actions]


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2**0.5), ("tanh", 5 / 3)])
def test_layers_begin_orthogonal(activation: Any, gain: float) -> None:
    """Scaled so that signals keep their size; the last layer by 1; biases zero."""
    model = DQN(4, 2, (6, 3), activation=activation)
    weights = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    for weight, scale in zip(weights, (gain, gain, 1.0), strict=True):
        matrix = weight.detach()
        gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
        assert torch.allclose(gram, scale**2 * torch.eye(len(gram)), atol=1e-5)
    assert not any(p.detach().any() for p in model.parameters() if p.dim() == 1)


@pytest.mark.parametrize("bias", ["zero", "uniform"])
def test_values_follow_the_scale_of_observations_unless_biases_are_uniform(bias: Any) -> None:
    """Zero biases: homogeneous without normalisation, blind to the scale with it."""
    torch.manual_seed(0)
    obs = torch.randn(5, 4)
    plain, normalised = (DQN(4, 2, layer_norm=norm, initial_bias=bias) for norm in (False, True))
    follows = torch.allclose(plain.q(3 * obs), 3 * plain.q(obs), atol=1e-4)
    blind = torch.allclose(normalised.q(3 * obs), normalised.q(obs), atol=1e-3)
    assert (follows, blind) == (bias == "zero", bias == "zero")
    hidden = [each.layers[-1].bias.detach() for each in (plain.encoder, normalised.encoder)]
    assert all(bool(each.any()) == (bias == "uniform") for each in hidden)


def test_dueling_is_its_equation() -> None:
    """Wang et al. 2016, equation 9, from the two streams read off the module."""
    model = DQN(3, 4, (8,), dueling=True)
    obs = torch.randn(6, 3)
    head = model.heads[0]
    features = model.encoder(obs)
    advantage, value = head.advantage(features), head.value(features)
    want = value + advantage - advantage.mean(1, keepdim=True)
    assert torch.allclose(model.q(obs), want, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True, "last"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "gelu"])
def test_forward_is_that_of_plain_layers(activation: Any, layer_norm: Any) -> None:
    """Against torch's own layers, called one after the other."""
    model = DQN(3, 2, (8, 6), activation=activation, layer_norm=layer_norm)
    obs = torch.randn(5, 3)
    function = getattr(torch.nn.functional, activation, torch.tanh)
    x = obs
    for layer in model.encoder.layers:
        normed = layer_norm is True or (layer_norm and layer is model.encoder.layers[-1])
        norm = torch.nn.LayerNorm(layer.out_features) if normed else torch.nn.Identity()
        x = function(norm(layer(x)))
    want = model.heads[0].advantage.layers[0](x)
    if activation == "tanh":  # by NumPy
        torch.testing.assert_close(model.q(obs), want, rtol=1e-5, atol=1e-6)
    else:
        assert torch.equal(model.q(obs), want)


def test_vectors_of_other_number_types_are_taken() -> None:
    model = DQN(3, 2, (8,))
    obs = torch.randint(0, 5, (4, 3))
    assert torch.equal(model.q(obs), model.q(obs.float()))
    assert torch.equal(model.q(obs.double()), model.q(obs.float()))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dueling": True},
        {"action_shape": [3, 2]},
        {"activation": "tanh"},
        {"activation": "elu"},
        {"encoder_hidden_size_list": ()},
        {"action_shape": [2, 2], "dueling": True, "head_hidden_size_list": (8,)},
        {"layer_norm": True, "head_hidden_size_list": (8,)},
        {"layer_norm": "last", "head_hidden_size_list": (8,)},
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [1, 8, 300])
def test_acting_by_numpy_equals_the_module(options: dict[str, Any], rows: int) -> None:
    torch.manual_seed(0)
    model = DQN(**{"obs_shape": 4, "action_shape": 3, **options})
    act = model.act_numpy()
    assert act is not None
    obs = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    with torch.inference_mode():
        want = as_list(model(torch.from_numpy(obs))["logit"])

    got = as_list(act(obs))
    again = as_list(act(obs[::-1]))

    for array, later, tensor in zip(got, again, want, strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), atol=1e-6)
        np.testing.assert_allclose(later[::-1], tensor.numpy(), atol=1e-6)
        assert array.dtype == np.float32
        top = np.sort(tensor.numpy(), -1)
        clear = np.ones(rows, bool) if array.shape[1] == 1 else top[:, -1] - top[:, -2] > 1e-5
        assert (array.argmax(-1) == tensor.numpy().argmax(-1))[clear].all()


def test_the_actor_sees_every_change_of_the_weights() -> None:
    """By an update, by Flat, by load_state_dict, by a move in memory: nothing to refresh."""
    model = DQN(4, 2)
    act = model.act_numpy()
    assert act is not None
    obs = np.ones((3, 4), np.float32)

    def agrees() -> bool:
        with torch.no_grad():
            return np.allclose(act(obs), model.q(torch.from_numpy(obs)).numpy(), atol=1e-6)

    flat = Flat(model)
    assert agrees()
    before = act(obs).copy()
    flat.data.mul_(1.5)
    assert agrees()
    assert not np.allclose(before, act(obs))
    model.load_state_dict(DQN(4, 2).state_dict())
    assert agrees()
    model.double().float()
    flat.rebind()
    flat.data.add_(0.01)
    assert agrees()


def test_what_the_actor_returned_is_never_written_again() -> None:
    act = DQN(4, 2).act_numpy()
    assert act is not None
    first = act(np.ones((2, 4), np.float32))
    kept = first.copy()
    act(np.zeros((2, 4), np.float32))
    assert np.array_equal(first, kept)


def test_numpy_is_not_offered_where_nothing_is_gained() -> None:
    assert DQN(4, 2, (1024, 1024)).act_numpy() is None
    assert DQN(4, 2, activation="gelu").act_numpy() is None
    assert DQN(4, 2).double().act_numpy() is None
    assert DQN(4, 2).to("meta").act_numpy() is None


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda model: cloudpickle.loads(cloudpickle.dumps(model))]
)
def test_copies_are_independent_and_whole(copied: Any) -> None:
    """A copy computes by its own parameters, not by those of the original."""
    model = DQN(4, [2, 3], dueling=True)
    other = copied(model)
    obs = torch.randn(5, 4)
    before = [each.clone() for each in other.q(obs)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(a, b) for a, b in zip(other.q(obs), before, strict=True))
    assert not any(each.any() for each in model.q(obs))


def test_a_replaced_parameter_is_used() -> None:
    model = DQN(4, 2, ())
    layer = model.heads[0].advantage.layers[0]
    layer.weight = torch.nn.Parameter(torch.zeros(2, 4))
    assert torch.equal(model.q(torch.randn(3, 4)), layer.bias.expand(3, 2))


def test_a_layer_that_is_parametrised_later_is_called() -> None:
    """Weight normalisation swaps the class and the parameters of the same layer."""
    model = DQN(4, 2, (8,))
    obs = torch.randn(3, 4)
    before = model.q(obs)
    layer = parametrizations.weight_norm(model.encoder.layers[0])
    assert torch.allclose(model.q(obs), before, atol=1e-6)
    with torch.no_grad():
        layer.parametrizations.weight.original0.zero_()
    assert not torch.allclose(model.q(obs), before, atol=1e-6)


@pytest.mark.parametrize(
    ("obs", "action", "text"),
    [
        ((4, 84), 2, r"model\.obs_shape must be an int or 1-tuple.*got \(4, 84\)"),
        ((84, 80, 12), 2, "height and width >= 36"),
        ((), 2, r"got \(\)"),
        (0, 2, "integers >= 1, got 0"),
        (True, 2, "integers"),
        (None, 2, "obs_shape is missing"),
        (4, 0, r"model\.action_shape must be an integer >= 1"),
        (4, [2, 0], r"got \[2, 0\]"),
        (4, [], r"got \[\]"),
        (4, None, "action_shape is missing"),
        ((1, 2), 0, r"(?s)model\.obs_shape.*model\.action_shape"),
    ],
)
def test_unsupported_shapes_are_named(obs: Any, action: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        DQN(obs, action)
    assert len(caught.value.problems) == (2 if obs == (1, 2) else 1)


def test_the_smallest_image_is_the_smallest() -> None:
    assert output_size(SMALLEST_IMAGE, SMALLEST_IMAGE) == 64
    assert output_size(SMALLEST_IMAGE - 1, 84) == 0
    assert DQN((1, SMALLEST_IMAGE, 50), 2)(torch.zeros(1, 1, 36, 50))["logit"].shape == (1, 2)


def test_create_model_by_type() -> None:
    model = create_model({"type": "dqn", "obs_shape": 4, "action_shape": 2})
    assert isinstance(model, DQN)
    config = DQNModelConfig(obs_shape=4, action_shape=(3, 2), dueling=True, activation="tanh")
    built = create_model(config)
    assert [len(each[0]) for each in built(torch.zeros(1, 4))["logit"]] == [3, 2]


@pytest.mark.parametrize(
    ("cfg", "error", "text"),
    [
        ({"obs_shape": 4}, ConfigError, r"model\.type"),
        ({"type": "dqnn", "obs_shape": 4}, UnknownComponentError, "'dqnn'.*did you mean 'dqn'"),
        ({"type": "dqn", "obs_shape": 4, "duelling": True}, ConfigError, "'duelling'.*'dueling'"),
        ({"type": "dqn", "obs_shape": (4, 4)}, ConfigError, "obs_shape: must be an int or 1-tuple"),
        ({"type": "dqn", "obs_shape": 4}, ConfigError, "action_shape is missing"),
        ({"type": "dqn", "obs_shape": 4, "activation": "sin"}, ConfigError, "'relu'"),
        ("dqn", ConfigError, "obs_shape is missing"),
    ],
)
def test_create_model_says_what_is_wrong(cfg: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        create_model(cfg)
