"""FEATURES E20: several buffers, each with its own settings."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

from dicore.config import NamedConfig, bind, flatten, write_config
from dicore.config.writer import JSON
from dicore.interfaces.env import EnvSpec
from dicore_tools.config_formats.python_form import FORMATTED, TOTAL
from tests.core.config import toy_parts as toy
from tests.core.config.conftest import least, problems_of

TWO = {"agent": {"size": 5}, "demo": {"type": "heap", "alpha": 0.5}}


def other(buffers: Any) -> dict[str, Any]:
    return {**least(), "policy": {"type": "toy", "other": {"replay_buffer": buffers}}}


def test_each_buffer_has_its_own_settings(build: Any) -> None:
    compiled = build(other(TWO))
    buffers = compiled.policy.other.replay_buffer
    assert isinstance(buffers, NamedConfig)
    assert buffers.keys() == ("agent", "demo")
    assert buffers.agent == buffers["agent"] == toy.RingConfig(type="ring", size=5)
    assert buffers.demo == toy.HeapConfig(type="heap", alpha=0.5)
    assert compiled.components["policy.other.replay_buffer.demo"]["type"] == "heap"
    assert compiled.origin["policy.other.replay_buffer.agent.size"] == "config"
    assert flatten(compiled.cfg)["policy.other.replay_buffer.demo.alpha"] == 0.5


@pytest.mark.parametrize(
    "path", ["replay_buffer", "policy.replay_buffer", "policy.other.replay_buffer"]
)
def test_an_override_of_one_arrives_and_leaves_the_other(build: Any, path: str) -> None:
    compiled = build(other(TWO), overrides=[f"{path}.demo.alpha=0.25"])
    buffers = compiled.policy.other.replay_buffer
    assert (buffers.demo.alpha, buffers.agent.size) == (0.25, 5)
    assert compiled.origin["policy.other.replay_buffer.demo.alpha"] == "command line"
    changed = build(other(TWO), overrides=[f"{path}.demo=ring", f"{path}.agent=null"])
    assert changed.policy.other.replay_buffer.keys() == ("demo",)
    assert changed.policy.other.replay_buffer.demo == toy.RingConfig(type="ring")


def test_create_config_and_bare_names(build: Any) -> None:
    compiled = build(least(), {"replay_buffer": {"agent": "ring", "demo": "heap"}})
    assert [buffer.type for buffer in vars_of(compiled)] == ["ring", "heap"]
    fresh = build(overrides=["replay_buffer.demo.size=3", "replay_buffer.agent.size=4"])
    assert [buffer.size for buffer in vars_of(fresh)] == [3, 4]


def vars_of(compiled: Any) -> list[Any]:
    buffers = compiled.policy.other.replay_buffer
    return [buffers[name] for name in buffers.keys()]  # noqa: SIM118 - a section is no dict


def test_one_type_above_several_and_several_above_one(build: Any) -> None:
    assert build(other(TWO), overrides=["replay_buffer=heap"]).policy.other.replay_buffer == (
        toy.HeapConfig(type="heap")
    )
    both = build(other("heap"), overrides=["replay_buffer.demo.size=3"])
    assert both.policy.other.replay_buffer.keys() == ("demo",)


@pytest.mark.parametrize("said", ["replay_buffer.demo2=ring", "replay_buffer.demo2.type=ring"])
def test_one_more_of_a_similar_name_says_its_type(build: Any, said: str) -> None:
    more = build(other(TWO), overrides=[said]).policy.other.replay_buffer
    assert more.keys() == ("agent", "demo", "demo2")
    assert more.demo2 == toy.RingConfig(type="ring")


@pytest.mark.parametrize("form", [JSON, TOTAL, FORMATTED])
def test_they_survive_every_form_and_a_process_border(
    build: Any, tmp_path: Path, form: str
) -> None:
    compiled = bind(build(other(TWO)), EnvSpec(4, "discrete"))
    write_config(compiled, tmp_path)
    again = build(tmp_path / form)
    assert again.cfg == compiled.cfg
    assert again.components == compiled.components
    assert build(compiled).cfg == compiled.cfg
    assert ForkingPickler.loads(ForkingPickler.dumps(compiled.cfg)) == compiled.cfg


def test_they_are_built_by_name(build: Any) -> None:
    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def build(self, ctx: Any, **parts: Any) -> str:
            return f"{self.name} {ctx}"

    buffers = build(other(TWO)).policy.other.replay_buffer
    fakes = type(buffers)(agent=Fake("a"), demo=Fake("d"))
    assert fakes.build("ctx") == {"agent": "a ctx", "demo": "d ctx"}


@pytest.mark.parametrize(
    ("buffers", "override", "problem"),
    [
        (
            TWO,
            "replay_buffer.size=3",
            "policy.other.replay_buffer.size: "
            "ambiguous, several are configured (agent, demo); write"
            " policy.other.replay_buffer.agent.size",
        ),
        (
            TWO,
            "replay_buffer.dmeo.size=3",
            "policy.other.replay_buffer.dmeo: unknown name; expected agent, demo; did you mean "
            "'demo'?",
        ),
        (
            TWO,
            "replay_buffer.demo.alhpa=0.1",
            "policy.other.replay_buffer.demo.alhpa: buffer 'heap' has no option 'alhpa'; did you"
            " mean 'alpha'?",
        ),
        (
            TWO,
            "replay_buffer.demo.alpha=7",
            "policy.other.replay_buffer.demo.alpha: must be <= 1, got 7.0",
        ),
        (
            {"keys": {}, "demo": {}},
            "seed=1",
            "policy.other.replay_buffer.keys: 'keys' is reserved and cannot name a component",
        ),
        (
            {"sizes": {"a": 1}},
            "seed=1",
            "policy.other.replay_buffer.sizes: buffer 'ring' has no option 'sizes'; did you mean"
            " 'size'?",
        ),
        (
            {"agent": 3, "demo": {}},
            "seed=1",
            "policy.other.replay_buffer.agent: buffer 'ring' has no option 'agent'",
        ),
        (
            {"agent": {"type": "rng"}, "demo": {}},
            "seed=1",
            "policy.other.replay_buffer.agent.type: no buffer named 'rng'; did you mean 'ring'?",
        ),
    ],
)
def test_what_cannot_be_meant_is_told(
    build: Any, buffers: Any, override: str, problem: str
) -> None:
    assert problem in problems_of(build, other(buffers), overrides=[override])
