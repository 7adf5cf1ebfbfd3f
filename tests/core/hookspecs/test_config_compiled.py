"""A plugin sees the config before anything is made: as it was said, and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore_registry import using
from tests.core.hookspecs.test_manager import HEAD, add, world
from tests.registry.world import World

__all__ = ["world"]

HOUSE_RULE = f"""
from dicore.errors import ConfigError
{HEAD}
def dicore_config_compiled(cfg, provenance, compiled):
    if cfg.policy.nstep > 2:
        who, said = provenance["policy"]["dist"], compiled.origin["policy.nstep"]
        raise ConfigError(f"policy.nstep: 2 at most in this house; {{who}}, {{said}}")
"""


def test_a_plugin_may_refuse_a_config(world: World, tmp_path: Path) -> None:
    add(world, "house-rules", HOUSE_RULE)
    folder = tmp_path / "run"
    with using(world.registry()):
        with pytest.raises(ConfigError, match=r"2 at most in this house; dicore-plugins, preset"):
            launch(env="cartpole", policy="dqn", exp_name=str(folder))
        assert not folder.exists()
        launch(
            env="cartpole", policy="dqn", exp_name=str(folder), max_env_step=10,
            overrides=["policy.nstep=1", "pipeline.logger=[]"],
        )  # fmt: skip
    assert (folder / "run.json").is_file()


SAID = f"""
from dicore.errors import ConfigError
{HEAD}
def dicore_config_loaded(cfg):
    assert "learner" not in cfg["policy"].get("learn", {{}})  # what nobody said is not there
    wished = cfg["policy"]["learn"]["batch_size"]
    cfg.clear()  # a copy
    if wished == "huge":
        raise ConfigError("policy.learn.batch_size: nothing is huge here")
"""


def test_a_plugin_sees_what_was_said_before_it_is_compiled(world: World, tmp_path: Path) -> None:
    add(world, "house-rules", SAID)
    wishes = {"env": "cartpole", "policy": "dqn", "exp_name": str(tmp_path / "run")}
    with using(world.registry()):
        with pytest.raises(ConfigError, match="nothing is huge here"):
            launch(**wishes, overrides=["policy.learn.batch_size=huge"])
        with pytest.raises(ConfigError, match="expected int, got str 'apple'"):
            launch(**wishes, overrides=["policy.learn.batch_size=apple"])
    assert not (tmp_path / "run").exists()
