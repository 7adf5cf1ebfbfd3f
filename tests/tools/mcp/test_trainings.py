"""Folders and messages of the trainings of a server, with processes that train nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("anyio")

import anyio

from dicore.errors import UsageError
from dicore_tools.mcp.trainings import Trainings

PROCESS = """
import pathlib, sys, time
folder = next(pathlib.Path(w[11:]) for w in sys.argv if w.startswith("--exp-name="))
print(folder.name, file=sys.stderr, flush=True)
if folder.name.startswith("fails"):
    time.sleep(float(folder.name[5:]))
    sys.exit(1)
folder.mkdir(parents=True)
(folder / "run.json").write_text("{}")
"""


@pytest.fixture
def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainings]:
    """Trainings below `root`; one that is named `fails3` fails after three seconds."""
    monkeypatch.setattr("dicore_tools.mcp.trainings.PYTHON", (sys.executable, "-c", PROCESS))
    (tmp_path / "root").mkdir()
    (tmp_path / "place").mkdir()
    made = Trainings(tmp_path / "root", tmp_path / "place")
    yield made
    made.end()


def start(trainings: Trainings, name: str) -> None:
    anyio.run(trainings.start, {"name": name, "max_env_step": 1})


def test_a_link_to_nothing_is_no_free_name(trainings: Trainings, tmp_path: Path) -> None:
    runs = tmp_path / "root/runs"
    runs.mkdir()
    (runs / "one").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="runs/one exists"):
        start(trainings, "one")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("to", ["../outside", "runs"])
def test_runs_is_no_link_out(trainings: Trainings, tmp_path: Path, to: str) -> None:
    (tmp_path / "root/runs").symlink_to(to)
    with pytest.raises(UsageError, match="a link out of the root"):
        start(trainings, "one")
    assert not (tmp_path / "outside").exists()


def test_a_name_is_free_when_its_folder_was_deleted(trainings: Trainings, tmp_path: Path) -> None:
    start(trainings, "one")
    with pytest.raises(UsageError, match="runs/one exists"):
        start(trainings, "one")
    trainings.end()
    shutil.rmtree(tmp_path / "root/runs/one")
    start(trainings, "one")


def test_each_training_has_its_own_messages(trainings: Trainings) -> None:
    """The third starts when the first has failed, and the second has not."""
    said: list[str] = []

    async def fail(name: str) -> None:
        try:
            await trainings.start({"name": name, "max_env_step": 1})
        except UsageError as error:
            said.append(error.message)

    async def several() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail, "fails1")
            await fail("fails0")
            await fail("fails1.5")

    anyio.run(several)
    assert sorted(said) == ["fails0", "fails1", "fails1.5"]
