"""What the core reads and writes by itself, and its errors for the formats of dicore-tools."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dicore.config import is_config, read_config, write_config
from dicore.errors import ConfigError
from dicore_registry import Registry, using


@pytest.fixture
def core_alone() -> Iterator[None]:
    with using(Registry([importlib.metadata.distribution("dicore")], environ={})):
        yield


@pytest.mark.parametrize("name", ["config.py", "a.yaml", "a.yml", "a.TOML"])
@pytest.mark.usefixtures("core_alone")
def test_a_format_of_another_package_names_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("")
    suffix = file.suffix.lower()
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    wanted = f"{file}: {suffix} files come with dicore-tools: pip install dicore-tools"
    assert (caught.value.message, caught.value.exit_code) == (wanted, 2)


@pytest.mark.usefixtures("core_alone")
def test_a_control_panel_needs_its_package(build: Any, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"cpanel": {"lr": 1}, "seed": "${cpanel.lr}"}')
    for main, options in ((tmp_path / "a.json", {}), (None, {"cpanel": {"lr": 1}})):
        with pytest.raises(ConfigError, match="control panels come with dicore-tools: pip install"):
            build(main, **options)


@pytest.mark.usefixtures("core_alone")
def test_a_key_given_twice_is_found_without_lines_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"policy": {"nstep": 1, "nstep": 2}}')
    with pytest.raises(ConfigError, match=r"a.json: nstep is given twice"):
        read_config(tmp_path / "a.json")


@pytest.mark.usefixtures("core_alone")
def test_the_core_reads_and_writes_json(build: Any, tmp_path: Path) -> None:
    compiled = build()
    write_config(compiled, tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]
    assert build(tmp_path / "run").cfg == compiled.cfg
    assert not is_config("some.module")


def test_an_unknown_format_lists_the_installed_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "a.txt")
    assert caught.value.message == f"{tmp_path / 'a.txt'}: cannot read '.txt' files"
    assert caught.value.hint == "use one of .json, .py, .toml, .yaml, .yml"
    (tmp_path / "a.zip").write_text("")
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "a.zip")
    assert f"dicore import-weights {tmp_path / 'a.zip'} --run RUN" in str(caught.value.hint)


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    """E22: the files that DI-engine hands to its workers run code when they are read."""
    (tmp_path / "dist.pkl").write_bytes(b"cposix\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(ConfigError, match="a pickle runs code when it is read") as caught:
        read_config(tmp_path / "dist.pkl")
    assert caught.value.hint.startswith("save the config as text; use one of .json")
