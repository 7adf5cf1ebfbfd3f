"""On which line of a file a key stands, whatever form the file has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.config.layers import Layer
from dicore.config.reader import read_file
from dicore.errors import ConfigError
from dicore_tools.config_formats.text_files import node_lines
from tests.core.config.conftest import write

FILES = {
    "a.py": """\
class EasyDict(dict):
    pass

main_config = EasyDict(dict(
    seed=3,
    env=dict(
        stop_value=475,
        hooks=[
            "one",
            {"type": "two"},
        ],
    ),
    policy={
        "learn": {
            "batch_size": 8,
        },
        "n_sample": 4,
    },
))
create_config = {
    "replay_buffer": {
        "type": "naive",
        "size": 3,
    },
}
""",
    "a.yaml": """\
# a comment
main_config:
  seed: 3
  env:
    stop_value: 475
    hooks:
      - one
      - type: two
  policy:
    learn: {batch_size: 8}
    n_sample: 4
create_config:
  replay_buffer:
    type: naive
    size: 3
""",
    "a.json": """\
{
  "seed": 3,
  "env": {
    "stop_value": 475,
    "hooks": ["one",
      {"type": "two"}]
  },
  "policy": {
    "learn": {"batch_size": 8},
    "n_sample": 4
  },
  "replay_buffer": {
    "type": "naive",
    "size": 3
  }
}
""",
}
WANTED = {
    "seed": "seed",
    "env.stop_value": "stop_value",
    "policy.learn.batch_size": "batch_size",
    "policy.collect.n_sample": "n_sample",
    "policy.other.replay_buffer.size": "size",
    "policy.other.replay_buffer.type": "naive",
    "env.hooks[1].type": "two",
}


def line_of(file: Path, path: str) -> int | None:
    return read_file(file).lines.find(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("path", WANTED)
def test_each_key_is_found(name: str, path: str, tmp_path: Path) -> None:
    line = line_of(write(tmp_path, name, FILES[name]), path)
    assert line is not None
    assert WANTED[path] in FILES[name].splitlines()[line - 1]


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_written_points_to_the_section_around_it(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, name, FILES[name])
    line = line_of(file, "env.manager.max_retry")
    assert line is not None
    assert "env" in FILES[name].splitlines()[line - 1]
    assert line_of(file, "zoo.keeper") is None
    layer = Layer(str(file), lines=read_file(file).lines)
    assert layer.place("zoo.keeper") == str(file)
    assert layer.place("seed").startswith(f"{file}:")


PYTHON = """\
from copy import deepcopy
import math
lr = 3e-4 * 2
nets = {"width": 8,
        "deep": [1,
                 2]}
base = dict(
    seed=1,
    exp_name="x",
)
policy = {
    "learn": dict(learning_rate=lr,
                  batch_size=8),
    "model": nets,
    **{"nstep": 3},
}
main_config = base | {"policy": policy}
main_config = deepcopy(main_config)
main_config["policy"]["cuda"] = False
for key in ("seed",):
    main_config[key] = 7
main_config["policy"]["learn"]["batch_size"] = 2 * 8
create_config = dict(policy=dict(type="toy"))
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("policy.learn.learning_rate", 12),
        ("policy.model.width", 4),
        ("policy.model.deep[0]", 5),
        ("policy.model.deep[1]", 6),
        ("policy.nstep", 15),
        ("policy.type", 23),
        ("policy.cuda", 19),
        ("exp_name", 9),
        ("policy.learn.batch_size", 22),
        ("seed", None),  # code changed what the literal says
    ],
)
def test_python_code_is_read_as_far_as_it_is_plain(
    path: str, line: int | None, tmp_path: Path
) -> None:
    assert line_of(write(tmp_path, "a.py", PYTHON), path) == line


