"""The JSON Schema of configs: what compiles passes it, common mistakes do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dicore.cli import main
from dicore.config import compile_config, to_dict
from dicore_registry import default
from dicore_tools.commands.config_schema import config_schema
from tests.core.hookspecs.test_manager import world
from tests.registry.world import World

__all__ = ["world"]

CONFIG: dict[str, Any] = {
    "env": {"type": "cartpole", "stop_value": 475.0},
    "policy": {"type": "dqn", "learn": {"batch_size": 64}, "other": {"replay_buffer": "naive"}},
}


@pytest.fixture(scope="module")
def validator() -> Any:
    written = json.loads(json.dumps(config_schema(default()), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(written)
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
    own = [e for e in registry.entries("preset") if e.dist == "dicore-contrib-envs"]
    assert own
    for entry in own:
        if entry.status == "ok":
            validator.validate(registry.load(entry))


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
        ("policy.learn.criterion", "l1"),
        ("policy.discount_factor", 1.5),
        ("seed", -1),
    ],
)
def test_what_may_not(validator: Any, path: str, value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(changed(path, value))


def test_editors_get_meaning_and_default(validator: Any) -> None:
    buffer = validator.schema["$defs"]["buffer.dicore-plugins.naive"]
    assert (
        buffer["description"] == "Stores experience first-in, first-out; samples batches uniformly."
    )
    size = buffer["properties"]["replay_buffer_size"]
    assert (size["type"], size["minimum"], size["default"]) == ("integer", 1, 10_000)
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
