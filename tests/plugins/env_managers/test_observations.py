"""RELIABILITY B01, B05-B07: observations of every space arrive whole, and nothing else does."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.errors import EnvCreateError, EnvSpaceError, EnvStepError, NonFiniteError
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.env_managers.observations import storage_of

from .toy_envs import FREE, CountEnv, Faulty, SpaceEnv, manager_of, rollout

SPACES: dict[str, Any] = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "double": spaces.Box(-1, 1, (3,), np.float64),
    "half": spaces.Box(-1, 1, (3,), np.float16),
    "scalar": spaces.Box(-1, 1, (), np.float32),
    "picture": spaces.Box(0, 255, (84, 84, 3), np.uint8),
    "whole": spaces.Box(-5, 5, (2, 2), np.int64),
    "discrete": spaces.Discrete(5, start=-2),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary((2, 3)),
    "dict": spaces.Dict({
        "camera": spaces.Dict({"rgb": spaces.Box(0, 255, (40, 40, 3), np.uint8),
                               "depth": spaces.Box(0, np.inf, (40, 40), np.float32)}),
        "speed": spaces.Box(-1, 1, (2,), np.float64),
        "gear": spaces.Discrete(6),
    }),
    "tuple": spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.MultiBinary(4))),
    "tuple_of_dict": spaces.Tuple((spaces.Discrete(3), spaces.Dict({"a": FREE, "b": FREE}))),
    "dict_of_tuple": spaces.Dict({"pair": spaces.Tuple((FREE, FREE))}),
}  # fmt: skip


def equal(stored: Any, shown: Any, space: Any) -> bool:
    """Says whether what a manager shows is what an env showed, in float32 for doubles."""
    if isinstance(space, spaces.Dict):
        return set(stored) == set(shown) and all(
            equal(stored[key], shown[key], part) for key, part in space.spaces.items()
        )
    if isinstance(space, spaces.Tuple):
        return len(stored) == len(shown) and all(
            equal(*three) for three in zip(stored, shown, space.spaces, strict=True)
        )
    dtype = np.dtype(np.float32) if space.dtype == np.float64 else space.dtype
    wanted = np.asarray(shown).astype(dtype)
    return stored.dtype == dtype and stored.shape == space.shape and np.array_equal(stored, wanted)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", ["step", "step_into"])
def test_every_space_arrives_whole(space: Any, name: str) -> None:
    envs = [SpaceEnv(space, length=2 + i) for i in range(3)]
    manager = manager_of(*envs)
    for step in range(12):
        ids = [0, 1, 2] if step % 3 else [2, 0]
        counts = [len(env.shown) for env in envs]
        answer = getattr(manager, name)(dict.fromkeys(ids, 0))
        for i in ids:
            assert equal(answer[i].obs, envs[i].shown[counts[i]], space)
        ready = manager.ready_obs
        assert all(equal(ready[i], envs[i].shown[-1], space) for i in range(3))


class Casts(CountEnv):
    """Shows one thing, of whatever form."""

    def __init__(self, space: Any, shown: Any) -> None:
        super().__init__(length=0)
        self.observation_space, self.shown = space, shown

    def show(self) -> Any:
        return self.shown


@pytest.mark.parametrize(
    ("space", "shown", "stored"),
    [
        (FREE, np.arange(4.0), np.arange(4, dtype=np.float32)),
        (FREE, [0, 1, 2, 3], np.arange(4, dtype=np.float32)),
        (FREE, (0.0, 1, 2, 3), np.arange(4, dtype=np.float32)),
        (FREE, np.array([True, False] * 2), np.float32([1, 0, 1, 0])),
        (FREE, np.full(4, 1e38), np.full(4, 1e38, np.float32)),
        (FREE, np.full(4, 3e38, np.float32), np.full(4, 3e38, np.float32)),
        (spaces.Discrete(5), 3, np.int64(3)),
        (spaces.Discrete(5), np.uint8(3), np.int64(3)),
        (spaces.Discrete(5), np.array(3), np.int64(3)),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0, 255]), np.uint8([0, 255])),
        (spaces.MultiBinary(2), np.array([True, False]), np.int8([1, 0])),
        (spaces.Box(-1, 1, (), np.float32), 0.5, np.float32(0.5)),
        (spaces.Box(-1, 1, (), np.float32), np.float64(0.5), np.float32(0.5)),
        (spaces.Tuple((FREE, FREE)), [np.zeros(4)] * 2, (np.zeros(4, np.float32),) * 2),
    ],
)
def test_casts_that_lose_nothing_but_precision(space: Any, shown: Any, stored: Any) -> None:
    manager = manager_of(Casts(space, shown), Casts(space, shown))
    for tree in (manager.ready_obs[1], manager.step({0: 0, 1: 0})[1].obs):
        for found, wanted in zip(*[t if isinstance(t, tuple) else (t,) for t in (tree, stored)],
                                 strict=True):  # fmt: skip
            assert found.dtype == wanted.dtype
            assert np.array_equal(found, wanted)


def test_tensors_are_observations() -> None:
    torch = pytest.importorskip("torch")
    manager = manager_of(Casts(FREE, torch.arange(4.0)))
    assert manager.step({0: 0})[0].obs.tolist() == [0, 1, 2, 3]


DICT = spaces.Dict({"rgb": spaces.Box(0, 255, (2,), np.uint8), "pose": FREE})
PAIR = spaces.Tuple((FREE, spaces.Discrete(3)))
GOOD = {"rgb": np.zeros(2, np.uint8), "pose": np.zeros(4, np.float32)}
ROOMY = spaces.Box(-np.inf, np.inf, (2000,), np.float32)
NAN = np.float32([0, 0, np.nan, 0])
BAD: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "shape_1": (FREE, np.zeros(1, np.float32), EnvSpaceError,
                "is float32[1], but its space is float32[4]"),
    "shape_5": (FREE, np.zeros(5, np.float32), EnvSpaceError,
                "is float32[5], but its space is float32[4]"),
    "shape_0d": (FREE, np.float32(0), EnvSpaceError, "is float32[], but its space is float32[4]"),
    "shape_1_4": (FREE, np.zeros((1, 4)), EnvSpaceError, "is float64[1, 4]"),
    "none": (FREE, None, EnvSpaceError, "is None"),
    "text": (FREE, "abcd", EnvSpaceError, "its space is float32[4]"),
    "texts": (FREE, np.array(list("abcd")), EnvSpaceError, "its space is float32[4]"),
    "ragged": (FREE, [[1, 2], [3]], EnvSpaceError, "its space is float32[4]"),
    "complex": (FREE, np.zeros(4, complex), EnvSpaceError, "is complex128[4]"),
    "object": (FREE, np.array([None] * 4), EnvSpaceError, "its space is float32[4]"),
    "a_dict": (FREE, {"obs": np.zeros(4)}, EnvSpaceError, "its space is float32[4]"),
    "float_for_uint8": (DICT, GOOD | {"rgb": np.zeros(2)}, EnvSpaceError,
                        "observation rgb is float64[2], but its space is uint8[2]"),
    "wraps_around": (DICT, GOOD | {"rgb": np.array([0, 256])}, EnvSpaceError, "observation rgb"),
    "negative": (DICT, GOOD | {"rgb": np.array([0, -1])}, EnvSpaceError, "observation rgb"),
    "missing": (DICT, {"rgb": np.zeros(2, np.uint8)}, EnvSpaceError, "missing ['pose']"),
    "extra": (DICT, GOOD | {"odd": 1}, EnvSpaceError, "its space: unexpected ['odd']"),
    "other_key": (DICT, {"rgb": GOOD["rgb"], "poes": GOOD["pose"]}, EnvSpaceError,
                  "does not match its space: missing ['pose'], unexpected ['poes']"),
    "array_for_dict": (DICT, np.zeros(2), EnvSpaceError, "is a ndarray, but its space is a dict"),
    "list_for_dict": (DICT, [GOOD["rgb"], GOOD["pose"]], EnvSpaceError, "space is a dict"),
    "nan_in_dict": (DICT, GOOD | {"pose": NAN}, NonFiniteError, "observation pose[2] is nan"),
    "short_tuple": (PAIR, (np.zeros(4),), EnvSpaceError, "missing [1]"),
    "long_tuple": (PAIR, (np.zeros(4), 1, 2), EnvSpaceError, "unexpected [2]"),
    "dict_for_tuple": (PAIR, {"a": np.zeros(4), "b": 1}, EnvSpaceError, "space is a tuple"),
    "float_for_discrete": (PAIR, (np.zeros(4), 1.0), EnvSpaceError, "observation 1 is float64[]"),
    "nan": (FREE, NAN, NonFiniteError, "observation[2] is nan"),
    "inf": (FREE, np.float32([np.inf, 0, 0, 0]), NonFiniteError,
            "observation[0] is inf"),
    "both_inf": (FREE, np.float32([np.inf, -np.inf, 0, 0]), NonFiniteError, "is inf"),
    "overflow": (FREE, np.array([0, 1e300, 0, 0]), NonFiniteError, "observation[1] is 1e+300"),
    "nan_scalar": (spaces.Box(-1, 1, (), np.float32), float("nan"), NonFiniteError, "is nan"),
    "nan_roomy": (ROOMY, np.full(2000, np.nan, np.float32), NonFiniteError,
                  "observation[0] is nan"),
    "shape_roomy": (ROOMY, np.zeros(1, np.float32), EnvSpaceError, "is float32[1]"),
}  # fmt: skip


@pytest.mark.parametrize("when", ["reset", "step", "last", "some"])
@pytest.mark.parametrize(("space", "bad", "error", "message"), BAD.values(), ids=BAD)
@pytest.mark.filterwarnings("error")
def test_bad_observations_are_named(
    space: Any, bad: Any, error: type[Exception], message: str, when: str
) -> None:
    class Env(SpaceEnv):
        def show(self) -> Any:
            broken = self.tag == 1 and self.count == (0 if when == "reset" else 2)
            return bad if broken else super().show()

    envs = [Env(space, length=2 if when == "last" else 5) for _ in range(3)]
    envs[1].tag = 1
    manager = manager_of(*envs, launch=False, seed=3)
    if when != "reset":
        manager.launch()
        manager.step({0: 0, 1: 0, 2: 0})
    ids = [1, 0] if when == "some" else [0, 1, 2]
    with pytest.raises(error, match=re.escape(message)) as caught:
        manager.launch() if when == "reset" else manager.step(dict.fromkeys(ids, 0))
    assert str(caught.value).startswith("env 1: ")
    seed = envs[1].seeds[0]
    assert caught.value.context["env_id"] == 1
    assert caught.value.context["seed"] == seed
    where = "the reset with" if when == "reset" else "step 2 of the episode with"
    assert f"{where} seed {seed}" in str(caught.value)
    if when != "reset":
        assert [env.count for env in envs][:2] == [2 if when != "last" else 0, 2]
        manager.reset({1: None})
        assert len(rollout(manager, 1)[0]) == 3


@pytest.mark.filterwarnings("error")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=4, max_size=4))
def test_finite_is_let_through_and_nothing_else(values: list[float]) -> None:
    obs = np.array(values, np.float32)
    leaf = storage_of(FREE)
    block = leaf.stack([obs, np.zeros(4, np.float32)])
    placed = leaf.try_write(leaf.empty(1), 0, obs)
    fine = bool(np.isfinite(obs).all())
    assert (block is not None, placed, leaf.fault(obs) is None) == (fine, fine, fine)
    if block is not None:
        assert block[0].tobytes() == obs.tobytes()


def test_out_of_bounds_is_warned_of_once_a_part(caplog: pytest.LogCaptureFixture) -> None:
    space = spaces.Dict({"near": spaces.Box(-1, 1, (2,), np.float32), "gear": spaces.Discrete(3)})
    shown = {"near": np.float32([0, 7]), "gear": 5}
    with caplog.at_level("WARNING", "dicore.env"):
        manager = manager_of(Casts(space, shown))
        rollout(manager, 5)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "observation gear is 5, out of bounds 0 to 2",
        "observation near[1] is 7.0, out of bounds -1.0 to 1.0",
    ]


def test_bounds_are_looked_at_in_steps_too(caplog: pytest.LogCaptureFixture) -> None:
    env = Faulty(lambda obs, *rest: (obs + 9, *rest), 0, spaces.Box(0, 8, (4,), np.float32))
    with caplog.at_level("WARNING", "dicore.env"):
        manager = manager_of(env)
        rollout(manager, 1)
        assert not caplog.records
        rollout(manager, 1)
    assert len(caplog.records) == 1
    assert "is 9" in caplog.text


@pytest.mark.parametrize("space", [spaces.MultiBinary(4), spaces.MultiDiscrete([2] * 4)])
def test_bounds_of_discrete_vectors(space: Any) -> None:
    storage = storage_of(space)
    assert not storage.outside(np.array([[0, 1, 0, 1]]))
    told = {"": "observation[3] is 2, out of bounds 0 to 1"}
    assert storage.outside(np.array([[0, 1, 0, 2]])) == told


def test_bounds_that_are_met_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "dicore.env"):
        for space in SPACES.values():
            rollout(manager_of(SpaceEnv(space)), 20)
    assert not caplog.records


OBJECTS: dict[str, Any] = {
    "text": spaces.Text(5),
    "sequence": spaces.Sequence(spaces.Box(-1, 1, (2,), np.float32)),
    "stacked": spaces.Sequence(spaces.Discrete(3), stack=True),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
}


@pytest.mark.parametrize("space", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("nested", [False, True])
def test_observations_that_are_no_arrays_are_a_column_of_objects(space: Any, nested: bool) -> None:
    if nested:
        space = spaces.Dict({"say": space, "see": spaces.Box(-1, 1, (2,), np.float32)})
    envs = [SpaceEnv(copy.deepcopy(space), length=4 + tag) for tag in range(2)]
    manager = manager_of(*envs)
    for _ in range(12):
        ready = manager.ready_obs
        for env_id, env in enumerate(envs):
            found, wanted = ready[env_id], env.shown[-1]
            if nested:
                assert np.array_equal(found["see"], wanted["see"])
                found, wanted = found["say"], wanted["say"]
            assert repr(found) == repr(wanted)
            assert isinstance(wanted, str) or found is not wanted, "a copy"
        obs = manager.step_into({0: 0, 1: 0}).value.obs
        assert (obs["say"] if nested else obs).dtype == object
    state = manager.state_dict()
    twins = [SpaceEnv(copy.deepcopy(space), length=4 + tag) for tag in range(2)]
    twin = manager_of(*twins, launch=False)
    twin.load_state_dict(state)
    twin.launch()
    assert list(twin.step({0: 0, 1: 0})) == [0, 1]


def test_an_observation_that_is_not_in_a_space_of_objects_is_named() -> None:
    class Says(CountEnv):
        def show(self) -> Any:
            return "?!" if self.count else "ok"

    env = Says()
    env.observation_space = spaces.Text(5)
    with pytest.raises(EnvSpaceError, match=r"env 0: observation is '\?!', which is not in Text"):
        manager_of(env).step({0: 0})


def test_what_is_no_space_is_refused_at_launch() -> None:
    env = SpaceEnv(FREE)
    env.observation_space = (4,)
    env.show = lambda: np.zeros(4, np.float32)  # type: ignore[method-assign]
    with pytest.raises(EnvSpaceError, match=r"\(4,\) is not a space") as caught:
        BaseEnvManager([lambda: env]).launch()
    assert not isinstance(caught.value, EnvCreateError)
    assert env.closed == 1


class Pays(CountEnv):
    def __init__(self, tag: int, reward: Any, shape: tuple[int, ...]) -> None:
        super().__init__(tag, length=3, rewards=(reward,))
        self.reward_space = spaces.Box(-9, 9, shape)


@pytest.mark.parametrize("shape", [(2,), (1,), (2, 3)], ids=str)
def test_rewards_have_the_shape_of_their_space(shape: tuple[int, ...]) -> None:
    paid = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) + 0.5
    manager = manager_of(*(Pays(tag, paid, shape) for tag in range(2)))
    for step in range(1, 7):
        answer = manager.step({0: 0, 1: 0} if step % 2 else {1: 0, 0: 0})
        assert answer.value.reward.dtype == np.float32
        assert answer.value.reward.shape == (2, *(() if shape == (1,) else shape))
        assert np.array_equal(np.ravel(answer[1].reward), paid.ravel())
        if step % 3 == 0:
            total = answer[1].info["eval_episode_return"]
            assert np.array_equal(np.reshape(total, shape), 3 * paid)
    manager.step({1: 0})
    twin = manager_of(*(Pays(tag, paid, shape) for tag in range(2)), launch=False)
    twin.load_state_dict(manager.state_dict())
    twin.launch()
    assert twin.brought_back
    twin.step({1: 0})
    total = twin.step({1: 0})[1].info["eval_episode_return"]
    assert np.array_equal(np.reshape(total, shape), 3 * paid)


@pytest.mark.parametrize(
    ("bad", "text"),
    [(1.0, "is not an array of shape"), (np.ones(3), "is not an array of shape"),
     (np.array([1, np.nan]), "is not finite"), (["1", "2"], "is not an array of shape")],
    ids=["scalar", "shape", "nan", "text"],
)  # fmt: skip
def test_a_vector_of_rewards_that_does_not_fit_is_named(bad: Any, text: str) -> None:
    manager = manager_of(Pays(0, np.ones(2), (2,)), Pays(1, bad, (2,)))
    with pytest.raises((EnvStepError, NonFiniteError), match=rf"env 1: reward .*{text}"):
        manager.step({0: 0, 1: 0})
