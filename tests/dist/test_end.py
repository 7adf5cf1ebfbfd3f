"""The end of a training by `-m dist`: no process waits for ever."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from dicore_dist.commands.pipeline import system_facts
from dicore_dist.coordinator.journal import Journal, is_finished
from dicore_dist.workers.serving import Place, serve
from tests.dist import test_roles as roles

learner, collectors, places = roles.learner, roles.collectors, roles.places


def test_a_process_that_was_lost_and_starts_again_at_the_end_is_ended_too(
    learner: Any, collectors: Any, places: dict[str, Any]
) -> None:
    coordinator = roles.coordinated(roles.compiled(), learner, collectors, places)
    find, asked = coordinator._peers.address_of, []

    def found(name: str) -> str | None:
        if name != "collector1":
            return find(name)
        asked.append(coordinator._ended.is_set())
        return find(name) if sum(asked) > 1 else "127.0.0.1:9"  # where the lost one was

    coordinator._peers.address_of = found  # type: ignore[method-assign]
    coordinator.run(lambda: False)
    assert sum(asked) > 1
    assert collectors[1].wait(60)


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


def test_a_process_that_starts_when_its_training_is_finished_ends_by_itself(tmp_path: Path) -> None:
    system = {**system_facts(roles.compiled().cfg), "start_timeout": 0.3}
    place = Place(str(tmp_path), str(tmp_path), roles.TOKEN)
    ended = threading.Event()
    given = ("collector", system, place, 0, None, ended)
    thread = threading.Thread(target=serve, args=given, daemon=True)
    thread.start()
    thread.join(1.0)
    assert thread.is_alive()  # its coordinator may come
    journal = Journal(tmp_path / "journal.jsonl")
    assert not is_finished(tmp_path / "journal.jsonl")
    journal.write("finished")
    journal.close()
    thread.join(60)
    assert not thread.is_alive()
    assert not [*tmp_path.glob("*.address")]
