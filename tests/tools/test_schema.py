"""The JSON Schema of configs: what compiles passes it, common mistakes do not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dicore.cli import main
from dicore.config import compile_config, to_dict
from dicore.config.reader import read_config
from dicore.config.schema import Section, fields_of, frozen, option
from dicore.errors import ConfigError, UsageError
from dicore_registry import default
from dicore_tools.commands.config_schema import _leaf, config_schema
from dicore_tools.config_formats.editor_schema import FILE, write_schema
from tests.core.hookspecs.test_manager import world
from tests.registry.world import World
from tests.soak import some

__all__ = ["world"]

CONFIG: dict[str, Any] = {
    "env": {"type": "cartpole", "stop_value": 475.0},
    "policy": {"type": "dqn", "learn": {"batch_size": 64}, "other": {"replay_buffer": "naive"}},
}


@pytest.fixture(scope="module")
def validator() -> Any:
    written = json.loads(json.dumps(config_schema(default()), allow_nan=False))
    parts = dict(some([*written["$defs"].items()], 40, "parts"))  # one per component
    jsonschema.Draft202012Validator.check_schema({**written, "$defs": parts})
    return jsonschema.Draft202012Validator(written)


def changed(path: str, value: Any) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(json.dumps(CONFIG))
    *above, key = path.split(".")
    section = config
    for name in above:
        section = section.setdefault(name, {})
    section[key] = value
    return config


def test_presets_pass(validator: Any) -> None:
    registry = default()
    own = [e for e in registry.entries("preset") if e.dist.startswith("dicore-")]
    assert own
    for entry in some(own, 25, "schema"):
        if entry.status == "ok":
            validator.validate(registry.load(entry))


def test_a_choice_may_be_none_where_its_type_says_so() -> None:
    @frozen(kw_only=True)
    class Chosen(Section):
        either: str | None = option(None, choices=("a", "b"))
        one: str = option("a", choices=("a", "b"))

    for name, valid in (("either", True), ("one", False)):
        checker = jsonschema.Draft202012Validator(_leaf(fields_of(Chosen)[name]))
        assert checker.is_valid(None) == valid


def test_a_whole_compiled_config_passes(validator: Any) -> None:
    whole = to_dict(compile_config(preset="cartpole_dqn").cfg)
    plain = json.loads(json.dumps(whole, default=list).replace("Infinity", '"inf"'))
    validator.validate(plain)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy.type", "dicore-plugins/dqn"),
        ("policy.type", "./mine.py:Mine"),
        ("env.type", "CartPole-v1"),
        ("env.stop_value", "inf"),
        ("policy.other.replay_buffer", {"type": "naive", "replay_buffer_size": 5}),
        ("policy.other.replay_buffer", "./mine.py:Mine"),
        ("policy.nstep", 3),
        ("pipeline", {"type": "serial", "logger": ["console", {"type": "tensorboard"}]}),
    ],
)
def test_what_may_be_written(validator: Any, path: str, value: Any) -> None:
    validator.validate(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy.type", "dqnn"),
        ("polcy", {}),
        ("policy.learn.batch_size", "apple"),
        ("policy.learn.batch_size", 0),
        ("policy.learn.lerning_rate", 0.1),
        ("policy.other.replay_buffer", {"type": "naive", "size": 5}),
        ("policy.learn.optimizer", {"type": "adam", "learner": {}}),
        ("policy.learn.criterion", "l1"),
        ("policy.discount_factor", 1.5),
        ("seed", -1),
    ],
)
def test_what_may_not(validator: Any, path: str, value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("env.env_wrapper", "frame_stack"),
        ("env.env_wrapper", {"type": "frame_stack"}),
        ("env.env_wrapper", None),
        ("env.env_manager", "base"),
        ("env.manager", None),
        ("env.stop_value", ".inf"),
        ("policy.model", None),
        ("policy.eval", None),
        ("policy.model", {"type": "dqn", "encoder_hidden_size_list": "64,64"}),
        ("policy.learn.learning_rate", "1e-3"),
        ("policy.learn.learning_rate", "nan"),
        ("policy.learn.learning_rate", "${env:A_NUMBER}"),
        ("policy.learn.learning_rate", "apple"),
        ("policy.learn.batch_size", "1e2"),
        ("policy.learn.batch_size", "64"),
        ("policy.learn.batch_size", "${env:A_NUMBER}"),
        ("policy.learn.batch_size", 64.5),
        ("policy.learn.ignore_done", "${env:A_SWITCH}"),
        ("policy.learn.ignore_done", "true"),
        ("policy.learn.criterion", None),
        ("policy.learn.nstep", 3),
        ("policy.batch_size", 64),
        ("policy.replay_buffer", "naive"),
        ("evaluator", {"n_episode": 5}),
        ("pipeline", None),
        ("seed", None),
    ],
)
def test_it_agrees_with_the_compiler(
    validator: Any, path: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_NUMBER", "32")
    monkeypatch.setenv("A_SWITCH", "true")
    config = changed(path, value)
    try:
        compile_config(config)
        compiles = True
    except ConfigError:
        compiles = False
    assert validator.is_valid(config) == compiles


def test_none_stands_where_another_name_gives_the_value(validator: Any) -> None:
    config = changed("env.n_evaluator_episode", None)
    config["policy"]["eval"] = {"evaluator": {"n_episode": 5}}
    assert compile_config(config).cfg.env.n_evaluator_episode == 5
    validator.validate(config)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(changed("env.collector_env_num", None))


def test_editors_get_meaning_and_default(validator: Any) -> None:
    buffer = validator.schema["$defs"]["buffer.dicore-plugins.naive"]
    assert (
        buffer["description"] == "Stores experience first-in, first-out; samples batches uniformly."
    )
    size = buffer["properties"]["replay_buffer_size"]
    assert size["type"] == ["integer", "string"], "text as `1e5`"
    assert (size["minimum"], size["default"]) == (1, 10_000)
    assert size["description"].startswith("capacity in samples")
    assert validator.schema["properties"]["seed"]["default"] == 0


def test_what_cannot_be_loaded_is_known_by_name(world: World) -> None:
    groups = {"dicore.buffer": {"far": "far_rl:Far [remote]", "broken": "no_such_module:Part"}}
    world.add("far-rl", groups, extras={"remote": ["no-such-dist"]})
    registry = world.registry()
    (far,) = (each for each in registry.entries("buffer") if each.name == "far")
    assert far.status == "unavailable"
    written = config_schema(registry)["$defs"]
    assert {"far", "broken", "naive"} <= set(written["kind.buffer"]["anyOf"][0]["anyOf"][0]["enum"])
    assert "buffer.dicore-plugins.naive" in written
    assert not {"buffer.far-rl.far", "buffer.far-rl.broken"} & set(written)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dicore.json"
    assert main(["config", "schema", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert json.loads(out.read_text())["title"] == "dicore config"
    assert main(["config", "schema", "--out", str(tmp_path)]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("preset", ["cartpole_dqn", "pendulum_sac", "cartpole_ppo"])
def test_a_written_config_names_a_schema_that_it_follows(
    preset: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"mine.{form}"
    assert main(["config", "show", preset, "-o", str(file)]) == 0
    assert "written" in capsys.readouterr().out
    text = file.read_text()
    named = re.search(r'\$schema(?:=|": "\./)([\w.]+)', text.split("\n\n")[0])
    assert named is not None
    schema = json.loads((tmp_path / named[1]).read_text())
    tree = json.loads(text) if form == "json" else yaml.safe_load(text)
    jsonschema.Draft202012Validator(schema).validate(tree)
    tree["policy"]["learn"]["lerning_rate"] = 0.1
    assert not jsonschema.Draft202012Validator(schema).is_valid(tree)
    wanted = to_dict(compile_config(preset=preset).cfg)
    assert to_dict(compile_config(str(file)).cfg) == wanted


@pytest.mark.parametrize("form", ["yaml", "json", "toml"])
def test_a_schema_line_is_ignored(form: str, tmp_path: Path) -> None:
    text = {"yaml": '"$schema": x\nseed: 3\n', "json": '{"$schema": "x", "seed": 3}',
            "toml": '#:schema ./x\n"$schema" = "x"\nseed = 3\n'}[form]  # fmt: skip
    file = tmp_path / f"mine.{form}"
    file.write_text(text)
    assert read_config(file) == ({"seed": 3}, {})


def test_a_schema_beside_is_replaced_only_if_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text('{"title": "mine"}')
    with pytest.raises(UsageError, match="not a schema of dicore"):
        write_schema(tmp_path)
    file.write_text('{"title": "dicore config", "$comment": "dicore 0.0.1"}')
    write_schema(tmp_path)
    written = file.stat().st_mtime_ns
    assert json.loads(file.read_text())["$comment"].startswith("dicore ")
    write_schema(tmp_path)
    assert file.stat().st_mtime_ns == written, "that of the installed packages stays"


@pytest.mark.parametrize(
    ("name", "error"), [("mine.txt", "not a .yaml or .json file"), ("is.yaml", "exists")]
)
def test_a_file_that_cannot_be_written_is_refused(
    name: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "is.yaml").write_text("mine")
    assert main(["config", "show", "cartpole_dqn", "-o", str(tmp_path / name)]) == 2
    assert error in capsys.readouterr().err
    assert (tmp_path / "is.yaml").read_text() == "mine"
