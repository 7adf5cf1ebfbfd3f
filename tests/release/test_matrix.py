"""`make matrix`: what is not worth a try is told before anything is installed."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

RELEASE = Path(__file__).parents[2] / "release"


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The script, with a folder of wheels as the only index."""
    monkeypatch.syspath_prepend(str(RELEASE))
    for name, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": str(tmp_path),
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return importlib.import_module("matrix")


def make_wheel(folder: Path, name: str, needs: Sequence[str] = (), tag: str = "py3") -> None:
    """Writes an empty wheel."""
    file = name.replace("-", "_")
    info = f"{file}-2.0.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 2.0"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    parts = {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{file}-2.0-{tag}-none-any.whl", "w") as archive:
        for part, text in parts.items():
            archive.writestr(f"{info}/{part}", text)


def test_a_torch_that_brings_cuda_is_not_installed(matrix: Any, tmp_path: Path) -> None:
    make_wheel(tmp_path, "nvidia-cudnn-cu13")
    make_wheel(tmp_path, "torch", ["nvidia-cudnn-cu13"])
    text = matrix.obstacle(sys.executable, ["torch"])
    assert text == "CUDA only: torch 2.0 brings 1 packages of CUDA; see --help"
    assert text.startswith(matrix.UNTRIED)
    assert matrix.obstacle(sys.executable, ["torch"], cuda=True) is None


def test_a_pair_without_wheels_is_told(matrix: Any, tmp_path: Path) -> None:
    make_wheel(tmp_path, "torch")
    make_wheel(tmp_path, "numpy", tag="cp30")
    assert matrix.obstacle(sys.executable, ["torch"]) is None
    text = matrix.obstacle(sys.executable, ["torch", "numpy<3"])
    assert text.startswith("no wheels: ")
    assert "numpy" in text
