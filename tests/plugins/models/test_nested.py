"""Categorical and nested observations as vectors, by torch and by numpy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dicore.data import tree_map
from dicore.data.tree import tree_stack
from dicore.errors import ConfigError, EnvSpaceError
from dicore_plugins.models import DQN, DQNModelConfig
from dicore_plugins.models.encoders.nested import Nested, OneHot
from dicore_plugins.models.shapes import (
    discrete_shape,
    observation_options,
    options_for,
    vector_discrete_shape,
)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(-4, 4)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_each_number_has_its_one(places: list[tuple[int, int]], rows: int, random: Any) -> None:
    sizes, start = zip(*places, strict=True)
    obs = np.array([[a + random.randrange(n) for n, a in places] for _ in range(rows)])
    encoder = OneHot(sizes, start)
    wanted = np.concatenate([np.eye(n)[obs[:, i] - a] for i, (n, a) in enumerate(places)], axis=1)
    assert encoder(torch.from_numpy(obs)).tolist() == wanted.tolist()
    by_numpy = encoder.by_numpy(obs)
    assert by_numpy.dtype == np.float32
    assert by_numpy.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("obs", "told"), [([[0, 1], [3, 1]], "3 is not in 0..2"), ([[0, -2]], "-2 is not in -1..3")]
)
def test_a_value_beyond_the_space_is_an_error(obs: list[list[int]], told: str) -> None:
    """Also where it would be a column of its neighbour."""
    encoder = OneHot([3, 5], [0, -1])
    with pytest.raises(EnvSpaceError, match=told):
        encoder(torch.tensor(obs))
    with pytest.raises(EnvSpaceError, match=told):
        encoder.by_numpy(np.array(obs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16, np.uint64])
def test_categories_may_come_as_any_numbers(dtype: Any) -> None:
    """A wrapper may have made floats of them."""
    encoder, obs = OneHot([3, 2], [1, 0]), np.array([[2, 1]], dtype)
    wanted = [[0.0, 1.0, 0.0, 0.0, 1.0]]
    assert encoder.by_numpy(obs).tolist() == wanted
    if dtype is not np.uint64:
        assert encoder(torch.from_numpy(obs)).tolist() == wanted


def test_as_many_starts_as_sizes() -> None:
    with pytest.raises(ConfigError, match="obs_parts"):
        OneHot([3, 2], [0])


SPACES: list[tuple[gym.Space[Any], tuple[Any, ...] | None, int | tuple[int, ...]]] = [
    (gym.spaces.Discrete(5, start=-2), (((), 5, (5,), (-2,)),), 5),
    (gym.spaces.MultiDiscrete([3, 4]), (((), 7, (3, 4), (0, 0)),), 7),
    (gym.spaces.MultiBinary(6), None, 6),
    (gym.spaces.Box(-1, 1, (4,)), None, 4),
    (gym.spaces.Box(0, 255, (3, 84, 84), np.uint8), None, (3, 84, 84)),
    (gym.spaces.Box(-1, 1, ()), None, 1),
    (gym.spaces.Box(-1, 1, (1,)), None, 1),
    (gym.spaces.Box(-1, 1, (5, 2), np.float64), None, 10),
    (gym.spaces.MultiBinary([2, 3]), None, 6),
    (gym.spaces.Box(0, 9, (7, 7, 3), np.uint8), None, 147),
    (gym.spaces.Box(-1, 1, (2, 3, 2, 2)), None, 24),
]


def options_of(space: gym.Space[Any]) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in observation_options(space).items()}


def test_large_images_with_many_channels_last_are_not_flattened() -> None:
    with pytest.raises(ConfigError, match="channels, height, width"):
        DQN(**options_of(gym.spaces.Box(0, 255, (84, 80, 12), np.uint8)), action_shape=2)


def test_grids_have_channels_last_and_a_network_that_is_named_is_made() -> None:
    grid = gym.spaces.Box(0, 1, (7, 7, 20), np.uint8)
    found = observation_options(grid, "small")["model.obs_shape"]
    net = DQN(found, action_shape=2, conv="small", encoder_hidden_size_list=[16])
    assert next(p for p in net.parameters() if p.ndim == 4).shape[1] == 20
    assert observation_options(grid) == {"model.obs_shape": 980}
    for name, space in (("nature", grid), ("small", gym.spaces.Box(0, 1, (4,)))):
        with pytest.raises(ConfigError, match=rf"policy\.model\.conv: '{name}' needs images of"):
            options_for(DQNModelConfig(conv=name), space)


@pytest.mark.parametrize(("space", "parts", "shape"), SPACES, ids=str)
def test_a_network_takes_what_a_space_gives(
    space: gym.Space[Any], parts: tuple[Any, ...] | None, shape: Any
) -> None:
    options = options_of(space)
    assert options["obs_shape"] == shape
    assert options.get("obs_parts") == parts
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(7)])
    model = DQN(**options, action_shape=2)
    q = model(torch.from_numpy(obs))["logit"].detach().numpy()
    assert q.shape == (7, 2)
    act = model.act_numpy()
    assert (act is None) == isinstance(shape, tuple)
    if act is not None:
        np.testing.assert_allclose(act(obs), q, rtol=1e-4, atol=1e-5)


NESTED = gym.spaces.Dict(
    {
        "camera": gym.spaces.Box(0, 255, (2, 2), np.uint8),
        "pair": gym.spaces.Tuple(
            (gym.spaces.Discrete(3, start=-1), gym.spaces.Box(-1, 1, (), np.float64))
        ),
        "switches": gym.spaces.MultiBinary(2),
    }
)


def test_parts_stand_side_by_side_in_the_order_of_the_space() -> None:
    """As gymnasium flattens them."""
    options = observation_options(NESTED)
    assert options["model.obs_shape"] == gym.spaces.flatdim(NESTED) == 10
    NESTED.seed(0)
    rows = [NESTED.sample() for _ in range(6)]
    wanted = np.stack([gym.spaces.flatten(NESTED, row) for row in rows]).astype(np.float32)
    obs = tree_stack(rows)
    encoder = Nested(options["model.obs_parts"])
    np.testing.assert_array_equal(encoder.by_numpy(obs), wanted)
    np.testing.assert_array_equal(encoder(tree_map(torch.from_numpy, obs)).numpy(), wanted)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Text(3),
        gym.spaces.Sequence(gym.spaces.Discrete(2)),
        gym.spaces.Box(0, 1, (0,)),
        gym.spaces.Dict(),
    ],
    ids=str,
)
def test_what_is_no_array_of_a_fixed_size_is_refused(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="not arrays of a fixed size"):
        observation_options(space)


def test_what_has_no_numbers_may_be_left_out_of_a_dict() -> None:
    made = gym.make("CartPole-v1")
    parts = {
        "pole": made.observation_space,
        "text": gym.spaces.Text(3),
        "at": gym.spaces.Discrete(2),
    }
    space = gym.spaces.Dict(parts)
    with pytest.raises(ConfigError, match="of the observation, 'text' has no numbers") as caught:
        observation_options(space)
    wrapper = "{type: gymnasium.wrappers:FilterObservation, filter_keys: [at, pole]}"
    assert wrapper in str(caught.value.hint)


@pytest.mark.parametrize("given", [(3,), 4, None], ids=str)
def test_what_is_no_space_is_told_so(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"observation_space is .*, not a Gymnasium space"):
        observation_options(given)
    with pytest.raises(ConfigError, match=r"action_space is .*, not a Gymnasium space"):
        discrete_shape(given, algorithm="dqn")


VECTOR = gym.spaces.Box(-1, 1, (4,), np.float32)


@pytest.mark.parametrize(
    ("observation", "action", "problem"),
    [
        (VECTOR, gym.spaces.Discrete(3), ""),
        (VECTOR, VECTOR, "'mine' needs discrete actions; this env has Box"),
        (VECTOR, gym.spaces.Discrete(3, start=1), "needs one discrete action from 0 on; .*start=1"),
        (VECTOR, gym.spaces.MultiDiscrete([3, 2]), "needs one discrete action from 0 on"),
        (gym.spaces.Discrete(5), gym.spaces.Discrete(3), "needs vectors .* has Discrete"),
        (gym.spaces.Box(0, 1, (4, 4)), gym.spaces.Discrete(3), "needs vectors as observations"),
        (gym.spaces.Dict(a=VECTOR), gym.spaces.Discrete(3), "needs vectors as observations"),
    ],
    ids=str,
)
def test_sizes_of_vectors_and_one_choice(observation: Any, action: Any, problem: str) -> None:
    if not problem:
        assert vector_discrete_shape(observation, action, algorithm="mine") == (4, 3)
        return
    with pytest.raises(ConfigError, match=problem):
        vector_discrete_shape(observation, action, algorithm="mine")


@pytest.mark.parametrize("shape", [(96, 96, 3), (40, 48, 1), (36, 36, 4)])
def test_an_image_with_its_channels_last_is_the_same_image(shape: tuple[int, ...]) -> None:
    """Alone and inside a dict; a vector beside it stays a vector."""
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    assert observation_options(space)["model.obs_shape"] == shape
    both = gym.spaces.Dict({"at": gym.spaces.Box(-1, 1, (2,)), "eye": space})
    parts = observation_options(both)["model.obs_parts"]
    assert parts == ((("at",), 2, (), ()), (("eye",), int(np.prod(shape)), (), shape))
    torch.manual_seed(0)
    last = DQN(shape, 2, conv="auto")
    torch.manual_seed(0)
    first = DQN((shape[2], *shape[:2]), 2, conv="auto")
    image = torch.from_numpy(np.stack([space.sample() for _ in range(3)]))
    moved = image.permute(0, 3, 1, 2).contiguous()
    assert torch.equal(last(image)["logit"], first(moved)["logit"])
    nested = Nested(parts)
    assert nested.learned
    assert nested.width < 4_100
    assert nested({"at": torch.zeros(3, 2), "eye": image}).shape == (3, nested.width)


@pytest.mark.parametrize(
    ("shape", "as_image"),
    [((3, 96, 96), True), ((4, 84, 84), True), ((84, 84, 4), True), ((16, 16, 3), False)],
)
def test_which_axis_has_the_channels(shape: tuple[int, ...], as_image: bool) -> None:
    found = observation_options(gym.spaces.Box(0, 255, shape, np.uint8))["model.obs_shape"]
    assert found == (shape if as_image else int(np.prod(shape)))
