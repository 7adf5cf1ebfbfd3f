"""`dicore show`: options, provider, place; for config classes, signatures, presets and problems."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.registry.world import VERSION, World

CONFIG = '''
"""A policy's config."""

from __future__ import annotations

from typing import Literal

from dicore.config.schema import REQUIRED, Section, component, components, frozen, option, section
from dicore.config.sections import PolicyConfig


@frozen(kw_only=True)
class Deep(Section):
    """A part of a part."""

    rate: float = option(0.5, "share kept", ge=0.0, lt=1.0, unit="rows")
    limit: float = option(float("inf"), "no more than this")


@frozen(kw_only=True)
class MixConfig(PolicyConfig):
    """Mixes what it sees.

    At length.
    """

    size: int = option(REQUIRED, "how much of it", ge=1)
    mode: Literal["soft", "hard"] = option("soft", "how to mix")
    colour: str = option("red", "its look", choices=("red", "blue"))
    deep: Deep = section(Deep)
    judge: object = component("reward_model", help="nobody provides one")
    maybe: object = component("reward_model", optional=True)
    twin: object = component("model", "dqn", "the other network")
    hooks: tuple[object, ...] = components("learner_hook", ("log_show",), "what runs beside it")
'''

SMALL = '''
from dicore_registry import renamed


class Countdown:
    """Count down to zero.

    Args:
        start: Where to begin.
    """

    def __init__(self, start: int = 5, penalty: float = 0.01) -> None: ...


MIXER = renamed("mix", since="0.9")
PRESET = {"env": {"type": "countdown", "start": 3}, "policy": {"type": "mix"}, "seed": 1}
"""The smallest preset."""