def test_what_a_function_makes_is_found_in_it(tmp_path: Path) -> None:
    pair = (
        "cpanel = {'n': 2}\n"
        "def gen_params(cpanel):\n"
        "    policy = dict(\n"
        "        nstep=cpanel['n'],\n"
        "    )\n"
        "    return dict(policy=policy,\n"
        "                seed=1), dict(policy='toy')\n"
    )
    file = write(tmp_path, "pair.py", pair)
    assert [line_of(file, path) for path in ("policy.nstep", "seed")] == [4, 7]
    both = pair.replace("return dict(policy=policy,", "return dict(main_config=dict(policy=policy,")
    both = both.replace("seed=1), dict(policy='toy')", "seed=1), create_config=dict(policy='toy'))")
    file = write(tmp_path, "both.py", both)
    assert [line_of(file, path) for path in ("policy.nstep", "seed")] == [4, 7]


def test_toml_has_no_lines(tmp_path: Path) -> None:
    file = write(tmp_path, "a.toml", "seed = 3\n[env]\nstop_value = 475\n")
    assert read_file(file).main == {"seed": 3, "env": {"stop_value": 475}}
    assert line_of(file, "env.stop_value") is None
    assert Layer(str(file), lines=read_file(file).lines).place("seed") == str(file)


def test_json_that_is_not_yaml_has_no_lines(tmp_path: Path) -> None:
    assert line_of(write(tmp_path, "a.json", '{\n\t"a": 1,\n\t"b": 2}'), "b") == 3
    file = write(tmp_path, "b.json", '{"a": "\x7f",\n"b": 2}')
    assert (read_file(file).main, line_of(file, "b")) == ({"a": "\x7f", "b": 2}, None)


KEYS = st.text(st.characters(max_codepoint=0xFFFF), min_size=1, max_size=4)
plain_trees = st.recursive(
    st.integers() | st.text(max_size=5) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, plain_trees, min_size=1, max_size=4))
def test_every_key_of_a_json_text_stands_on_its_line(tree: dict[str, Any]) -> None:
    text = json.dumps(tree, indent=1)
    lines, written_lines = node_lines(yaml.compose(text)), text.splitlines()
    for key in tree:
        assert json.dumps(key) in written_lines[lines[key] - 1]


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, plain_trees, min_size=1, max_size=4))
def test_every_key_of_a_yaml_text_stands_on_its_line(tree: dict[str, Any]) -> None:
    text = yaml.safe_dump(tree, allow_unicode=False, width=1000)
    lines = node_lines(yaml.compose(text))
    assert set(map(str, tree)) <= lines.keys()
    assert len({lines[key] for key in tree}) == len(tree)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "a: 1\nb: 2\na: 3\n", ":3: a is given twice, first in line 1"),
        ("a.yaml", "a: {b: 1,\n b: 2}\n", ":2: a.b is given twice, first in line 1"),
        ("a.json", '{"a": 1,\n"a": 2}', ":2: a is given twice, first in line 1"),
        ("a.toml", "a = 1\na = 2\n", "overwrite a value"),
        ("a.yaml", "a: &x\n  b: *x\n", "an alias contains itself"),
        ("a.json", "[" * 100_000, "nest"),  # ours, or that of the parser's own limit
        ("a.yaml", "a: " + "[" * 100_000, "nest"),
        (
            "a.yaml",
            "a: &a [1,1,1,1,1,1,1,1,1]\n"
            + "".join(
                f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "more than 100000 values once aliases are expanded",
        ),
    ],
)
def test_what_a_parser_would_pass_over_is_told(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_file(write(tmp_path, name, text))
    assert caught.value.message.startswith(str(tmp_path / name))
    assert said in caught.value.message


def test_merged_keys_of_yaml_are_no_duplicates(tmp_path: Path) -> None:
    text = "base: &b {x: 1,\n  y: 2}\nmine:\n  <<: *b\n  y: 3\n"
    found = read_file(write(tmp_path, "a.yaml", text))
    assert found.main["mine"] == {"x": 1, "y": 3}
    assert (found.lines.find("mine.x"), found.lines.find("mine.y")) == (1, 5)
