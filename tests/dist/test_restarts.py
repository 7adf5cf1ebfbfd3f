"""`Restarts`: how often a process is replaced, and how long that waits."""

from __future__ import annotations

import pytest

from dicore_dist.coordinator import restarts as module
from dicore_dist.coordinator.restarts import Restarts


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_losses_in_a_row_wait_longer_and_are_too_many_at_last() -> None:
    restarts = Restarts(3)
    assert [restarts.lost("a") for _ in range(4)] == [0.0, 2.0, 4.0, None]
    assert restarts.are_too_many("a")
    assert not restarts.are_too_many("a", "b")
    restarts.delivered("a")
    assert restarts.lost("a") == 0.0


def test_a_loss_outside_of_the_window_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    restarts = Restarts(1, window=60.0)
    for clock.now in (0.0, 61.0, 122.0):
        assert restarts.lost("a") == 0.0
    clock.now = 182.0
    assert restarts.lost("a") is None


def test_a_pause_has_a_limit() -> None:
    restarts = Restarts(float("inf"))
    assert max(restarts.lost("a") or 0.0 for _ in range(2000)) == 30.0
