"""FEATURES E13: three saved forms, each of which compiles to the same config."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicore import __version__
from dicore.config import bind, read_config, write_config
from dicore.config.writer import JSON, saved_tree
from dicore.interfaces.env import EnvSpec
from dicore_tools.config_formats.python_form import FORMATTED, TOTAL
from dicore_tools.config_formats.yaml_form import yaml_source
from tests.core.config.conftest import least, problems_of

FORMS = (JSON, TOTAL, FORMATTED)
TAGS = ("__tuple__", "__float__", "__dict__", "__numpy__", "__array__")


def some_config() -> dict[str, Any]:
    return {
        **least(),
        "exp_name": 'runs/it\'s "ü"',
        "replay_buffer": {"type": "heap", "alpha": 0.1},
        "policy": {
            "type": "toy",
            "n_episode": 3,
            "learn": {
                "free": {"inf": math.inf, "t": (1, (2, [3])), "class": None, "a b": {}, 3: "x"},
                "learner": {"hook": [{"type": "save_ckpt", "freq": 7}, "log_show"]},
            },
        },
        "pipeline": {"logger": ["console"]},
    }


@pytest.mark.parametrize("form", FORMS)
def test_each_form_compiles_to_the_same_config(build: Any, tmp_path: Path, form: str) -> None:
    compiled = bind(build(some_config(), seed=5), EnvSpec(4, "discrete"))
    assert write_config(compiled, tmp_path) == tmp_path / JSON
    again = build(tmp_path / form)
    assert again.cfg == compiled.cfg
    assert again.components == compiled.components


@pytest.mark.parametrize("form", [TOTAL, FORMATTED])
def test_the_python_forms_hold_the_documents_two_dicts(
    build: Any, tmp_path: Path, form: str
) -> None:
    write_config(build(some_config()), tmp_path)
    main, create = read_config(tmp_path / form)
    assert create["replay_buffer"] == {"type": "heap"}
    assert create["env_manager"] == {"type": "base"}
    assert "type" not in main["policy"]
    assert main["policy"]["eval"]["evaluator"]["stop_value"] == 475.0
    assert build([main, create]).cfg == build(some_config()).cfg


def test_the_json_says_who_supplied_what(build: Any, tmp_path: Path) -> None:
    compiled = build(some_config())
    record = json.loads(write_config(compiled, tmp_path / "new" / "run").read_text())
    assert record["dicore"] == __version__
    assert record["components"]["policy"]["dist"] == "toy-parts"
    assert record["components"]["policy.learn.learner.hook[0]"]["type"] == "save_ckpt"
    assert record["origin"]["policy.other.replay_buffer.alpha"] == "config"


def test_writing_again_replaces_and_leaves_nothing_behind(build: Any, tmp_path: Path) -> None:
    write_config(build(seed=1), tmp_path)
    write_config(build(seed=2), tmp_path)
    assert build(tmp_path / JSON).seed == 2
    assert {file.name for file in tmp_path.iterdir()} == set(FORMS)


def test_a_failed_write_leaves_the_old_file_whole(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(build(seed=1), tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_config(build(seed=2), tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == set(FORMS)
    assert [build(tmp_path / form).seed for form in FORMS] == [1, 1, 1]


def test_a_value_that_is_no_plain_data_is_told_before_anything_is_written(build: Any) -> None:
    free = {"x": {1, 2}, "y": [1, {"z": np.zeros(2)}], "fine": (np.float32(1), None)}
    wanted = "expected plain data (None, bool, int, float, str, list, tuple, dict)"
    assert problems_of(build, {**least(), "policy": {"type": "toy", "learn": {"free": free}}}) == (
        f"policy.learn.free.x: {wanted}, got set {{1, 2}}",
        f"policy.learn.free.y[1].z: {wanted}, got ndarray array([0., 0.])",
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(
    free=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(["${env:HOME}", 'it\'s "so"', "1e-3", "no", "# x", "null", "\u2028\x85"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=4) | st.sampled_from(TAGS), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    stop=st.floats(allow_nan=False),
    hidden=st.lists(st.integers(1, 10**12), max_size=4),
    name=st.none() | st.text(),
)
def test_any_config_survives_each_form(
    build: Any, tmp_path: Path, free: Any, stop: float, hidden: list[int], name: str | None
) -> None:
    main = least()
    main["env"]["stop_value"] = stop
    main["policy"] = {"type": "toy", "learn": {"free": {"x": free}, "hidden": hidden}}
    compiled = build({**main, "exp_name": name})
    write_config(compiled, tmp_path)
    tree = saved_tree(compiled)
    for comments in (True, False):
        text = yaml_source(tree, compiled.origin, comments=comments)
        (tmp_path / f"{comments}.yaml").write_text(text, encoding="utf-8")
    for form in (*FORMS, "True.yaml", "False.yaml"):
        again = build(tmp_path / form)
        assert again.cfg == compiled.cfg or "nan" in repr(compiled.cfg)
        assert repr(again.cfg) == repr(compiled.cfg)


@pytest.mark.parametrize(
    "text", ["word " * 400 + "end", "it's " * 400, "two\nlines", "a\r\n\n b\n"]
)
def test_texts_stay_whole_beside_their_origin(text: str) -> None:
    tree = {"note": text, "seed": 1, "names": [text]}
    origin = {"note": "a.yaml:1", "seed": "class RunConfig", "names": "command line"}
    written = yaml_source(tree, origin, comments=True)
    assert yaml.safe_load(written) == tree
    assert all(f"  # {each}\n" in written for each in ("a.yaml:1", "class RunConfig"))
