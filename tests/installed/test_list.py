"""`dicore list`: what it prints, what it filters, and what it never imports."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.registry.world import MAIN, VERSION, World

FORBIDDEN = {
    *("attrs", "attr", "torch", "numpy", "pluggy", "gymnasium", "gym", "rich", "tensorboardX"),
    *("yaml", "optree", "dicore_plugins", "dicore_contrib_envs", "dicore.config"),
    *("acme_rl", "boom_rl"),
}


def rows(world: World, *words: str, **changes: str) -> list[dict[str, Any]]:
    """Returns what `dicore list … --json` prints, which is JSON alone."""
    done = world.dicore("list", *words, "--json", **changes)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def foreign(world: World) -> World:
    """Returns a world with one good, one raising and one misspelt package."""
    world.add(
        "acme-rl",
        {
            "dicore.policy": {"tedq": "acme_rl.tedq:TEDQ"},
            "dicore.polcy": {"vmpo": "acme_rl.tedq:VMPO"},
        },
        version="1.2",
        modules={
            "acme_rl/__init__.py": "",
            "acme_rl/tedq.py": 'class TEDQ:\n    """Randomized ensemble of critics."""\n',
        },
    )
    world.add(
        "boom-rl",
        {"dicore.policy": {"boom": "boom_rl:Boom"}},
        modules={
            "boom_rl/__init__.py": 'class Boom:\n    """Goes off."""\nraise RuntimeError("x")'
        },
    )
    return world


def test_json_has_these_keys_and_values(foreign: World) -> None:
    found = {row["qualified"]: row for row in rows(foreign)}
    assert found["acme-rl/tedq"] == {
        "kind": "policy",
        "name": "tedq",
        "qualified": "acme-rl/tedq",
        "status": "ok",
        "reason": "",
        "dist": "acme-rl",
        "version": "1.2",
        "summary": "Randomized ensemble of critics.",
        "target": "acme_rl.tedq:TEDQ",
    }
    assert found["acme-rl/vmpo"]["status"] == "broken"
    assert found["acme-rl/vmpo"]["reason"] == (
        "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"
    )
    assert found["dicore-plugins/dqn"]["version"] == VERSION
    assert found["boom-rl/boom"]["summary"] == "Goes off."
    assert found["boom-rl/boom"]["status"] == "ok"


def test_the_table_ends_with_a_count_and_the_problems(foreign: World) -> None:
    lines = foreign.dicore("list").stdout.splitlines()
    assert lines[0].split() == ["KIND", "NAME", "STATUS", "PACKAGE", "VERSION", "SUMMARY"]
    tedq = next(line for line in lines if " tedq " in line)
    assert tedq.split(maxsplit=5) == [
        "policy", "tedq", "ok", "acme-rl", "1.2", "Randomized ensemble of critics."
    ]  # fmt: skip
    assert lines[-2] == f"{len(rows(foreign))} components, 1 problem (dicore doctor)"
    assert lines[-1] == (
        "polcy/vmpo (acme-rl 1.2): broken: "
        "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"
    )


def test_one_kind(foreign: World) -> None:
    assert {row["kind"] for row in rows(foreign, "policy")} == {"policy"}
    assert {row["kind"] for row in rows(foreign, "learner-hook")} == {"learner_hook"}
    assert {"policy", "env"} <= {row["name"] for row in rows(foreign, "kind")}


def test_filters(foreign: World) -> None:
    assert [row["name"] for row in rows(foreign, "--dist", "Acme_RL")] == ["vmpo", "tedq"]
    assert [row["name"] for row in rows(foreign, "--status", "broken")] == ["vmpo"]
    assert [row["name"] for row in rows(foreign, "--match", "^policy/TE|^acme-rl/te")] == ["tedq"]
    assert rows(foreign, "policy", "--dist", "acme-rl", "--status", "broken") == []


def test_all_that_a_package_declares(foreign: World) -> None:
    groups = {
        "dicore.plugin": {"host": "more_rl"}, "dicore.api": {"tune": "more_rl:tune"},
        "dicore.default": {"policy": "tedq"}, "dicore.kind": {"role": "more_rl:ROLE"},
    }  # fmt: skip
    info = foreign.add("more-rl", groups)
    found = [(row["kind"], row["name"]) for row in rows(foreign, "--package", "more-rl")]
    assert found == [("api", "tune"), ("default", "policy"), ("kind", "role"), ("plugin", "host")]
    assert [row["name"] for row in rows(foreign, "plugin", "--package", "more-rl")] == ["host"]
    (info / "entry_points.txt").write_text("[dicore.plugin\nhost = more_rl\n")
    done = foreign.dicore("list", "--package", "more-rl")
    assert done.stderr == (
        "error: package 'more-rl' provides no components\n"
        "  hint: entry_points.txt is damaged at '[dicore.plugin'; reinstall it\n"
    )
    end = "\nmore-rl: entry_points.txt is damaged at '[dicore.plugin'\n"
    assert foreign.dicore("list").stdout.endswith(end)
    assert "more-rl" not in foreign.dicore("list", "--package", "acme-rl").stdout


def test_a_constant_is_among_the_broken(foreign: World) -> None:
    foreign.add("con-rl", {"dicore.policy": {"con": "con_rl:X"}}, modules={"con_rl.py": "X = 3\n"})
    assert [row["name"] for row in rows(foreign, "policy", "--status", "broken")] == ["con"]
    assert "con" not in [row["name"] for row in rows(foreign, "policy", "--status", "ok")]


def test_load_finds_what_breaks(foreign: World) -> None:
    found = {row["name"]: row for row in rows(foreign, "policy", "--load")}
    assert found["boom"]["status"] == "broken"
    assert found["boom"]["reason"] == (
        "policy 'boom' (boom-rl 1.0) failed to import boom_rl: RuntimeError: x"
    )
    assert found["tedq"]["status"] == "ok"


def test_conflicts_and_switches_show(foreign: World) -> None:
    foreign.add("other-rl", {"dicore.policy": {"tedq": "o:S", "dqn": "o:D"}})
    assert {row["status"] for row in rows(foreign, "--match", "^tedq$")} == {"conflict"}
    statuses = {r["dist"]: r["status"] for r in rows(foreign, "policy", "--match", "policy/dqn$")}
    assert statuses == {"dicore-plugins": "ok", "other-rl": "shadowed"}
    alone = rows(foreign, "policy", DICORE_NO_PLUGINS="1")
    assert {row["status"] for row in alone if row["dist"] == "acme-rl"} == {"disabled"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["polcy"], "unknown kind 'polcy'; did you mean 'policy'?"),
        (
            ["--dist", "acme-lr"],
            "no installed package 'acme-lr' provides components; did you mean 'acme-rl'?",
        ),
        (  # also where nothing is left to look at
            ["--status", "shadowed", "--dist", "acme-lr"],
            "no installed package 'acme-lr' provides components; did you mean 'acme-rl'?",
        ),
        (
            ["--match", "("],
            "--match: '(' is not a regular expression: "
            "missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_bad_words_end_with_2(foreign: World, words: list[str], said: str) -> None:
    done = foreign.dicore("list", *words)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"error: {said}\n", 2)


def test_an_unknown_status_ends_with_2(world: World) -> None:
    done = world.dicore("list", "--status", "brokn")
    assert done.returncode == 2
    assert "'brokn' is not one of 'ok'" in done.stderr


class TestRootAlone:
    def test_it_says_which_package_brings_the_algorithms(self, bare: World) -> None:
        done = run_alone(bare, "list")
        assert done.splitlines()[-1] == (
            "no policy is installed; 'dicore-plugins' provides some: pip install dicore-plugins"
        )
        assert "command  list" in done

    def test_so_does_an_empty_kind(self, bare: World) -> None:
        assert run_alone(bare, "list", "env") == (
            "no components, no problems\n"
            "no env is installed; 'dicore-contrib-envs' provides some: "
            "pip install dicore-contrib-envs\n"
        )


def run_alone(world: World, *words: str) -> str:
    """Runs `dicore` where the other two distributions are hidden, though the tree holds them."""
    code = (
        "import importlib.metadata as m, sys\n"
        "every = m.distributions\n"
        "others = ('dicore-plugins', 'dicore-contrib-envs')\n"
        "m.distributions = lambda: (d for d in every() if d.name not in others)\n" + MAIN
    )
    done = world.python(code, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"], ["list", "-h"]])
def test_nothing_heavy_and_no_component_is_imported(foreign: World, words: list[str]) -> None:
    code = (
        "import sys; from dicore.cli import main; code = main()\n"
        "sys.stderr.write(' '.join(sys.modules)); sys.exit(code)"
    )
    done = foreign.python(code, *words)
    assert done.returncode == 0
    modules = set(done.stderr.split())
    assert "dicore_registry.registry" in modules
    assert not modules & FORBIDDEN


def test_what_an_import_does_is_no_part_of_the_list(world: World) -> None:
    texts = {
        "prints": "print('hello')\nclass Part:\n    pass\n",
        "writes": "import os\nos.write(1, b'{\"a\": 1}\\n')\nclass Part:\n    pass\n",
        "leaves": "import os\nos._exit(5)\n",
        "odd": "class Odd(BaseException):\n    pass\nraise Odd('of its own')\n",
        "mute": "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E\n",
        "lingers": (
            "import subprocess, sys, threading\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(250)'])\n"
            "threading.Thread(target=threading.Event().wait, args=(250,)).start()\n"
            "class Part:\n    pass\n"
        ),
    }
    groups = {"dicore.policy": {name: f"{name}_rl:Part" for name in texts}}
    modules = {f"{name}_rl.py": text for name, text in texts.items()}
    world.add("acme-rl", groups, modules=modules)
    before = time.perf_counter()
    found = {row["name"]: row for row in rows(world, "policy", "--load", "--dist", "acme-rl")}
    assert time.perf_counter() - before < 200  # what an import started does not keep the list
    said = {name: row["reason"].partition("failed to import ")[2] for name, row in found.items()}
    assert said == {
        "prints": "",
        "writes": "",
        "lingers": "",
        "leaves": "leaves_rl: its import ended the process with 5",
        "odd": "odd_rl: Odd: of its own",
        "mute": "mute_rl: E",
    }


@pytest.mark.parametrize("words", [["list"], ["--version"], ["config", "schema"]])
def test_output_that_nobody_can_write_is_one_error(words: list[str]) -> None:
    """R-F12: `dicore list > file` where the disk is full."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    said = "error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)
