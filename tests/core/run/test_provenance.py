"""FEATURES E15: what code a run started from; no repository is no error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dicore.run.provenance import is_dirty
from dicore.run.record import RunRecord


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_changed_file_is_seen_and_a_new_one_is_not(repository: Path) -> None:
    below = repository / "below"
    below.mkdir()
    assert is_dirty(repository) is is_dirty(below) is False
    (below / "run.log").write_text("new")
    assert is_dirty(repository) is False
    (repository / "code.py").write_text("x = 2\n")
    assert is_dirty(below) is True


def test_without_a_repository_or_git_nothing_is_said(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_dirty(tmp_path_factory.mktemp("elsewhere")) is None
    monkeypatch.setenv("PATH", str(repository))
    assert is_dirty(repository) is None


def test_the_record_holds_revision_state_and_a_command_line_without_secrets(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.chdir(repository)
    (repository / "code.py").write_text("x = 2\n")
    argv = ["dicore", "train", "pipeline.logger=[]", "a.token=hush"]
    RunRecord(repository / "run.json", seed=0, argv=argv, components={}).write("running")
    record = json.loads((repository / "run.json").read_text())
    assert record["argv"] == [*argv[:3], "a.token=<redacted>"]
    assert (len(record["git"]), record["dirty"]) == (40, True)
