"""The token of a training is kept for its next part, in a private file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dicore_dist.links.token_file import forget_token, kept_token


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DICORE_TOKEN", raising=False)


def test_a_resumed_coordinator_has_the_token_of_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICORE_TOKEN", "given by the file of the five commands")
    first = kept_token(tmp_path)
    monkeypatch.delenv("DICORE_TOKEN")
    assert kept_token(tmp_path) == first == "given by the file of the five commands"
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    forget_token(tmp_path)
    forget_token(tmp_path)
    assert len(kept_token(tmp_path)) == 32
    assert kept_token(tmp_path) != first


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no such modes")
def test_a_file_that_others_could_have_written_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("known to others")
    file.chmod(0o644)
    assert kept_token(tmp_path) != "known to others"
    target = tmp_path / "elsewhere"
    target.write_text("kept as it is")
    file.unlink()
    file.symlink_to(target)
    assert len(kept_token(tmp_path)) == 32
    assert target.read_text() == "kept as it is"


def test_the_token_in_a_folder_that_somebody_sent_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    known = kept_token(theirs)
    assert kept_token(theirs) == known
    shutil.copytree(theirs, tmp_path / "mine")
    assert kept_token(tmp_path / "mine") != known
    assert "set DICORE_TOKEN" in caplog.text
    assert known not in caplog.text
