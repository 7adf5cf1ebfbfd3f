"""What the log of running episodes keeps, and in what form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore_plugins.env_managers.actions import ActionLog


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
