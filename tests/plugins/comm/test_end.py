"""The end of a training by `-m dist`: no process waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("given", "starts"), [("none", False), ("null", False), ("threads", True), ("processes", True)]
)
def test_none_of_the_command_line_waits_for_the_processes(given: str, starts: bool) -> None:
    """`NAME=none` is None there, and the name of a choice in a file."""
    config = roles.compiled(f"pipeline.system.start={given}")
    assert config.cfg.pipeline.system.starts is starts
    system = {"start": given.replace("null", "none")}
    named = {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
    file = {**named, "pipeline": {"type": "dist", "system": system}}
    assert roles.compile_config(file).pipeline.system.starts is starts
