"""The messages people see, word for word and with real paths, as compiling a config gives them."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import compile_config
from dicore.errors import DicoreError
from dicore_registry import Registry
from tests.registry.world import VERSION, World

RUN = {
    "env": {"type": "cartpole", "stop_value": 475.0, "n_evaluator_episode": 5},
    "policy": {"type": "dqn"},
}


@pytest.fixture
def world(world: World) -> World:
    for name in ("acme", "other"):
        world.add(f"{name}-rl", {"dicore.policy": {"tedq": f"{name}_rl:TEDQ"}})
    world.add(
        "boom-rl",
        {"dicore.policy": {"boom": "boom_rl:Boom"}},
        modules={"boom_rl.py": "raise RuntimeError('libfoo.so: undefined symbol')"},
    )
    world.add(
        "old-rl", {"dicore.policy": {"old": "old_rl:O"}}, version="2.0", requires=["dicore<0.1"]
    )
    world.add(
        "tennis-envs", {"dicore.env": {"tennis": "tennis:Tennis [atari]"}}, version="0.1.0",
        extras={"atari": ["no-such-ale"]},
    )  # fmt: skip
    return world


def said(registry: Registry, *changes: str) -> list[str]:
    """Returns the lines of what compiling says with these overrides."""
    with pytest.raises(DicoreError) as caught:
        compile_config(RUN, overrides=list(changes), registry=registry)
    return caught.value.message.splitlines()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("policy.type=dqnn", "policy.type: no policy named 'dqnn'; did you mean 'dqn'?"),
        ("env.type=dqn", "env.type: no env named 'dqn'; 'dqn' is a policy and a model"),
        (
            "env.type=tennis",
            "env.type: env 'tennis' (tennis-envs 0.1.0) is unavailable: needs no-such-ale: "
            "pip install 'tennis-envs[atari]'",
        ),
        (
            "policy.type=tedq",
            "policy.type: policy 'tedq' is provided by 2 packages; write one of: 'acme-rl/tedq', "
            "'other-rl/tedq'",
        ),
        (
            "policy.type=boom",
            "policy.type: policy 'boom' (boom-rl 1.0) failed to import boom_rl: RuntimeError: "
            "libfoo.so: undefined symbol",
        ),
        (
            "policy.type=old",
            f"policy.type: policy 'old' (old-rl 2.0) is incompatible: needs dicore<0.1 "
            f"(installed: {VERSION})",
        ),
        (
            "policy.other.replay_buffer.type=prio",
            "policy.other.replay_buffer.type: no buffer named 'prio'; installed: "
            "{buffers} (dicore list buffer)",
        ),
        (
            "policy.learn.lerning_rate=1",
            "policy.learn.lerning_rate: policy 'dqn' has no option 'learn.lerning_rate'; "
            "did you mean 'learning_rate'?",
        ),
        (
            "policy.learn.criterion=soft",
            "policy.learn.criterion: expected one of 'huber', 'mse', got 'soft'",
        ),
        (
            "policy.model.encoder_hidden_size_list=[8,'x']",
            "policy.model.encoder_hidden_size_list[1]: expected int, got str 'x'",
        ),
    ],
)
def test_a_message(world: World, change: str, message: str) -> None:
    registry = world.registry()
    buffers = ", ".join(entry.name for entry in registry.entries("buffer"))
    assert said(registry, change) == [message.replace("{buffers}", buffers)]


def test_a_plain_class_where_a_config_class_is_needed(world: World) -> None:
    world.add(
        "plain-rl",
        {"dicore.policy": {"plain": "plain_rl:Plain"}},
        modules={"plain_rl.py": "class Plain:\n    def __init__(self, size: int = 1): ...\n"},
    )
    assert said(world.registry(), "policy.type=plain") == [
        "policy.type: policy 'plain' needs a config class derived from PolicyConfig"
    ]


def test_known_but_not_installed(world: World) -> None:
    kept = [d for d in world.distributions() if d.metadata["Name"] != "dicore-contrib-envs"]
    assert said(Registry(kept, environ={}))[0] == (
        "env.type: no env named 'cartpole'; it is provided by 'dicore-contrib-envs': "
        "pip install dicore-contrib-envs"
    )


def test_a_missing_type(world: World) -> None:
    config: dict[str, Any] = {"env": RUN["env"], "policy": {"learn": {"batch_size": 4}}}
    with pytest.raises(DicoreError) as caught:
        compile_config(config, registry=world.registry())
    assert "policy: missing 'type' (see 'dicore list policy')" in caught.value.message.splitlines()


def test_all_mistakes_at_once(world: World) -> None:
    found = said(
        world.registry(), "env.type=tennis", "policy.learn.batch_size=apple", "polcy.x=1",
        "policy.other.replay_buffer.type=prio",
    )  # fmt: skip
    paths = [line.partition(":")[0] for line in found]
    assert set(paths) >= {
        "env.type",
        "policy.learn.batch_size",
        "policy.other.replay_buffer.type",
        "polcy",
    }
