"""The fakes that suites hand to components."""

from __future__ import annotations

import pytest

from dicore.errors import EnvStateError
from dicore.testing.fakes import DelayedEnvManager, FakeManager


def answers(seed: int, steps: int = 40) -> list[list[int]]:
    manager = DelayedEnvManager(FakeManager(4), seed)
    manager.launch()
    found = []
    for _ in range(steps):
        waiting = list(manager.ready_obs)
        answer = manager.step(dict.fromkeys(waiting, 0))
        assert len(answer) >= 1
        assert set(answer) <= set(waiting) | set(range(4)) - set(manager.ready_obs) | set(answer)
        found.append(list(answer))
    assert sum(manager.steps) == sum(map(len, found))
    return found


def test_a_delayed_manager_answers_for_random_subsets() -> None:
    found = answers(0)
    assert found == answers(0)
    assert found != answers(1)
    assert {len(each) for each in found} == {1, 2, 3, 4}
    assert {env_id for each in found for env_id in each} == {0, 1, 2, 3}


def test_a_delayed_manager_steps_an_env_once_per_action() -> None:
    manager = DelayedEnvManager(FakeManager(2), 3)
    manager.launch()
    assert "lockstep" not in manager.capabilities
    assert not hasattr(manager, "step_into")
    while not manager.pending:
        manager.step({0: 0, 1: 0})
    (waits,) = manager.pending
    with pytest.raises(EnvStateError, match=f"env {waits}"):
        manager.step({waits: 0})
    assert list(manager.step({})) == [waits]
    with pytest.raises(EnvStateError, match="no environment"):
        manager.step({})
    while not manager.pending:
        manager.step({0: 0, 1: 0})
    manager.reset()
    assert (manager.pending, set(manager.ready_obs)) == ({}, {0, 1})
    manager.close()
    assert manager.closed
