"""FEATURES E22: config files of every form."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from dicore.config import is_config, read_config
from dicore.errors import ConfigError, ConfigWarning
from dicore_registry import Registry
from tests.core.config.conftest import least, problems_of, write

PYTHON = """
from math import inf
{main} = dict(env=dict(stop_value=inf, n_evaluator_episode=3), policy=dict(nstep=2))
{create} = dict(env=dict(type='pole'), policy=dict(type='toy'))
if __name__ == '__main__':
    raise SystemExit('this file is read, not run as a program')
"""


@pytest.mark.parametrize(
    ("main", "create"),
    [("main_config", "create_config"), ("cartpole_dqn_config", "cartpole_dqn_create_config")],
)
def test_a_python_file_holds_both_dicts(build: Any, tmp_path: Path, main: str, create: str) -> None:
    file = write(tmp_path, "x_config.py", PYTHON.format(main=main, create=create))
    got_main, got_create = read_config(file)
    assert got_main["policy"] == {"nstep": 2}
    assert got_create["env"] == {"type": "pole"}
    compiled = build(str(file))
    assert compiled.policy.nstep == 2
    assert compiled.origin["policy.nstep"] == f"{file}:3"
    assert compiled.origin["policy.type"] == f"{file}:4"


def test_the_seeds_names_win_over_other_pairs(tmp_path: Path) -> None:
    text = PYTHON.format(main="a_config", create="a_create_config")
    file = write(
        tmp_path, "c.py", text + "main_config, create_config = a_config, a_create_config\n"
    )
    assert read_config(file)[0]["policy"] == {"nstep": 2}


def test_a_relative_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "c.py", PYTHON.format(main="main_config", create="create_config"))
    monkeypatch.chdir(tmp_path)
    assert read_config("c.py")[1]["policy"] == {"type": "toy"}
    with pytest.raises(ConfigError) as caught:
        read_config("d.py")
    assert caught.value.message == "d.py: no such config file"
    assert caught.value.hint == f"looked in {tmp_path}"


def test_a_module_is_read_by_its_name(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E22: the module form; its file is named in messages, and it may import its neighbours."""
    package = tmp_path / "read_me_package"
    package.mkdir()
    write(package, "__init__.py", "")
    write(package, "amount.py", "NSTEP = 5\n")
    text = PYTHON.format(main="main_config", create="create_config")
    text = text.replace("nstep=2", "nstep=NSTEP", 1)
    file = write(package, "pole.py", f"from read_me_package.amount import NSTEP{text}")
    monkeypatch.syspath_prepend(tmp_path)
    compiled = build("read_me_package.pole")
    assert compiled.policy.nstep == 5
    assert compiled.origin["policy.nstep"] == f"{file}:3"
    assert is_config("read_me_package.pole")
    for name in ("read_me_package.pol", "no_such_package.pole", "read_me_package.yaml", "pole"):
        assert not is_config(name)
        with pytest.raises(ConfigError, match="no such config file"):
            read_config(name)


