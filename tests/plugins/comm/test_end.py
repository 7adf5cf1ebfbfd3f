"""The end of a training by `-m dist`: no process waits for ever."""

from __future__ import annotations

from typing import Any

from tests.plugins.comm import test_roles as roles

learner, collectors, places = roles.learner, roles.collectors, roles.places


def test_a_process_that_was_lost_and_starts_again_at_the_end_is_ended_too(
    learner: Any, collectors: Any, places: dict[str, Any]
) -> None:
    coordinator = roles.coordinated(roles.compiled(), learner, collectors, places)
    find, asked = coordinator._find, []

    def found(name: str) -> str | None:
        if name != "collector1":
            return find(name)
        asked.append(coordinator._ended.is_set())
        return find(name) if sum(asked) > 1 else "127.0.0.1:9"  # where the lost one was

    coordinator._find = found
    coordinator.run(lambda: False)
    assert sum(asked) > 1
    assert collectors[1].wait(5)
