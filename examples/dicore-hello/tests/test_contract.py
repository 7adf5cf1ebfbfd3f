"""Every component of the package fulfils the contract of its kind."""

from pathlib import Path

import pytest

from dicore.testing import Check, parametrize


@parametrize(dist="dicore-hello")
def test_component(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check()
