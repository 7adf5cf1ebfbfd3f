"""FEATURES A12, A27; RELIABILITY B04: legal actions arrive, others stop before any env moves."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import EnvBatch
from dicore.errors import ActionError, DicoreError
from dicore.run.random import seed_everything
from dicore_plugins.env_managers import BaseEnvManager, ThreadEnvManager, VectorEnvManager
from dicore_plugins.env_managers.actions import ActionLog, action_check_of, draw_actions

from .toy_envs import ActEnv, CountEnv, manager_of

INF = np.inf
BOXES = {
    "box": spaces.Box(-2, 3, (2, 2), np.float32),
    "one_sided": spaces.Box(np.float32([-INF, 0, -3]), np.float32([5, INF, 1e30])),
    "unbounded": spaces.Box(-INF, INF, (3,), np.float32),
    "double": spaces.Box(-1, 1, (2,), np.float64),
    "whole": spaces.Box(-3, 3, (2,), np.int64),
    "bytes": spaces.Box(0, 255, (2,), np.uint8),
    "wide": spaces.Box(0, 2**64 - 1, (2,), np.uint64),
}
SPACES = {
    "discrete": spaces.Discrete(4),
    "start": spaces.Discrete(4, start=-2),
    "large": spaces.Discrete(100_000, start=7),
    "small": spaces.Discrete(4, dtype=np.uint8),
    "multi_discrete": spaces.MultiDiscrete([3, 5]),
    "multi_discrete_2d": spaces.MultiDiscrete([[3, 5], [2, 2]]),
    "multi_binary": spaces.MultiBinary(6),
    **BOXES,
    "dict": spaces.Dict({"turn": spaces.Discrete(3, start=1), "push": BOXES["box"]}),
    "tuple": spaces.Tuple((spaces.MultiBinary(2), spaces.Discrete(2))),
    "text": spaces.Text(4),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


@every_space
def test_random_actions_are_legal(space: Any) -> None:
    env_num = 8
    envs = [ActEnv(space) for _ in range(env_num)]
    manager = manager_of(*envs)
    for _ in range(1000 // env_num):
        actions = manager.random_action()
        assert list(actions) == list(range(env_num))
        manager.step(actions)
    given = [action for env in envs for action in env.actions]
    assert len(given) == 1000
    assert all(space.contains(action) for action in given)


def test_random_actions_reach_every_legal_one() -> None:
    rng = np.random.default_rng(0)
    assert set(draw_actions(SPACES["start"], 1000, rng).tolist()) == {-2, -1, 0, 1}
    assert set(draw_actions(spaces.MultiBinary(1), 1000, rng)[:, 0].tolist()) == {0, 1}
    pairs = draw_actions(SPACES["multi_discrete"], 1000, rng).tolist()
    assert len({tuple(pair) for pair in pairs}) == 15
    counts = np.bincount(draw_actions(BOXES["whole"], 7000, rng)[:, 0] + 3)
    assert len(counts) == 7
    assert (counts > 800).all(), "a box of whole numbers is drawn from evenly"
    box = draw_actions(BOXES["box"], 1000, rng)
    assert (box.min(0) < -1.9).all()
    assert (box.max(0) > 2.9).all()


def test_random_actions_are_the_runs_own() -> None:
    def drawn(seed: int) -> list[int]:
        seed_everything(seed)
        manager = manager_of(*(CountEnv(i) for i in range(8)))
        return [manager.random_action().value["action"].tolist() for _ in range(5)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_random_actions_are_for_those_that_wait() -> None:
    manager = manager_of(CountEnv(0, length=1), CountEnv(1), auto_reset=False)
    manager.step({0: 0, 1: 0})
    assert list(manager.random_action()) == [1]


FORMS = {
    "dict": {0: 2, 1: 1},
    "dict_of_dicts": {0: {"action": 2, "q": 0.5}, 1: {"action": 1, "q": 0.1}},
    "numpy_scalars": {0: np.int64(2), 1: np.int32(1)},
    "arrays": {0: np.array(2), 1: np.array(1)},
    "arrays_of_one": {0: np.array([2]), 1: np.array([1])},
    "reversed": {1: 1, 0: 2},
    "batch": EnvBatch(np.array([0, 1]), np.array([2, 1])),
    "batch_of_outputs": EnvBatch(np.array([0, 1]), {"action": np.array([2, 1])}),
    "batch_int32": EnvBatch(np.array([1, 0]), {"action": np.array([1, 2], np.int32)}),
    "batch_uint8": EnvBatch(np.array([0, 1]), {"action": np.array([[2], [1]], np.uint8)}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_actions(form: Any) -> None:
    envs = [CountEnv(i) for i in range(2)]
    answer = manager_of(*envs).step(form)
    assert [int(env.actions[0]) for env in envs] == [2, 1]
    assert [answer[i].reward for i in range(2)] == [2.5, 1.5]


def test_tensors_are_actions() -> None:
    torch = pytest.importorskip("torch")
    envs = [CountEnv(i) for i in range(2)]
    manager = manager_of(*envs)
    manager.step({0: torch.tensor(2), 1: torch.tensor(1)})
    manager.step(EnvBatch(np.array([0, 1]), {"action": torch.tensor([0, 2])}))
    assert [[int(action) for action in env.actions] for env in envs] == [[2, 0], [1, 2]]


PATH = spaces.Sequence(spaces.Discrete(4))
PATHS: list[Any] = [(0, 3, 1), (), (2,)]
NESTED = spaces.Dict({"kind": spaces.Discrete(3), "path": PATH})


@pytest.mark.parametrize("kind", [BaseEnvManager, ThreadEnvManager, VectorEnvManager])
@pytest.mark.parametrize("space", [PATH, NESTED], ids=["sequence", "nested"])
def test_actions_that_do_not_stack(kind: Any, space: Any) -> None:
    envs = [ActEnv(space) for _ in range(3)]
    given = PATHS if space is PATH else [{"kind": i, "path": each} for i, each in enumerate(PATHS)]
    with closing(kind([lambda env=env: env for env in envs])) as manager:
        manager.launch()
        manager.step(dict(enumerate(given)))
        manager.step({i: {"action": each} for i, each in enumerate(given)})
        manager.step(manager.random_action())
        for env, each in zip(envs, given, strict=True):
            assert env.actions[0] == env.actions[1] == each
            assert space.contains(env.actions[2])
        with pytest.raises(ActionError):
            manager.step(dict.fromkeys(range(3), 7))


DISCRETE, BOX = spaces.Discrete(3, start=1), spaces.Box(-1, 1, (2,), np.float32)
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "too_large": (DISCRETE, 4, r"env 1: action 4 is not in 1\.\.3"),
    "too_small": (DISCRETE, 0, r"env 1: action 0 is not in 1\.\.3"),
    "float": (DISCRETE, 1.0, "expected int64"),
    "nan_for_discrete": (DISCRETE, float("nan"), "expected int64"),
    "bool": (DISCRETE, True, "expected int64"),
    "pair_for_discrete": (DISCRETE, np.array([1, 2]), "expected int64"),
    "text": (DISCRETE, "left", "expected int64"),
    "none": (DISCRETE, None, "expected int64"),
    "beyond_65536": (SPACES["large"], 100_007, r"is not in 7\.\.100006"),
    "nan": (BOX, np.array([0, np.nan]), r"env 1: action \[0\.0, nan\] is not finite"),
    "infinite": (BOX, np.array([np.inf, 0]), "is not finite"),
    "infinite_unbounded": (BOXES["unbounded"], np.array([1, INF, 1]), "is not finite"),
    "too_short": (BOX, np.zeros(1), r"expected float32\[3, 2\]"),
    "too_long": (BOX, np.zeros(3), r"expected float32\[3, 2\]"),
    "scalar": (BOX, 0.5, r"expected float32\[3, 2\]"),
    "matrix": (BOX, np.zeros((1, 2)), r"expected float32\[3, 2\]"),
    "text_for_box": (BOX, np.array(["a", "b"]), "expected float32"),
    "float_for_whole_box": (BOXES["whole"], np.array([0.5, 1.0]), "expected int64"),
    "multi_discrete": (SPACES["multi_discrete"], np.array([2, 5]), r"\[2, 5\] is not in"),
    "multi_discrete_negative": (SPACES["multi_discrete"], np.array([-1, 0]), "is not in"),
    "multi_discrete_float": (SPACES["multi_discrete"], np.array([1.0, 0]), "expected int64"),
    "multi_binary": (spaces.MultiBinary(2), np.array([0, 2]), "is not in"),
    "dict_lacks": (SPACES["dict"], {"turn": 1}, "push"),
    "dict_part": (SPACES["dict"], {"turn": 0, "push": np.zeros((2, 2))}, "action 0 is not in"),
    "dict_for_box": (BOX, {"push": np.zeros(2)}, "no 'action'"),
    "tuple_lacks": (SPACES["tuple"], (np.zeros(2, int),), "have no"),
    "text_too_long": (SPACES["text"], "abcde", "is not in"),
}


@pytest.mark.parametrize("mixed", [False, True], ids=["all", "one"])
@pytest.mark.parametrize(("space", "bad", "message"), REFUSED.values(), ids=REFUSED)
def test_illegal_actions_stop_before_any_env_moves(
    space: Any, bad: Any, message: str, mixed: bool
) -> None:
    if bad is True and mixed:
        pytest.skip("stacked with numbers, True is a number")
    envs = [ActEnv(space) for _ in range(3)]
    manager = manager_of(*envs)
    space.seed(0)
    others = space.sample() if mixed or "env 1" in message else bad
    before = manager.ready_obs.value.copy()
    with pytest.raises(ActionError, match=None if mixed else message) as caught:
        manager.step({0: others, 1: bad, 2: others})
    if "env 1" in message:
        assert caught.value.context["env_id"] == 1
    assert [env.actions for env in envs] == [[], [], []]
    assert np.array_equal(manager.ready_obs.value, before)
    assert len(manager.step(manager.random_action())) == 3, "it goes on as if nothing was"


@pytest.mark.parametrize("actions", [np.zeros(3, int), np.zeros(1, int), np.zeros((2, 2), int)])
def test_as_many_actions_as_ids(actions: Any) -> None:
    envs = [CountEnv(i) for i in range(2)]
    with pytest.raises(ActionError):
        manager_of(*envs).step(EnvBatch(np.array([0, 1]), {"action": actions}))
    assert [env.actions for env in envs] == [[], []]


def test_an_action_too_large_for_the_space_is_refused() -> None:
    env = ActEnv(BOXES["unbounded"])
    with pytest.raises(ActionError, match=r"env 0: action .* is too large for float32"):
        manager_of(env).step(EnvBatch(np.array([0]), np.array([[1, 1e300, 1]])))
    with pytest.raises(
        ActionError, match=r"environments \[0\] .* 1e\+300 is too large for float32"
    ):
        manager_of(env).step({0: [1, 1e300, 1]})
    assert env.actions == []


def test_an_env_named_twice_is_refused() -> None:
    env = CountEnv(0)
    with pytest.raises(DicoreError, match="duplicate env ids"):
        manager_of(env, CountEnv(1)).step(EnvBatch(np.array([0, 0]), np.array([1, 1])))
    assert env.actions == []


def test_boxes_clip_and_count(caplog: pytest.LogCaptureFixture) -> None:
    envs = [ActEnv(BOX) for _ in range(3)]
    manager = manager_of(*envs)
    legal, outside = np.float32([0.25, -1]), np.array([7.0, -0.5])
    with caplog.at_level(logging.WARNING, "dicore.env"):
        manager.step({0: legal, 1: outside, 2: -outside})
        manager.step({0: outside})
        assert [each.message for each in caplog.records] == [
            "actions outside of the action space are clipped (first in env 1)"
        ]
        manager.close()
        manager.close()
    assert [each.message for each in caplog.records[1:]] == [
        "3 actions were outside of the action space and were clipped"
    ]
    assert [env.actions[0].tolist() for env in envs] == [[0.25, -1], [1, -0.5], [-1, 0.5]]
    assert all(env.actions[0].dtype == np.float32 for env in envs)


@pytest.mark.parametrize("kind", [BaseEnvManager, VectorEnvManager])
@pytest.mark.parametrize("nested", [False, True])
def test_boxes_refuse_if_told_so(kind: Any, nested: bool) -> None:
    space = spaces.Dict({"a": BOX}) if nested else BOX
    envs = [ActEnv(space) for _ in range(2)]
    manager = kind([lambda env=env: env for env in envs], {"clip_actions": False})
    manager.launch()
    outside = {"a": np.array([7.0, -0.5])} if nested else np.array([7.0, -0.5])
    with pytest.raises(ActionError, match=r"env 0: action \[7.0, -0.5\] is not in"):
        manager.step({0: {"action": outside}, 1: {"action": outside}})
    assert not envs[0].actions


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, width=64), min_size=2, max_size=2),
    st.sampled_from(["box", "one_sided", "unbounded", "double"]),
)
def test_what_a_box_lets_through_is_in_it(values: list[float], name: str) -> None:
    space = BOXES[name]
    action = np.resize(np.array(values), space.shape)
    check = action_check_of(space)
    (arrived,) = check(action[None], [0])
    assert space.contains(arrived)
    if space.contains(action.astype(space.dtype)):
        assert np.array_equal(arrived, action.astype(space.dtype))
    else:
        assert check.clipped == 1


def test_dict_and_tuple_actions_arrive_as_the_space_says() -> None:
    env = ActEnv(SPACES["dict"])
    manager_of(env).step({0: {"turn": 2, "push": np.full((2, 2), 0.5)}})
    assert env.actions[0]["turn"] == 2
    assert SPACES["dict"].contains(env.actions[0])
    env = ActEnv(SPACES["tuple"])
    manager_of(env).step({0: {"action": (np.array([1, 0]), 1)}})
    assert SPACES["tuple"].contains(env.actions[0])


def test_actions_since_the_reset_one_array_per_env() -> None:
    log = ActionLog(2)
    log.add([0, 1], np.array([1, 2]))
    log.begin(1)
    log.add([0], np.array([3]))
    log.add([1, 0], np.array([4, 5]))
    first, second = log.actions(0), log.actions(1)
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    assert (first.tolist(), second.tolist()) == ([1, 3, 5], [4])
    assert type(first[0]) is np.int64


@pytest.mark.parametrize(
    "actions",
    [
        [],
        [1, 2],
        [{"move": np.int64(1)}, {"move": np.int64(0)}],
        [np.float32(1), np.float64(1)],
        [np.zeros(2), np.zeros(3)],
    ],
)
def test_actions_of_several_forms_stay_what_they_are(actions: list[Any]) -> None:
    log = ActionLog(1)
    for action in actions:
        log.add([0], [action])
    kept = log.actions(0)
    assert isinstance(kept, list)
    assert all(one is other for one, other in zip(kept, actions, strict=True))


def test_actions_of_an_episode_that_is_too_long_are_lost() -> None:
    log = ActionLog(1, longest=3)
    for action in range(4):
        log.add([0], np.array([action]))
    assert log.actions(0) is None
    log.begin(0)
    assert log.actions(0) == []


def test_actions_of_earlier_episodes_are_forgotten() -> None:
    log = ActionLog(2)
    for step in range(10_000):
        log.add([0, 1], np.array([step, step]))
        if step % 10 == 9:
            log.begin(step % 20 // 10)
        assert len(log.steps) <= 300
    assert log.actions(0).tolist() == list(range(9_990, 10_000))  # type: ignore[union-attr]
    assert log.actions(1) == []
    assert ActionLog(1_000_000).steps.maxlen == 1_000
