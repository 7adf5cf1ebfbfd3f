"""CNNs by name, for observations that are images and for images among others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from dicore.config import compile_section
from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore_plugins.models import DQN, VAC, ImpalaConv, NatureConv, SmallConv, image_encoder
from dicore_plugins.models.actor_critic.vac_config import VACConfig
from dicore_plugins.models.dqn.config import DQNModelConfig
from dicore_plugins.models.shapes import about_images, obs_shape_problem, observation_options

CONVS = [
    ("nature", (4, 84, 84), NatureConv),
    ("auto", (4, 84, 84), NatureConv),
    ("impala", (3, 64, 47), ImpalaConv),
    ("impala", (4, 10, 10), ImpalaConv),
    ("small", (4, 10, 10), SmallConv),
]


@pytest.mark.parametrize(("name", "shape", "kind"), CONVS)
def test_the_size_that_is_said_is_that_of_the_features(
    name: str, shape: tuple[int, ...], kind: type
) -> None:
    conv, features = image_encoder(name, shape)
    assert isinstance(conv, kind)
    assert conv(torch.zeros(2, *shape)).shape == (2, features)


def test_impala_is_the_network_of_the_paper() -> None:
    """Figure 3 of Espeholt et al. 2018: 72 x 96 colour images, 15 convolutions, 9 x 12 x 32."""
    conv, features = image_encoder("impala", (3, 72, 96))
    convolutions = [each for each in conv.modules() if isinstance(each, torch.nn.Conv2d)]
    assert (len(convolutions), features) == (15, 9 * 12 * 32)
    wide = ImpalaConv(3, sections=(32, 64))
    assert wide(torch.rand(1, 3, 20, 20)).shape == (1, wide.output_size(20, 20))


@pytest.mark.parametrize(("name", "divisor"), [("nature", 255), ("impala", 255), ("small", 1)])
def test_bytes_are_scaled_but_not_those_of_grids(name: str, divisor: int) -> None:
    torch.manual_seed(0)  # without a seed the weights depend on the tests before
    conv, _ = image_encoder(name, (1, 40, 40))
    images = torch.arange(1600, dtype=torch.int64).reshape(1, 1, 40, 40).remainder(256)
    wanted = conv(images / divisor)
    torch.testing.assert_close(conv(images.to(torch.uint8)), wanted)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64])
def test_grids_of_other_types_are_taken_as_they_are(dtype: torch.dtype) -> None:
    """Those of MinAtar are of truth values."""
    conv, _ = image_encoder("small", (2, 10, 10))
    images = torch.arange(200).reshape(1, 2, 10, 10).remainder(3).to(dtype)
    assert torch.equal(conv(images), conv(images.float()))


def test_images_that_a_chosen_cnn_takes_are_not_flattened() -> None:
    space = Box(0, 1, (4, 10, 10), np.uint8)
    assert observation_options(space)["model.obs_shape"] == 400
    assert observation_options(space, "small")["model.obs_shape"] == (4, 10, 10)
    assert "obs_transpose" in str(obs_shape_problem((10, 10, 4), "small"))
    assert obs_shape_problem((10, 10, 4), "small", channels_last=True) is None
    assert "height and width >= 8" in str(obs_shape_problem((3, 7, 7), "impala"))
    problems = list(DQNModelConfig(obs_shape=(4, 20, 20), conv="nature", action_shape=2).check())
    assert problems[0][0] == "obs_shape"


SPACE = Dict(
    {
        "camera": Box(0, 255, (3, 40, 40), np.uint8),
        "speed": Box(-1, 1, (2,), np.float32),
        "gear": Discrete(4),
    }
)


@pytest.mark.parametrize(
    ("shape", "conv", "said"),
    [
        ((10, 10, 4), "auto", r"\[10, 10, 4\] are flattened; policy.model.conv=small"),
        ((10, 10, 4), "small", "channels last"),
        ((4, 10, 10), "small", ""),
        ((84, 84, 4), "auto", "channels last"),
        ((2, 2, 4), "auto", ""),
        ((10, 10), "auto", ""),
    ],
)
def test_a_training_says_how_images_are_read(shape: tuple[int, ...], conv: str, said: str) -> None:
    space = Box(0, 1, shape, np.uint8)
    found = {"obs_shape": observation_options(space, conv)["model.obs_shape"], "conv": conv}
    model = compile_section(DQNModelConfig, {**found, "action_shape": 2})
    text = about_images(model, space)
    assert bool(text) == bool(said)
    assert re.search(said, text)


@pytest.mark.parametrize("conv", ["auto", "impala"])
@pytest.mark.parametrize("model", ["dqn", "vac"])
def test_an_image_among_other_observations_has_a_cnn(model: str, conv: Any) -> None:
    found = {key[6:]: value for key, value in observation_options(SPACE, conv).items()}
    built: DQN | VAC
    if model == "dqn":
        built = DQNModelConfig(**found, action_shape=3, conv=conv).build(None)
    else:
        built = VACConfig(**found, action_shape=3, conv=conv).build(None)
    obs = [SPACE.sample() for _ in range(5)]
    stacked = {key: torch.from_numpy(np.stack([each[key] for each in obs])) for key in SPACE}
    logit = built(stacked)["logit"]
    assert logit.shape == (5, 3)
    logit.sum().backward()
    assert all(each.grad is not None for each in built.parameters() if each.dim() == 4)
    other = tree_map(torch.clone, stacked)
    other["camera"][0, 0, :20, :20] ^= 255
    with torch.no_grad():
        changed = (built(other)["logit"] != built(stacked)["logit"]).any(1)
    assert changed.tolist() == [True, False, False, False, False]
    assert built.act_numpy() is None


def test_statistics_of_observations_are_not_for_images() -> None:
    found = {key[6:]: value for key, value in observation_options(SPACE).items()}
    with pytest.raises(ConfigError, match="obs_norm"):
        VACConfig(**found, action_shape=3, obs_norm=True).build(None)