def broken(
'''


@pytest.fixture
def acme(world: World) -> World:
    """Returns a world with one package of several kinds."""
    small = SMALL.removesuffix("\ndef broken(\n")
    world.add(
        "acme-rl",
        {
            "dicore.policy": {
                "mix": "acme_rl.mix:MixConfig",
                "boom": "acme_rl.boom:Boom",
                "mixer": "acme_rl.small:MIXER",
            },
            "dicore.env": {"countdown": "acme_rl.small:Countdown", "tennis": "acme_rl.p:P [atari]"},
            "dicore.preset": {"countdown_mix": "acme_rl.small:PRESET"},
            "dicore.model": {"mix": "acme_rl.mix:MixConfig"},
        },
        extras={"atari": ["ale-py-of-the-test"]},
        modules={
            "acme_rl/__init__.py": "",
            "acme_rl/mix.py": CONFIG,
            "acme_rl/small.py": small,
            "acme_rl/boom.py": SMALL,
        },
    )
    return world


def shown(world: World, name: str) -> dict[str, Any]:
    """Returns what `dicore show NAME --json` prints, which is JSON alone."""
    done = world.dicore("show", name, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_config_class_in_json(acme: World) -> None:
    facts = shown(acme, "policy/mix")
    options = {option.pop("path"): option for option in facts.pop("options")}
    file = acme.folder / "acme_rl" / "mix.py"
    line = file.read_text().split("\n").index("class MixConfig(PolicyConfig):") + 1
    assert facts == {
        "kind": "policy",
        "name": "mix",
        "qualified": "acme-rl/mix",
        "status": "ok",
        "reason": "",
        "dist": "acme-rl",
        "version": "1.0",
        "summary": "Mixes what it sees.",
        "target": "acme_rl.mix:MixConfig",
        "file": str(file),
        "line": line,
        "doc": "Mixes what it sees.\n\nAt length.",
        "section": "policy",
        "aliases": ["mixer"],
        "use": "dicore train -e countdown -p mix policy.on_policy=… policy.size=… policy.judge=…",
        "tree": None,
    }
    assert options["policy.size"] == {
        "name": "size",
        "type": "int",
        "default": None,
        "required": True,
        "range": ">= 1",
        "choices": [],
        "unit": "",
        "help": "how much of it",
    }
    assert options["policy.deep.rate"] == {
        "name": "deep.rate",
        "type": "float",
        "default": 0.5,
        "required": False,
        "range": ">= 0, < 1",
        "choices": [],
        "unit": "rows",
        "help": "share kept",
    }
    assert options["policy.deep.limit"]["default"] == "inf"
    assert options["policy.mode"]["choices"] == ["soft", "hard"]
    assert options["policy.colour"]["choices"] == ["red", "blue"]
    assert options["policy.learn.batch_size"]["default"] == 64
    assert "policy.type" not in options


def test_slots_say_what_fills_them(acme: World) -> None:
    options = {option["path"]: option for option in shown(acme, "policy/mix")["options"]}
    twin, hooks = options["policy.twin"], options["policy.hooks"]
    assert (twin["type"], twin["default"]) == ("model", "dqn")
    assert (hooks["type"], hooks["default"]) == ("list of learner_hook", ["log_show"])
    assert options["policy.collect.collector"]["default"] == "sample"
    assert options["policy.judge"]["required"]
    assert (options["policy.maybe"]["required"], options["policy.maybe"]["default"]) == (
        False,
        None,
    )


def test_a_config_class_in_text(acme: World) -> None:
    lines = acme.dicore("show", "policy/mix").stdout.splitlines()
    assert lines[:5] == ["policy/mix", "", "Mixes what it sees.", "", "At length."]
    assert "status     ok" in lines
    assert "package    acme-rl 1.0" in lines
    assert "full name  acme-rl/mix" in lines
    assert "aliases    mixer" in lines
    needed = "policy.on_policy=… policy.size=… policy.judge=…"
    assert f"use        dicore train -e countdown -p mix {needed}" in lines
    assert any(line.startswith("file       /") and ".py:" in line for line in lines)
    rate = next(line for line in lines if line.startswith("policy.deep.rate"))
    assert " ".join(rate.split()) == "policy.deep.rate float 0.5 >= 0, < 1 share kept [rows]"
    assert "required" in next(line for line in lines if line.startswith("policy.size"))
    assert "'soft' or 'hard'" in next(line for line in lines if line.startswith("policy.mode "))


def test_a_plain_class_tells_its_signature(acme: World) -> None:
    options = {option["path"]: option for option in shown(acme, "env/countdown")["options"]}
    start = options["env.start"]
    assert (start["type"], start["default"], start["help"]) == ("int", 5, "Where to begin.")
    assert options["env.penalty"]["type"] == "float"


@pytest.mark.parametrize(
    ("name", "path", "use"),
    [
        ("learner_hook/log_show", "freq", "policy.learn.learner.hook.log_show_after_iter=100"),
        ("learner_hook/load_ckpt", "load_path", "policy.learn.learner.hook.load_ckpt_before_run=…"),
        ("env_wrapper/clip_reward", "", "'env.env_wrapper=[clip_reward]'"),
        (
            "env_wrapper/time_limit",
            "env.env_wrapper[].max_episode_steps",
            "'env.env_wrapper=[{type: time_limit, max_episode_steps: …}]'",
        ),
        ("middleware/data_pusher", "group_by_env", " import data_pusher"),
        ("buffer/naive", "policy.other.replay_buffer.replay_buffer_size", ".replay_buffer=naive"),
    ],
)
def test_an_example_of_use_and_paths_of_options(
    world: World, name: str, path: str, use: str
) -> None:
    facts = shown(world, name)
    assert facts["use"].endswith(use)
    assert not path or path in [option["path"] for option in facts["options"]]


def test_a_preset_shows_its_tree(acme: World) -> None:
    facts = shown(acme, "preset/countdown_mix")
    assert facts["summary"] == facts["doc"] == "The smallest preset."
    assert facts["tree"] == {
        "env": {"type": "countdown", "start": 3},
        "policy": {"type": "mix"},
        "seed": 1,
    }
    text = acme.dicore("show", "preset/countdown_mix").stdout
    assert text.endswith("\nenv.type = 'countdown'\nenv.start = 3\npolicy.type = 'mix'\nseed = 1\n")


def test_a_kind_and_a_command_are_shown_too(world: World) -> None:
    assert shown(world, "kind/policy")["tree"]["section"] == "policy"
    assert shown(world, "command/list")["summary"].startswith("Lists installed components")


def test_first_party(world: World) -> None:
    facts = shown(world, "policy/dqn")
    assert (facts["dist"], facts["version"], facts["status"]) == ("dicore-plugins", VERSION, "ok")
    paths = [option["path"] for option in facts["options"]]
    assert {"policy.learn.batch_size", "policy.discount_factor", "policy.nstep"} <= set(paths)


class TestNames:
    def test_a_name_that_one_kind_has_needs_no_kind_and_may_be_qualified(self, acme: World) -> None:
        assert shown(acme, "countdown")["kind"] == "env"
        assert shown(acme, "policy/Acme_RL/mix")["qualified"] == "acme-rl/mix"

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("policy/mixx", "no policy named 'mixx'; did you mean 'mix'?"),
            ("polcy/mix", "unknown kind 'polcy'; did you mean 'policy'?"),
            ("countdwn", "no component named 'countdwn'; did you mean 'countdown'?"),
            ("qwertz", "no component named 'qwertz' (dicore list)"),
            ("mix", "'mix' exists in 2 kinds; use one of: 'model/mix', 'policy/mix'"),
        ],
    )
    def test_unknown_or_in_two_kinds(self, acme: World, name: str, said: str) -> None:
        done = acme.dicore("show", name)
        assert (done.stderr, done.returncode) == (f"error: {said}\n", 2)

    def test_a_conflict(self, acme: World) -> None:
        acme.add("other-rl", {"dicore.policy": {"mix": "o:M"}})
        done = acme.dicore("show", "policy/mix")
        assert done.returncode == 3
        assert done.stderr == (
            "error: policy 'mix' is provided by 2 packages; "
            "write one of: 'acme-rl/mix', 'other-rl/mix'\n"
        )
        assert shown(acme, "policy/acme-rl/mix")["status"] == "conflict"


class TestProblems:
    def test_an_import_that_fails(self, acme: World) -> None:
        facts = shown(acme, "policy/boom")
        assert facts["status"] == "broken"
        assert facts["reason"].startswith(
            "policy 'boom' (acme-rl 1.0) failed to import acme_rl.boom: SyntaxError: "
        )
        assert facts["options"] == []

    def test_a_missing_extra(self, acme: World) -> None:
        facts = shown(acme, "env/tennis")
        assert (facts["status"], facts["reason"]) == (
            "unavailable",
            "needs ale-py-of-the-test: pip install 'acme-rl[atari]'",
        )

    def test_a_retired_name(self, acme: World) -> None:
        acme.add(
            "ret-rl",
            {"dicore.policy": {"old": "ret_rl:old"}},
            modules={
                "ret_rl.py": "from dicore_registry import renamed\nold = renamed('mix', since='2')"
            },
        )
        facts = shown(acme, "policy/old")
        assert (facts["status"], facts["reason"]) == ("deprecated", "renamed to 'mix' in 2")


MODULES = {
    "plug_rl.py": """
        from dicore.hookspecs import hookimpl

        @hookimpl
        def dicore_report_header(run): return []
        """,
    "odd_rl.py": """
        def dicore_report_header(run): return []
        NUMBER = int("3")
        class Base:
            '''Says what the base is.'''
        class Heir(Base): ...

        class Number:
            __doc__ = 3

        class Red:
            '''Is \\x1b[31mred.'''
        """,
    "bad_kind.py": "1 / 0",
    "closed_rl.py": """
        class Meta(type):
            def __getattribute__(cls, name): raise RuntimeError("no " + name)

        class Closed(metaclass=Meta): ...
        """,
}


@pytest.mark.parametrize(
    ("name", "status", "rest"),
    [
        ("plugin/good", "ok", {"tree": {"hooks": ["dicore_report_header"]}}),
        ("plugin/bad", "broken: dicore_report_header is not marked with @hookimpl", {}),
        ("api/number", "ok", {}),
        ("policy/number", "broken: policy 3 is neither a class nor a function", {"doc": ""}),
        ("buffer/heir", "ok", {"doc": "", "summary": ""}),
        ("buffer/counted", "ok", {"doc": "3"}),
        ("buffer/closed", "broken: RuntimeError: no __class__", {}),
        ("buffer/red", "ok", {"doc": "Is \x1b[31mred."}),
        (
            "lost/it",
            "broken: kind 'lost' (odd-rl 1.0) failed to import bad_kind:"
            " ZeroDivisionError: division by zero",
            {},
        ),
    ],
)
def test_what_is_no_class_with_options(
    world: World, name: str, status: str, rest: dict[str, Any]
) -> None:
    groups = {
        "dicore.plugin": {"good": "plug_rl", "bad": "odd_rl"},
        "dicore.api": {"number": "odd_rl:NUMBER"},
        "dicore.policy": {"number": "odd_rl:NUMBER"},
        "dicore.buffer": {
            "heir": "odd_rl:Heir", "counted": "odd_rl:Number", "closed": "closed_rl:Closed",
            "red": "odd_rl:Red",
        },
        "dicore.kind": {"lost": "bad_kind:LOST"},
        "dicore.lost": {"it": "odd_rl:Heir"},
    }  # fmt: skip
    world.add("odd-rl", groups, modules=MODULES)
    facts = shown(world, name)
    reason = facts["reason"].removeprefix("plugin 'bad' (odd-rl 1.0): ")
    assert ": ".join(filter(None, (facts["status"], reason))) == status
    assert {key: facts[key] for key in rest} == rest
    assert "\x1b" not in world.dicore("show", name).stdout


def test_what_an_import_prints_is_no_answer(world: World) -> None:
    world.add(
        "loud-rl",
        {"dicore.policy": {"loud": "loud_rl:Loud"}},
        modules={"loud_rl.py": "print('hello')\nclass Loud:\n    '''Loud.'''\n"},
    )
    done = world.dicore("show", "policy/loud", "--json")
    assert json.loads(done.stdout)["summary"] == "Loud."
    assert done.stderr == "hello\n"


def test_types_that_may_be_none_are_written_alike(world: World) -> None:
    text = """
    from typing import List, Optional, Union

    class Gate:
        def __init__(
            self, a: int | None = None, b: Optional[int] = None, c: int = None,
            d: Union[int, str] = 1, e: list[int] | None = None,
        ) -> None: ...
    """
    world.add("gates", {"dicore.env": {"gate": "gates:Gate"}}, modules={"gates.py": text})
    done = world.dicore("show", "env/gate", "--json")
    options = json.loads(done.stdout)["options"]
    assert [(each["name"], each["type"]) for each in options if each["name"] in tuple("abcde")] == [
        ("a", "int or None"),
        ("b", "int or None"),
        ("c", "int or None"),
        ("d", "int or str"),
        ("e", "list[int] or None"),
    ]