@pytest.mark.parametrize("by", ["argument", "environment"])
@pytest.mark.parametrize("name", ["trap_package.pole", "trap.py", "trap.PY"])
def test_names_only_runs_no_config_in_python(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: str
) -> None:
    """Nor is the package of a module imported, to see where the module is."""
    sprung = tmp_path / "sprung"
    trap = f"open({str(sprung)!r}, 'w').close()\n"
    (tmp_path / "trap_package").mkdir()
    for file in ("trap_package/__init__.py", "trap_package/pole.py", "trap.py", "trap.PY"):
        (tmp_path / file).write_text(f"{trap}main_config = create_config = {{}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    if by == "environment":
        monkeypatch.setenv("DICORE_NAMES_ONLY", "1")
        monkeypatch.setattr("dicore.config.reader.default", Registry)
        with pytest.raises(ConfigError, match="which --names-only forbids"):
            read_config(name)
    with pytest.raises(ConfigError, match=f"{name}: a config in Python is executed"):
        build(name, **({"names_only": True} if by == "argument" else {}))
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import no_such_module_here",
            "ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_whose_package_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "failing_pkg").mkdir()
    (tmp_path / "failing_pkg/__init__.py").write_text(text)
    for look in (is_config, read_config):
        with pytest.raises(ConfigError, match=f"^failing_pkg.conf: .*{said}$"):
            look("failing_pkg.conf")
    assert not is_config("no_such_package_here.conf")


def test_an_error_in_what_a_file_imports_points_to_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "broken_neighbour.py", "x = (")
    file = write(tmp_path, "c.py", "\nimport broken_neighbour\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert caught.value.message.startswith(f"{file}:2: SyntaxError: ")
    assert "broken_neighbour.py, line 1" in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("main_config = {}", "'create_config' is missing"),
        ("create_config = {}", "'main_config' is missing"),
        (
            "a_config = b_config = create_config = {}",
            "'main_config' is missing (a_config, b_config:",
        ),
        ("main_config = 3\ncreate_config = {}", "'main_config' is missing"),
        ("x = 1\ny = 1 / 0", ":2: ZeroDivisionError: division by zero"),
        ("x = (", ":1: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(3)", ":2: SystemExit: 3"),
        ("import no_such_module_here", ":1: ModuleNotFoundError: "),
    ],
)
def test_a_python_file_that_does_not_do_is_told_why(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, "c.py", text + "\n")
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert said in caught.value.message
    assert caught.value.message.startswith(str(file))


_ENV = "class {}:\n    def reset(self): ...\n    def step(self, action): ...\n"


@pytest.mark.parametrize(
    ("text", "said", "instead"),
    [
        (_ENV.format("Walk"), "the environment Walk, and no config", "-e {file}:Walk -p dqn"),
        (
            f"{_ENV.format('A')}class B(A): ...\nclass C: ...\n",
            "environments A, B, and no config",
            "-e {file}:A -p dqn",
        ),
        (
            "from pathlib import Path\ndef f(): ...\n",
            "the function f",
            "define main_config = dict(",
        ),
        ("class A: ...\ndef f(): ...\n", "the class A and the function f", "define main_config ="),
        ("".join(f"class A{i}: ...\n" for i in range(4)), "classes A0, A1, A2, …", "define main_"),
        ("x = 1", "nothing that is a config", "and create_config = {{}}"),
    ],
)
def test_a_python_file_without_a_config_is_told_what_it_has_and_what_to_write(
    tmp_path: Path, text: str, said: str, instead: str
) -> None:
    file = write(tmp_path, "walk.py", text)
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert caught.value.message == f"{file}: 'main_config' is missing; the file has {said}"
    assert instead.format(file=file) in caught.value.hint


YAML = (
    "env: {type: pole, stop_value: .inf, n_evaluator_episode: 3}\npolicy:\n  type: toy\n  learn:\n"
)
TOML = "[env]\ntype = 'pole'\nstop_value = inf\nn_evaluator_episode = 3\n[policy]\ntype = 'toy'\n"
JSON = '{"env": {"type": "pole", "stop_value": 1e999, "n_evaluator_episode": 3}, "policy": "toy"}'


@pytest.mark.parametrize(
    ("name", "text"), [("a.yaml", YAML), ("a.yml", YAML), ("a.toml", TOML), ("a.JSON", JSON)]
)
def test_the_same_tree_from_other_formats(build: Any, tmp_path: Path, name: str, text: str) -> None:
    wanted = build(
        {
            "env": {"type": "pole", "stop_value": float("inf"), "n_evaluator_episode": 3},
            "policy": "toy",
        }
    )
    assert build(write(tmp_path, name, text)).cfg == wanted.cfg


