"""REGISTRY R13: a config names who supplied each part, and `locked` refuses any other."""

from __future__ import annotations

import importlib.metadata
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dicore.config import compile_config, differences, write_config
from dicore.errors import ConfigError, ConfigWarning, RegistryError
from dicore_registry import Registry
from tests.core.config.conftest import ENTRIES, PARTS, least, problems_of
from tests.registry.world import write_metadata

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(build: Any, tmp_path: Path) -> Path:
    write_config(build(), tmp_path / "run")
    return tmp_path / "run"


def rewrite(run: Path, change: Change) -> None:
    record = json.loads((run / "config.json").read_text())
    change(record)
    (run / "config.json").write_text(json.dumps(record))


def facts(**new: str) -> Change:
    return lambda record: record["components"]["policy"].update(new)


def test_the_same_parts_are_accepted(build: Any, run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build(run, locked=True).cfg == build(run / "config.json", locked=True).cfg


@pytest.mark.parametrize(
    ("change", "one", "other"),
    [
        (facts(version="0.9"), "'toy' of toy-parts 0.9", "'toy' of toy-parts 1.0"),
        (facts(dist="elsewhere"), "'toy' of elsewhere 1.0", "'toy' of toy-parts 1.0"),
        (facts(target="a:B"), "'toy' of toy-parts 1.0, a:B", "toy-parts 1.0, tests.core"),
        (facts(source="sha256:12345678aa"), "source sha256:12345678", "source sha256:"),
    ],
)
def test_another_part_is_refused_by_name_and_warned_of(
    build: Any, run: Path, change: Change, one: str, other: str
) -> None:
    rewrite(run, change)
    (problem,) = problems_of(build, run, locked=True)
    assert problem.startswith("policy: recorded ")
    recorded, _, here = problem.partition(", here ")
    assert one in recorded
    assert other in here
    with pytest.warns(ConfigWarning, match="components differ from those recorded in the config"):
        build(run)


def test_another_core_and_parts_that_come_and_go(build: Any, run: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        record["dicore"] = "0.0.1"
        record["components"]["gone"] = record["components"].pop("policy.model")

    rewrite(run, change)
    told = problems_of(build, run, locked=True, overrides=["replay_buffer=heap"])
    assert told[0].startswith("dicore: recorded 0.0.1, here ")
    assert told[1] == "gone: recorded 'net' of toy-parts 1.0, here (none)"
    assert told[2] == "policy.model: recorded (none), here 'net' of toy-parts 1.0"
    assert told[3].startswith("policy.other.replay_buffer: recorded 'ring' of toy-parts 1.0, here")


def test_what_is_no_record_cannot_be_locked(build: Any) -> None:
    with pytest.raises(ConfigError, match="the config has no record of its components"):
        build(locked=True)


def beside(tmp_path: Path, *names: str) -> Registry:
    """A world with other packages that bring a policy `toy`, instead of that of `toy-parts`."""
    found = [importlib.metadata.distribution("dicore")]
    for name in names:
        groups = {f"dicore.{kind}": dict(entries) for kind, entries in ENTRIES.items()}
        if name != "toy-parts":
            groups = {"dicore.policy": {"toy": "BarePolicyConfig"}}
        for group, entries in groups.items():
            if group != "dicore.default":
                groups[group] = {key: f"{PARTS}:{target}" for key, target in entries.items()}
        (tmp_path / name).mkdir()
        info = write_metadata(
            tmp_path / name, name, "1.0", groups=groups, requires=["dicore>=0.1,<0.2"], extras={}
        )
        found.append(importlib.metadata.PathDistribution(info))
    return Registry(found, environ={})


def test_a_package_installed_later_does_not_change_what_a_run_means(
    build: Any, run: Path, tmp_path: Path
) -> None:
    """Two packages have the name now: the run keeps that of the package it was made with."""
    before, now = build(run), beside(tmp_path, "toy-parts", "rival-rl")
    with pytest.raises(RegistryError, match="is provided by 2 packages"):
        compile_config(least(), registry=now)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compile_config(run, registry=now, locked=True)
    assert again.components["policy"]["dist"] == "toy-parts"
    assert again.policy.type == "toy-parts/toy"
    write_config(again, tmp_path / "second")
    assert compile_config(tmp_path / "second", registry=now, locked=True).cfg == again.cfg
    assert differences(again, before) == {"policy.type": ("toy-parts/toy", "toy")}


@pytest.mark.parametrize("broken", [5, None, "x", [], {"type": 3, "dist": [1], "version": {}}])
@pytest.mark.parametrize("name", ["components", "policy"])
@pytest.mark.filterwarnings("ignore:components differ")
def test_a_record_of_another_form_is_no_record(
    build: Any, run: Path, broken: Any, name: str
) -> None:
    def change(record: dict[str, Any]) -> None:
        (record if name == "components" else record["components"])[name] = broken

    rewrite(run, change)
    assert build(run).policy.type == "toy"
    with pytest.raises(ConfigError, match="policy: recorded "):
        build(run, locked=True)


def test_a_run_names_the_package_that_is_gone(build: Any, run: Path) -> None:
    rewrite(run, lambda record: record["config"]["policy"].update(type="sac"))
    rewrite(run, facts(type="sac", dist="acme-rl", version="0.3"))
    rewrite(run, lambda record: record["config"]["policy"].update(option_of_sac=1))
    with pytest.raises(ConfigError) as gone:
        build(run)
    assert gone.value.problems == (  # its options cannot be judged
        "policy.type: no policy named 'sac' is installed; the run used it from acme-rl 0.3:"
        f" install that package again ({run / 'config.json'}:1)",
    )
    rewrite(run, facts(type="sac", dist="local", version=""))
    with pytest.raises(ConfigError, match="it was registered where the run was trained"):
        build(run)


EVIL = "./evil.py:Toy"
HOOK = {"free": {"deep": [{"type": EVIL}]}}


class TestSavedConfigs:
    """RELIABILITY E06: a `config.json` comes from anywhere; only names choose code."""

    @pytest.fixture
    def marker(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        code = f"import pathlib; pathlib.Path({str(run / 'marker')!r}).touch()\n"
        code += "main_config = create_config = {}\n"
        code += "from tests.core.config.toy_parts import ToyPolicyConfig as Toy\n"
        for name in ("config.py", "total_config.py", "evil.py"):
            (run / name).write_text(code)
        monkeypatch.chdir(run)
        return run / "marker"

    @pytest.mark.parametrize("place", [".", "config.json"])
    @pytest.mark.parametrize(
        "change",
        [
            lambda record: record["config"]["policy"].update(type=EVIL),
            lambda record: record["config"].update(policy=EVIL),
            lambda record: record["config"]["policy"]["learn"].update(HOOK),
            lambda record: record["config"]["policy"].update(import_names="evil", type="x"),
            lambda record: record.pop("components"),
        ],
        ids=["type", "bare", "free form", "import_names", "no record"],
    )
    def test_no_code_is_run(
        self, build: Any, run: Path, marker: Path, change: Change, place: str
    ) -> None:
        build(place)
        rewrite(run, change)
        if "components" not in json.loads((run / "config.json").read_text()):
            (run / "config.json").write_text(json.dumps({**least(), "policy": EVIL}))
        with pytest.raises(ConfigError, match=r"is a code path, |no policy named 'x'"):
            build(place, overrides=["policy.learn.free.other=1"])
        assert not marker.exists()

    def test_trusted_it_is_and_what_the_caller_names_too(
        self, build: Any, run: Path, marker: Path
    ) -> None:
        assert build(".", overrides=[f"policy.type={EVIL}"]).policy.type == EVIL
        assert marker.exists()
        rewrite(run, lambda record: record["config"]["policy"].update(type=EVIL))
        with pytest.raises(ConfigError, match="--trust"):
            build(".")
        assert build(".", names_only=False).policy.type == EVIL

    def test_other_files_of_the_folder_are_not_read(
        self, build: Any, run: Path, marker: Path
    ) -> None:
        (run / "config.json").unlink()
        with pytest.raises(ConfigError, match="no such config file"):
            build(run)
        assert not marker.exists()
