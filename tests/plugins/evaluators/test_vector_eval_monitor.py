"""Which episodes count in an evaluation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.errors import UsageError
from dicore_plugins.evaluators import VectorEvalMonitor


def test_the_documents_example() -> None:
    assert list(VectorEvalMonitor(5, 12).quota.values()) == [3, 3, 2, 2, 2]


@given(st.integers(1, 20), st.integers(0, 60))
def test_quotas_share_all_episodes_evenly(env_num: int, more: int) -> None:
    quota = VectorEvalMonitor(env_num, env_num + more).quota.values()
    assert sum(quota) == env_num + more
    assert max(quota) - min(quota) <= 1


def test_the_first_episodes_count() -> None:
    monitor = VectorEvalMonitor(2, 3)
    for value in (1, 2, 3, 4):
        monitor.update_reward(0, value)
        monitor.update_info(0, {"value": value})
    assert not monitor.is_finished()
    assert monitor.get_current_episode() == [2, 0]
    monitor.update_reward(1, 9.0)
    monitor.update_info(1, {"value": 9})
    assert monitor.is_finished()
    assert monitor.get_episode_reward() == [1, 2, 9]
    assert monitor.get_latest_reward(0) == 2
    assert [info["value"] for info in monitor.get_episode_info()] == [1, 2, 9]


def test_fewer_episodes_than_environments_are_refused() -> None:
    with pytest.raises(UsageError, match=r"3 episodes .* 5 environments"):
        VectorEvalMonitor(5, 3)


def test_no_environment_is_refused() -> None:
    with pytest.raises(UsageError, match="env_num must be >= 1"):
        VectorEvalMonitor(0, 3)


def test_no_latest_return_before_the_first_episode() -> None:
    with pytest.raises(UsageError, match="environment 1"):
        VectorEvalMonitor(2, 2).get_latest_reward(1)
