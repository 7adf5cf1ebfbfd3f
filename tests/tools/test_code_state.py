"""FEATURES E15: what code a run started from; no repository is no error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dicore.run.metadata import RunMetadata
from dicore_tools.code_state import code_state


def changed_code(folder: Path) -> str | None:
    return code_state(folder)[1]


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def revision(folder: Path) -> str | None:
    return code_state(folder)[0]


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
    assert changed_code(repository) == changed_code(below) == ""
    (below / "run.log").write_text("new")
    assert changed_code(repository) == ""
    (repository / "code.py").write_text("x = 2\n")
    assert "-x = 1\n+x = 2\n" in (changed_code(below) or "")


def test_without_a_repository_a_revision_or_git_nothing_is_said(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert changed_code(elsewhere) is None
    git(elsewhere, "init", "-q")
    assert changed_code(elsewhere) is None
    monkeypatch.setenv("PATH", str(repository))
    assert changed_code(repository) is None


def test_a_patch_is_cut_and_holds_no_secret(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E10: a config under version control may hold what no copy of it should."""
    (repository / "c.yaml").write_text("a: 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "two")
    (repository / "c.yaml").write_text("api_token: hush1\ntoken: ${env:MY_TOKEN}\nmonkey: 2\n")
    (repository / "code.py").write_text(
        'x = 1\ncfg = dict(password=\'hush2\', n=3)\nd = {"token": "hush3", "b": 4}\n'
        "y = sorted(z, key=len)\n"
    )
    patch = changed_code(repository) or ""
    assert "hush" not in patch
    for kept in (
        "+api_token: <redacted>", "+token: ${env:MY_TOKEN}", "+monkey: 2", "n=3)", '"b": 4}',
        "key=len)",
    ):  # fmt: skip
        assert kept in patch
    monkeypatch.setattr("dicore_tools.code_state._MAX_PATCH_CHARS", 100)
    assert (changed_code(repository) or "").endswith(" more characters)\n")


def test_no_half_of_a_secret_is_left_where_a_patch_is_cut(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "code.py").write_text("x = 2\ntoken = 'hush hush hush hush hush hush'\n")
    whole = changed_code(repository) or ""
    assert "+token = <redacted>" in whole
    monkeypatch.setattr("dicore_tools.code_state._MAX_PATCH_CHARS", whole.index("+token") + 15)
    assert "hush" not in (changed_code(repository) or "")


def test_a_line_that_is_one_long_word_takes_no_time(repository: Path) -> None:
    """Data under version control has such lines; quadratic, this one would take minutes."""
    (repository / "code.py").write_text("a" * 500_000 + "\n")
    assert len(changed_code(repository) or "") > 500_000


def test_the_record_holds_revision_state_and_a_command_line_without_secrets(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    monkeypatch.chdir(repository)
    (repository / "code.py").write_text("x = 2\n")
    argv = ["dicore", "train", "pipeline.logger=[]", "a.token=hush"]
    RunMetadata(repository / "run.json", seed=0, argv=argv).write("running")
    record = json.loads((repository / "run.json").read_text())
    assert record["argv"] == [*argv[:3], "a.token=<redacted>"]
    assert (len(record["git"]), record["dirty"]) == (40, True)
    assert "+x = 2\n" in (repository / "code.diff").read_text()


def test_a_run_that_goes_on_keeps_both_patches(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    for number in (2, 3):
        (repository / "code.py").write_text(f"x = {number}\n")
        record = RunMetadata(repository / "run.json", seed=0, argv=[])
        if number == 3:
            record.resume("iteration_1", 1, 1)
        record.write("running")
        record.write("done")
    assert "+x = 2\n" in (repository / "code.diff").read_text()
    assert "+x = 3\n" in (repository / "code_1.diff").read_text()


def test_the_git_revision_is_what_git_says(tmp_path: Path) -> None:
    assert revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert revision(tmp_path) is None, "no commit yet"
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a")
    (tmp_path / "deep").mkdir()
    assert revision(tmp_path / "deep") == git(tmp_path, "rev-parse", "HEAD")
    linked = tmp_path / "linked"
    git(tmp_path, "worktree", "add", "-q", str(linked))
    git(linked, "commit", "-q", "--allow-empty", "-m", "b")
    assert revision(linked) == git(linked, "rev-parse", "HEAD") != revision(tmp_path)
