"""How messages say that a package is installed, also from a checkout."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import pytest

from dicore_registry import installing
from tests.conftest import printed

PROJECT = '[project]\nname = "{}"\ndependencies = {}\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which `dicore-b` needs `dicore-a`, which is not installed, and `numpy`."""
    for place, name, needs in (
        ("plugins/a", "dicore-a", ["dicore>=0.1,<0.2"]),
        ("plugins/b", "dicore-b", ["dicore-a>=0.1", "dicore-tools>=0.1", "numpy>=1"]),
        ("with space", "dicore-tools", []),
    ):
        (tmp_path / place).mkdir(parents=True)
        text = PROJECT.format(name, json.dumps(needs))
        (tmp_path / place / "pyproject.toml").write_text(text)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/pyproject.toml").write_text("[")
    monkeypatch.setattr(installing, "_checkout", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("dist", "line"),
    [
        ("dicore-a", "pip install -e plugins/a"),
        ("dicore-b", "pip install -e plugins/a -e plugins/b"),
        ("dicore-tools", "pip install -e 'with space'"),
        ("acme-rl", "pip install acme-rl"),
    ],
)
def test_a_checkout_is_installed_by_its_folders(
    dist: str, line: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    assert installing.install_line.__wrapped__(dist) == line


def test_elsewhere_the_folders_are_absolute(checkout: Path) -> None:
    line = f"pip install -e {checkout}/plugins/a"
    assert installing.install_line.__wrapped__("dicore-a") == line


def test_without_a_checkout_it_is_the_package() -> None:
    assert installing.install_line.__wrapped__("dicore-tools") == "pip install dicore-tools"


def test_a_process_of_its_own_finds_how_dicore_is_installed() -> None:
    text = metadata.distribution("dicore").read_text("direct_url.json")
    editable = bool(text) and json.loads(text or "{}").get("dir_info", {}).get("editable", False)
    program = "from dicore_registry.installing import _checkout; print(_checkout())"
    root = Path(os.path.realpath(__file__)).parents[2]
    assert printed(program).strip() == (str(root) if editable else "None")
