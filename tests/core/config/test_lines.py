"""On which line of a file a key stands, whatever form the file has."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.config.lines import line_of, place_of

FILES = {
    "a.py": """\
from easydict import EasyDict

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
    "a.toml": """\
seed = 3

[env]
stop_value = 475
hooks = ["one", {type = "two"}]

[policy]
n_sample = 4
[policy.learn]
batch_size = 8   # eight

[policy.other.replay_buffer]
type = "naive"
size = 3
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


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("path", WANTED)
def test_each_key_is_found(name: str, path: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(FILES[name])
    line = line_of(file, path)
    assert line is not None
    assert WANTED[path] in FILES[name].splitlines()[line - 1]


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_written_points_to_the_section_around_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(FILES[name])
    line = line_of(file, "env.manager.max_retry")
    assert line is not None
    assert "env" in FILES[name].splitlines()[line - 1]
    assert line_of(file, "zoo.keeper") is None
    assert place_of(file, "zoo.keeper") == str(file)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("seed: 1\n")
    assert line_of(file, "seed") == 1
    file.write_text("\n\nseed: 1\n")
    assert line_of(file, "seed") in (1, 3)  # clocks of file systems are coarse


@pytest.mark.parametrize("text", ["{", "[1, 2", "a: [", "x = = 3", "\0"])
@pytest.mark.parametrize("suffix", ["py", "yaml", "json", "toml", "ini"])
def test_a_file_that_cannot_be_read_has_no_lines(text: str, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"bad.{suffix}"
    file.write_text(text)
    assert line_of(file, "seed") is None
    assert line_of(tmp_path / "missing.py", "seed") is None
