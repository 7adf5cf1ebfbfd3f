"""FEATURES M1-M3: a control panel: few knobs, from which the other values are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.config import write_config
from dicore.config.reader import read_config, read_file
from dicore.config.writer import JSON
from dicore.data.json_codec import loads
from dicore.errors import ConfigError
from dicore_tools.config_formats.python_form import TOTAL
from tests.core.config.conftest import write

PANEL, PARAMS = "cpanel.json", "params.yaml"
PYTHON = """
import numpy
cpanel = {
    "lr": 1e-3, "workers": 4, "steps": 8, "sizes": (32, 32), "net": {"width": 16}, "note": None,
    "table": numpy.zeros(2, dtype="float32"), "wandb_token": "",
}

def gen_params(cpanel):
    main_config = dict(
        env=dict(stop_value=475, n_evaluator_episode=10),
        policy=dict(
            learn=dict(
                learning_rate=cpanel["lr"],
                batch_size=cpanel["workers"] * cpanel["steps"],
                hidden=list(cpanel["sizes"]),
            ),
            model=cpanel["net"],
        ),
    )
    cpanel["lr"] = "spoilt"
    create_config = dict(env="pole", policy="toy")
    return main_config, create_config
"""
YAML = """
cpanel: {lr: 0.001, runs: here, net: {width: 16}, sizes: [32, 32]}
exp_name: runs/${cpanel.runs}_${cpanel.lr}
env: {type: pole, stop_value: 475, n_evaluator_episode: 10}
policy:
  type: toy
  learn:
    learning_rate: ${cpanel.lr}
    hidden: ${cpanel.sizes}
    free: {literal: "$${cpanel.lr}"}
  model: ${cpanel.net}
