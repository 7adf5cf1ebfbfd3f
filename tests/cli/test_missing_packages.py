"""What `dicore` without its other packages says of their commands and names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dicore
from dicore.cli import main
from dicore.errors import MissingPackageError
from dicore_registry import using
from dicore_registry.known import known
from tests.registry.world import World

TOOLS = "pip install dicore-tools"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; only dicore itself is installed."""
    world = World(tmp_path / "site", tmp_path / "house")
    world.own("dicore")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with using(world.registry()):
        yield folder


@pytest.mark.parametrize(
    ("words", "error"),
    [
        *(
            (name, f"'{name}' comes with {dist}: pip install {dist}")
            for name, dist in known("command").items()
        ),
        ("-m eval -e cartpole -p dqn", f"'eval' comes with dicore-tools: {TOOLS}"),
        *(
            (f"train -e x -p y -s 0 -s 1{jobs}",
             f"'--seed given twice' comes with dicore-tools: {TOOLS}")
            for jobs in ("", " --jobs 2")
        ),
        ("list --load", f"'--load' comes with dicore-tools: {TOOLS}"),
        ("plott", "no command named 'plott'; did you mean 'plot', provided by 'dicore-tools': "
         f"{TOOLS}?"),
        ("trian", "no command named 'trian'; did you mean 'train'?"),
    ],
)  # fmt: skip
def test_the_package_to_install_is_named(
    words: str, error: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"error: {error}\n"
    assert not list(here.iterdir())


def test_what_needs_no_other_package_works(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("list", "list kind --json", "show kind/env", "show command/train", "--help"):
        assert main(words.split()) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", known("api"))
def test_public_names_tell_their_package(name: str, here: Path) -> None:
    text = f"'{name}' comes with {known('api')[name]}: pip"
    with pytest.raises(MissingPackageError, match=text):
        exec(f"from dicore import {name}")
    with pytest.raises(AttributeError, match=text):
        getattr(dicore, name)
    assert not hasattr(dicore, name)


def test_several_seeds_in_python_need_the_tools(here: Path) -> None:
    from dicore_plugins.pipelines import serial_pipeline

    with pytest.raises(MissingPackageError, match="'run_series' comes with dicore-tools"):
        serial_pipeline({}, seed=[0, 1])
