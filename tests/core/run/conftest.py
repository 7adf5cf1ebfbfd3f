"""What tests of launching share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from dicore_registry import using
from tests.core.run.launch_parts import TOYS


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Looks names up among the toy parts, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    with using(TOYS):
        yield
    assert gc.isenabled()
