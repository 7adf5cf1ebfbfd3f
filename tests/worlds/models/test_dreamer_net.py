"""DreamerNet: shapes of vectors and images, acting with a state, kinds of actions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dicore.errors import ConfigError
from dicore_worlds import DreamerModelConfig, DreamerNet, SupportsLatent

SMALL: dict[str, Any] = {"deter": 8, "units": 8, "groups": 3, "classes": 4, "cnn_depth": 2}


def net(**options: Any) -> DreamerNet:
    torch.manual_seed(0)
    given: dict[str, Any] = {**SMALL, **options}
    made = DreamerModelConfig(**given).build(None)
    assert isinstance(made, DreamerNet)
    return made


def test_it_supports_latent_states() -> None:
    assert isinstance(net(obs_shape=4, action_shape=2), SupportsLatent)


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 36, 50), (84, 84, 3), (2, 9, 8)], ids=str)
def test_images_are_rebuilt_in_their_size(shape: tuple[int, int, int]) -> None:
    model = net(obs_shape=shape, action_shape=2)
    image = torch.randint(0, 256, (5, *shape), dtype=torch.uint8)
    scaled = model.scaled(image)
    assert scaled.min() >= -0.5
    assert scaled.max() <= 0.5
    output = model(image)
    assert output["reconstruction"].shape == scaled.shape
    first = shape if shape[0] < shape[2] else (shape[2], *shape[:2])
    assert scaled.shape == (5, *first)


def test_first_predictions_are_0_and_the_actor_is_nearly_uniform() -> None:
    model = net(obs_shape=4, action_shape=3)
    output = model(torch.randn(6, 4))
    assert not output["reward"].any()
    assert not output["value"].any()
    torch.testing.assert_close(output["logit"].exp(), torch.full((6, 3), 1 / 3), atol=0.02, rtol=0)


def test_the_state_keeps_the_last_action() -> None:
    model = net(obs_shape=4, action_shape=3)
    obs = torch.randn(5, 4)
    first = model.act(obs, None, torch.rand(5, 3), torch.rand(5, 1))
    state, action = model.split(first["hidden"])
    assert action.argmax(-1).tolist() == first["action"].tolist()
    assert torch.cat([*state, action], -1).shape == (5, model.state_size)
    other = first["hidden"].clone()
    other[:, -3:] = other[:, -3:].roll(1, -1)
    changed = model.act(obs, other)["hidden"] - model.act(obs, first["hidden"])["hidden"]
    assert changed[:, :8].abs().max() > 0


def test_forward_acts_as_act_does() -> None:
    model = net(obs_shape=4, action_shape=3)
    obs = torch.randn(5, 4)
    acted, output = model.act(obs), model(obs)
    for key, value in acted.items():
        torch.testing.assert_close(output[key], value)


def test_continuous_actions_are_gaussian() -> None:
    model = net(obs_shape=4, action_shape=2, continuous=True)
    obs = torch.randn(5, 4)
    best, noise = model.act(obs), torch.full((5, 2), 2.0)
    assert best["mean"].abs().max() <= 1
    assert 0.1 <= best["std"].min() <= best["std"].max() <= 1
    torch.testing.assert_close(best["action"], best["mean"])
    found = model.act(obs, None, None, noise)
    torch.testing.assert_close(found["action"], best["mean"] + 2 * best["std"])


def test_sizes_are_those_of_the_paper_unless_given() -> None:
    assert DreamerModelConfig(size="M").sizes() == {
        "deter": 1024, "units": 640, "layers": 3, "cnn_depth": 48
    }  # fmt: skip
    assert DreamerModelConfig(size="S", units=100).sizes()["units"] == 100
    model = net(obs_shape=4, action_shape=2, size="S", deter=None, units=None, layers=None)
    assert model.rssm.deter == 512


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        ({"obs_shape": (3, 2, 2), "action_shape": 2}, "obs_shape"),
        ({"action_shape": 2}, "obs_shape"),
        ({"obs_shape": 4}, "action_shape"),
    ],
    ids=str,
)
def test_shapes_that_it_cannot_encode_are_refused(bad: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        net(**bad)