def test_a_learning_rate_that_yaml_reads_as_text_is_a_float(build: Any, tmp_path: Path) -> None:
    rates = ("learning_rate: 1e-3", "batch_size: 1.5e2")
    good, bad = (write(tmp_path, f"{i}.yaml", f"{YAML}    {r}\n") for i, r in enumerate(rates))
    assert build(good).policy.learn.learning_rate == 1e-3
    with pytest.raises(
        ConfigError, match=r"policy.learn.batch_size: expected int, got str '1.5e2'"
    ):
        build(bad)
    count = write(tmp_path, "c.yaml", f"{YAML}    batch_size: 1e2\n")
    assert build(count).policy.learn.batch_size == 100


def test_both_dicts_may_stand_in_one_tree(build: Any, tmp_path: Path) -> None:
    main = "main_config: {env: {stop_value: 1, n_evaluator_episode: 2}}"
    text = f"{main}\ncreate_config: {{env: pole, policy: toy}}\n"
    assert build(write(tmp_path, "a.yaml", text)).policy.type == "toy"
    assert read_config(write(tmp_path, "empty.yaml", "")) == ({}, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "a: [1"),
        ("a.yaml", "!!python/object/apply:os.system ['true']"),
        ("a.toml", "a = "),
        ("a.json", "{"),
        ("a.json", "[1, 2]"),
        ("a.yaml", "just text"),
        ("a.txt", ""),
        ("a", ""),
    ],
)
def test_what_cannot_be_read_is_told_with_the_file(
    build: Any, tmp_path: Path, name: str, text: str
) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert caught.value.message.startswith(str(file))
    with pytest.raises(ConfigError, match=name):
        build(file)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "a = 1\n[b\n", ": Expected ']' at the end of a table declaration (at line 2"),
        ("a.toml", "a = 1\na.b = 2\n", ": Cannot overwrite a value"),
        ("a.json", '{\n"a": 1,\n"b": }', ":3: Expecting value (column 6)"),
        ("a.json", "", ": empty"),
        ("a.yaml", "a: 1\nb: [1\n", ":3: did not find expected ',' or ']'"),
        ("a.yaml", "a: 1\n---\nb: 1\n", ":2: expected a single document in the stream, but found"),
        (
            "a.yaml",
            "a: \0",
            ": unacceptable character #x0000: control characters are not allowed in",
        ),
        ("a.yaml", "a: 1\nb: !!python/name:os.system x\n", ":2: could not determine a constructor"),
    ],
)
def test_a_text_with_a_wrong_line_is_told_the_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert caught.value.message.startswith(f"{file}{said}")


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"a\.yaml: not UTF-8 text: invalid start byte at byte 3"):
        read_config(file)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """50 MB of JSON take gigabytes as a tree with lines."""
    for name in ("a.json", "a.yaml", "a.toml"):
        file = write(tmp_path, name, " " * (1 << 20) + "{}")
        with pytest.raises(ConfigError, match=r"over 1 MiB, which is too large for a config"):
            read_config(file)


def test_thousands_of_mistakes_take_seconds(build: Any, tmp_path: Path) -> None:
    policy = {"type": "toy", **{f"k{number}": 1 for number in range(20_000)}}
    file = write(tmp_path, "a.json", json.dumps({**least(), "policy": policy}))
    start = time.process_time()
    assert len(problems_of(build, file)) == 20_000
    assert time.process_time() - start < 10


def test_a_file_that_runs_long_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dicore_tools.config_formats import python_file

    monkeypatch.setattr(python_file, "_PATIENCE", 0.02)
    file = tmp_path / "slow.py"
    file.write_text(
        "import threading\n\nthreading.Event().wait(0.5)\nmain_config = {}\ncreate_config = {}\n"
    )
    with pytest.warns(ConfigWarning, match=r"slow\.py:3: the config file is still running"):
        read_config(file)
    monkeypatch.setattr(python_file, "_PATIENCE", 60.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file.write_text("main_config = {}\ncreate_config = {}\n")
        read_config(file)