"""


def test_derived_values_follow_the_knobs(build: Any, tmp_path: Path) -> None:
    file = write(tmp_path, "panel.py", PYTHON)
    learn = build(file).policy.learn
    assert (learn.learning_rate, learn.batch_size, learn.hidden) == (1e-3, 32, [32, 32])
    turned = build(file, cpanel={"lr": 1, "workers": 2, "net": {"width": 7}, "sizes": [5]})
    learn = turned.policy.learn
    assert (learn.learning_rate, learn.batch_size, learn.hidden) == (1.0, 16, [5])
    assert turned.policy.model.width == 7
    assert turned.cpanel is not None
    assert turned.cpanel["sizes"] == (5,)
    assert turned.cpanel["lr"] == 1.0
    assert turned.origin["policy.learn.learning_rate"] == f"{file}:13"
    assert build(file, overrides=["policy.learn.batch_size=3"]).policy.learn.batch_size == 3


def test_a_dict_with_both_and_a_function_by_hand(build: Any, tmp_path: Path) -> None:
    text = PYTHON.replace(
        "return main_config, create_config",
        "return {'main_config': main_config, 'create_config': create_config}",
    )
    assert build(write(tmp_path, "both.py", text)).policy.learn.batch_size == 32
    names: dict[str, Any] = {}
    exec(PYTHON, names)
    main = {"cpanel": names["cpanel"], "gen_params": names["gen_params"]}
    assert build(main, cpanel={"steps": 2}).policy.learn.batch_size == 8
    one = PYTHON.replace("    return main_config, create_config", "    return main_config")
    one += "\ncreate_config = dict(env='pole', policy='toy')\n"
    main_config, create_config = read_config(write(tmp_path, "one.py", one), {"steps": 1})
    assert main_config["policy"]["learn"]["batch_size"] == 4
    assert create_config == {"env": "pole", "policy": "toy"}


def test_text_files_refer_to_knobs(build: Any, tmp_path: Path) -> None:
    file = write(tmp_path, "panel.yaml", YAML)
    compiled = build(file, cpanel={"lr": 0.5, "sizes": [1]})
    assert compiled.exp_name == "runs/here_0.5"
    assert (compiled.policy.learn.learning_rate, compiled.policy.learn.hidden) == (0.5, [1])
    assert compiled.policy.learn.free["literal"] == "${cpanel.lr}"
    assert compiled.policy.model.width == 16
    assert compiled.origin["policy.learn.learning_rate"] == f"{file}:8"
    toml = (
        'exp_name = "x${cpanel.lr}"\n[cpanel]\nlr = 1e-2\n[env]\ntype = "pole"\nstop_value = 1\n'
        'n_evaluator_episode = 1\n[policy]\ntype = "toy"\n'
        'learn = {learning_rate = "${cpanel.lr}"}\n'
    )
    compiled = build(write(tmp_path, "panel.toml", toml))
    assert (compiled.exp_name, compiled.policy.learn.learning_rate) == ("x0.01", 0.01)


def test_tuples_and_arrays_can_be_written(tmp_path: Path) -> None:
    file = write(tmp_path, "panel.py", PYTHON)
    text = '{"sizes": {"__tuple__": [1, 2]}, "note": {"__tuple__": [3]}, "table": [1, 2, 3]}'
    panel = read_file(file, loads(text)).cpanel
    assert panel is not None
    assert (panel["sizes"], panel["note"]) == ((1, 2), (3,))
    assert panel["table"].dtype == np.float32
    assert panel["table"].tolist() == [1.0, 2.0, 3.0]
    panel = read_file(file, loads('{"sizes": {"__array__": ["int64", [4]]}}')).cpanel
    assert panel is not None
    assert panel["sizes"] == (4,)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"lrr": 1}, "cpanel.lrr: no such parameter; did you mean 'lr'?"),
        ({"net": {"widht": 1}}, "cpanel.net.widht: no such parameter; did you mean 'width'?"),
        ({"zoo": 1}, "cpanel.zoo: no such parameter; expected lr, workers, "),
        ({"lr": "apple"}, "cpanel.lr: expected float, got str 'apple'"),
        ({"workers": 1.5}, "cpanel.workers: expected int, got float 1.5"),
        ({"net": 3}, "cpanel.net: expected dict, got int 3"),
        ({"table": ["x"]}, "cpanel.table: expected an array of float32: "),
        ({"wandb_token": 4711}, "cpanel.wandb_token: expected str, got <redacted>"),
    ],
)
def test_what_cannot_be_turned_is_told(
    build: Any, tmp_path: Path, wanted: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(write(tmp_path, "panel.py", PYTHON), cpanel={**wanted, "steps": "x"})
    assert len(caught.value.problems) == 2
    assert any(line.startswith(said) for line in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "cpanel = {}", "declares cpanel, but no gen_params(cpanel)"),
        ("a.py", "cpanel = 3\ngen_params = dict", "cpanel: expected a section, got int 3"),
        ("a.py", "cpanel = {}\ndef gen_params(c):\n    return 3", "must return main_config"),
        ("a.py", "cpanel = {}\ndef gen_params(c):\n    return c['x']", ":3: KeyError: 'x'"),
        ("a.yaml", "cpanel: 3", "cpanel: expected a section"),
        ("a.yaml", "cpanel: {lr: 1}\nseed: ${cpanel.lrr}", "did you mean 'lr'? ("),
        ("a.yaml", "seed: ${cpanel.lr}", "seed: ${cpanel.lr}: the file has no cpanel ("),
    ],
)
def test_a_panel_that_does_not_do_is_told_why(
    build: Any, tmp_path: Path, name: str, text: str, said: str
) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        build(file)
    assert said in caught.value.message
    assert str(file) in caught.value.message


@pytest.mark.parametrize("main", [{"policy": "toy"}, None])
def test_without_a_panel_there_is_nothing_to_turn(build: Any, main: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no cpanel, but lr is set"):
        build(main, cpanel={"lr": 1})
    file = write(tmp_path, "a.yaml", "seed: 1")
    with pytest.raises(ConfigError, match=r"a.yaml: has no cpanel, but lr is set"):
        build(file, cpanel={"lr": 1})


def test_a_run_keeps_its_knobs_and_is_made_again_without_code(build: Any, tmp_path: Path) -> None:
    file = write(tmp_path, "panel.py", PYTHON)
    compiled = build(file, cpanel={"workers": 3, "wandb_token": "hush"})
    write_config(compiled, tmp_path / "run")
    panel = loads((tmp_path / "run" / PANEL).read_text())
    assert (panel["workers"], panel["sizes"]) == (3, (32, 32))
    assert "hush" not in (tmp_path / "run" / JSON).read_text()
    assert json.loads((tmp_path / "run" / JSON).read_text())["cpanel"]["workers"] == 3
    file.unlink()
    again = build(tmp_path / "run")
    assert again.cfg == compiled.cfg
    assert again.cpanel is not None
    assert again.cpanel["workers"] == 3
    assert build(tmp_path / "run" / TOTAL).cfg == compiled.cfg
    assert build(tmp_path / "run" / PARAMS).cfg == compiled.cfg
    with pytest.raises(ConfigError, match="cannot override `cpanel` in a saved config"):
        build(tmp_path / "run", cpanel={"workers": 4})
