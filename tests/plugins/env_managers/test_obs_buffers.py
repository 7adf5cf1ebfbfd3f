"""RELIABILITY B08: what is handed out never changes, but for step_into, which says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.errors import ActionError
from dicore_plugins.env_managers.base.manager import BaseEnvManager

from .toy_envs import CountEnv, Faulty, SpaceEnv, manager_of

PICTURE = spaces.Box(0, 255, (40, 40, 3), np.uint8)
FLOATS = spaces.Box(-9, 9, (1100,), np.float32)
PAIR = spaces.Tuple((FLOATS, spaces.MultiDiscrete([5, 5])))
NESTED = spaces.Dict({"picture": PICTURE, "rest": spaces.Dict({"floats": FLOATS, "one": PICTURE})})
SPACES = [PICTURE, FLOATS, NESTED, PAIR, spaces.Box(-1, 1, (3,), np.float32)]
NAMES = ["picture", "floats", "nested", "pair", "small"]


class Reusing(SpaceEnv):
    """Writes all its observations into one array (or one of each part)."""

    def show(self) -> Any:
        if not self.shown:
            return super().show()
        _overwrite(self.shown[-1], self.observation_space.sample())
        return self.shown[-1]


def _overwrite(old: Any, fresh: Any) -> None:
    for mine, other in zip(leaves(old), leaves(fresh), strict=True):
        mine[...] = other


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def copies(tree: Any) -> list[Any]:
    return [leaf.copy() for leaf in leaves(tree)]


def same(tree: Any, kept: list[Any]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(leaves(tree), kept, strict=True))


@pytest.mark.parametrize("space", SPACES, ids=NAMES)
@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
def test_step_never_writes_again_what_it_handed_out(space: Any, some: bool) -> None:
    manager = manager_of(*(Reusing(space, length=3 + i) for i in range(3)))
    held = []
    for step in range(200):
        ready = manager.ready_obs
        held.append((ready.value, copies(ready.value)))
        ids = [step % 3, (step + 1) % 3] if some else [0, 1, 2]
        if step % 50 == 49:
            manager.reset([1])
            held.append((manager.ready_obs.value, copies(manager.ready_obs.value)))
        answer = manager.step(dict.fromkeys(ids, 0))
        held.append((answer.value.obs, copies(answer.value.obs)))
    assert len(held) == 404
    assert all(same(tree, kept) for tree, kept in held)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=NAMES)
def test_step_into_is_valid_until_the_next_but_one_call(space: Any, debug: bool) -> None:
    manager = manager_of(*(Reusing(space, length=3 + i) for i in range(3)), debug=debug)
    held: list[tuple[Any, list[Any]]] = []
    for _ in range(60):
        answer = manager.step_into(dict.fromkeys(range(3), 0)).value.obs
        assert all(same(tree, kept) for tree, kept in held[-2:]), "those of one call ago"
        ready = manager.ready_obs.value
        held += [(answer, copies(answer)), (ready, copies(ready))]
    assert all(same(tree, kept) for tree, kept in held[-2:])


@pytest.mark.parametrize("space", [PICTURE, FLOATS], ids=["picture", "floats"])
def test_step_into_uses_memory_again(space: Any) -> None:
    manager = manager_of(SpaceEnv(space, length=0), SpaceEnv(space, length=0))
    blocks = [manager.step_into({0: 0, 1: 0}).value.obs for _ in range(6)]
    assert len({id(block) for block in blocks}) == 2
    assert blocks[0] is blocks[2]
    assert blocks[0] is not blocks[1]


def test_debug_spoils_what_is_over() -> None:
    manager = manager_of(*(SpaceEnv(NESTED, length=0) for _ in range(2)), debug=True)
    first = manager.step_into({0: 0, 1: 0}).value.obs
    kept = copies(first)
    manager.step_into({0: 0, 1: 0})
    assert same(first, kept)
    manager.step_into({0: 0, 1: 0})
    assert (first["picture"] == 255).all()
    assert np.isnan(first["rest"]["floats"]).all()


def test_debug_never_spoils_what_step_handed_out() -> None:
    manager = manager_of(*(SpaceEnv(FLOATS, length=3) for _ in range(2)), debug=True)
    held = []
    for _ in range(20):
        obs = manager.step({0: 0, 1: 0}).value.obs
        held.append((obs, copies(obs)))
        manager.step_into({0: 0, 1: 0})
        manager.step_into({0: 0, 1: 0})
    assert all(same(tree, kept) for tree, kept in held)


@pytest.mark.parametrize("debug", [False, True])
def test_a_refused_action_costs_no_turn(debug: bool) -> None:
    """What was handed out before a refused call is still needed for the next one."""
    space = FLOATS

    def nan(obs: Any, *rest: Any) -> Any:
        return (np.full_like(obs, np.nan), *rest)

    class Shows(Faulty):
        def show(self) -> Any:
            return np.full(1100, self.count, np.float32)

    manager = manager_of(
        Shows(lambda *good: good, 0, space), Shows(nan, 1, space), debug=debug, restart_budget=1
    )
    first = manager.step_into({0: 0, 1: 0}).value.obs
    for _ in range(3):
        with pytest.raises(ActionError):
            manager.step_into({0: 0, 1: 7})
    assert (first == 1).all()
    assert (manager.ready_obs.value == 1).all()
    answer = manager.step_into({0: 0, 1: 0})
    assert [answer[i].obs[0] for i in range(2)] == [2, 1], "the last one before the fault"
    some = manager.step_into({0: 0})
    assert some[0].obs[0] == 3
    assert manager.ready_obs[1][0] == 0


def test_step_into_memory_of_the_caller() -> None:
    manager = manager_of(*(CountEnv(i, length=2) for i in range(3)))
    out = np.full((4, 3, 4), -1, np.float32)
    for step in range(4):
        answer = manager.step_into(dict.fromkeys(range(3), 0), out[step])
        assert np.shares_memory(answer.value.obs, out[step])
    assert out[:, :, 3].tolist() == [[1] * 3, [2] * 3, [1] * 3, [2] * 3]
    assert out[0, :, 1].tolist() == [0, 1, 2]


def test_actions_do_not_share_memory_with_what_the_caller_keeps() -> None:
    class Acts(CountEnv):
        def __init__(self) -> None:
            super().__init__(rewards=(1.0,))
            self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    env = Acts()
    manager: BaseEnvManager = manager_of(env)
    mine = np.full((1, 2), 0.5, np.float32)
    manager.step({0: mine[0]})
    mine[:] = 9
    assert env.actions[0].tolist() == [0.5, 0.5]
