"""Runs the conformance tests of every component of this package."""

from pathlib import Path

import pytest

from dicore.testing import Check, parametrize


@parametrize(dist="postbox-rl")
def test_component(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check()
