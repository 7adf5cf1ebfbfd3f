"""What every component must keep, and `parametrize`: over a foreign package with planted faults."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dicore.errors import (
    ContractError,
    PluginLoadError,
    UnknownComponentError,
    UsageError,
)
from dicore.testing import checks_of, parametrize
from dicore.testing.buffer import BufferContract
from dicore.testing.generic import ComponentContract
from dicore.testing.suite import Suite, expect
from dicore_registry import Kind, Registry

GOOD = '''
"""A package of one good component of each form."""
from typing import Any
from dicore.config import ComponentConfig, component, frozen, option, section, Section
from dicore_registry import Kind

@frozen(kw_only=True)
class Inner(Section):
    """A section."""
    depth: int = option(2, "how deep", ge=1)

@frozen(kw_only=True)
class Tidy(ComponentConfig):
    """A buffer that says what it is."""
    size: int = option(3, "rows kept", ge=1)
    names: list[str] = option(["a"], "what they are called")
    inner: Inner = section(Inner, "what is inside")

    def build(self, ctx: Any, **parts: Any) -> Any:
        import torch
        return torch

class Hook:
    """A hook with typed options."""
    def __init__(self, freq: int = 3, name: str = "x") -> None:
        self.freq = freq
    def __call__(self, engine: Any) -> None: ...

PRESET = {"env": {"type": "no_such_env"}}
"""A preset of an environment that there is not."""

ROLE = Kind("role", "does a part", "acme_good:NoSuchContract")

class Half:
    """A buffer that can only be filled."""
    def push(self, data: object, cur_collector_envstep: int | None = None) -> None: ...

command = 3
"""A command that is none."""
'''

BAD = '''
from typing import Any
from dicore.config import ComponentConfig, frozen, option

class Undocumented:
    def __init__(self, freq: int = 3) -> None: ...

class Untyped:
    """Has an option without a type."""
    def __init__(self, freq=3) -> None: ...

@frozen(kw_only=True)
class Vague(ComponentConfig):
    """Has an option of any type."""
    thing: Any = option(3, "something")

@frozen(kw_only=True)
class Silent(ComponentConfig):
    """Has an option that nobody explains."""
    freq: int = option(3)

@frozen(kw_only=True)
class Crooked(ComponentConfig):
    """Has a default that is no int."""
    freq: int = option("often", "how often")

@frozen(kw_only=True)
class Stuck(ComponentConfig):
    """Cannot be sent anywhere."""
    freq: int = option(3, "how often")
    def __reduce__(self): raise TypeError("stuck")
'''

HEAVY = '''
import torch
from dicore.config import ComponentConfig, frozen

@frozen(kw_only=True)
class Heavy(ComponentConfig):
    """Imports torch to say what it takes."""
'''

ENTRIES = """
[dicore.buffer]
tidy = acme_good:Tidy
vague = acme_bad:Vague
silent = acme_bad:Silent
crooked = acme_bad:Crooked
stuck = acme_bad:Stuck
heavy = acme_heavy:Heavy
missing = acme_good:NoSuchClass
half = acme_good:Half

[dicore.learner_hook]
tidy_hook = acme_good:Hook
undocumented = acme_bad:Undocumented
untyped = acme_bad:Untyped

[dicore.kind]
role = acme_good:ROLE

[dicore.preset]
hopeless = acme_good:PRESET

[dicore.command]
speechless = acme_good:command
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The core and a foreign package, both as installed distributions."""
    for name, text in {"acme_good": GOOD, "acme_bad": BAD, "acme_heavy": HEAVY}.items():
        (tmp_path / f"{name}.py").write_text(text)
    info = tmp_path / "acme_rl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-rl\nVersion: 1.0\nRequires-Dist: dicore\n"
    )
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Registry(
        [importlib.metadata.distribution("dicore"), importlib.metadata.Distribution.at(info)]
    )
    for name in ("acme_good", "acme_bad", "acme_heavy"):
        sys.modules.pop(name, None)


def test_every_missing_method_is_named(registry: Registry) -> None:
    error = failing(registry, "buffer/half")["has_the_methods_of_its_kind"]
    lacks = str(error).partition("lacks ")[2].partition(" of IBuffer")[0].split(", ")
    assert {"sample", "count", "clear", "state_dict", "load_state_dict"} <= set(lacks)
    assert "push" not in lacks


class Nothing(Suite):
    """A suite of a kind, without checks: what is looked at here are those of every component."""


SUITES = {"buffer": Nothing, "learner_hook": Nothing}


def failing(registry: Registry, component: str) -> dict[str, Exception]:
    found: dict[str, Exception] = {}
    for check in checks_of(component=component, registry=registry, suites=SUITES):
        try:
            check()
        except pytest.skip.Exception:
            continue
        except Exception as error:
            if type(error).__name__ != "SkipTest":
                found[check.name] = error
    return found


@pytest.mark.parametrize("component", ["buffer/tidy", "learner_hook/tidy_hook"])
def test_good_components_pass(registry: Registry, component: str) -> None:
    assert failing(registry, component) == {}


FAULTS = {
    "buffer/missing": "loads",
    "learner_hook/undocumented": "has_a_summary",
    "learner_hook/untyped": "options_are_typed",
    "buffer/vague": "options_are_typed",
    "buffer/silent": "options_have_help",
    "buffer/heavy": "config_module_imports_no_torch",
    "buffer/crooked": "default_config_round_trips",
    "buffer/stuck": "config_pickles",
    "preset/hopeless": "preset_compiles",
    "command/speechless": "command_has_help",
    "buffer/half": "has_the_methods_of_its_kind",
    "kind/role": "kind_is_complete",
}
PLANTED = {ComponentContract: [*FAULTS.values()]}


@pytest.mark.parametrize(("component", "check"), FAULTS.items())
def test_each_check_catches_its_fault(registry: Registry, component: str, check: str) -> None:
    """Each planted fault fails with its own name, and (where it loads) with no other."""
    found = failing(registry, component)
    assert check in found
    assert any(f"check '{check}' of {component}" in note for note in found[check].__notes__)
    if check == "loads":
        assert isinstance(found[check], PluginLoadError)
    elif check != "default_config_round_trips":
        assert set(found) == {check}


def test_the_culprit_of_a_torch_import_is_named(registry: Registry) -> None:
    error = failing(registry, "buffer/heavy")["config_module_imports_no_torch"]
    assert "acme_heavy.py:2" in str(error)


@pytest.mark.parametrize("ending", ["import sys; sys.exit(0)", "import os; os._exit(0)", "LOOP"])
def test_an_import_that_does_not_return_fails_itself_alone(
    registry: Registry, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore.testing.generic._TIMEOUT_S", 3.0)
    loop = "import threading\nthreading.Event().wait() if __name__ != 'x' else None"
    (tmp_path / "acme_bad.py").write_text(loop if ending == "LOOP" else ending)
    assert failing(registry, "buffer/tidy") == {}


def test_suites_are_those_that_the_kinds_name(registry: Registry) -> None:
    checks = checks_of(component="buffer/tidy", registry=registry)
    names = [check.name for check in checks]
    others = ("kind_is_complete", "preset_compiles", "command_has_help")
    generic = [name for name in ComponentContract.checks() if name not in others]
    assert names == [*generic, *BufferContract.checks()]
    assert checks[0].id == "buffer/tidy:loads"


def test_checks_of_other_kinds_are_left_out(registry: Registry) -> None:
    """A preset has no options, and is neither a kind nor a command."""
    names = [check.name for check in checks_of(component="preset/hopeless", registry=registry)]
    assert names == ["loads", "has_the_methods_of_its_kind", "has_a_summary", "preset_compiles"]


def test_a_kind_without_its_suite_fails_by_name(registry: Registry) -> None:
    """A suite that does not load is one failing check; other components are still checked."""

    gadgets = Kind(name="gadget", summary="stands for others", suite="acme_good:NoSuchSuite")
    registry.register("kind", "gadget")(gadgets)

    @registry.register("gadget", "thing")
    class Thing:
        """A thing."""

    *_, check = checks_of(component="gadget/thing", registry=registry)
    assert check.name == "suite_loads"
    with pytest.raises(ContractError, match=r"kind 'gadget' .* acme_good:NoSuchSuite"):
        check()


def test_a_choice_of_nothing_is_an_error(registry: Registry) -> None:
    with pytest.raises(UnknownComponentError, match=r"did you mean 'acme-rl'\?"):
        checks_of(dist="acme-lr", registry=registry)
    with pytest.raises(UnknownComponentError, match="no installed package 'mine'") as caught:
        checks_of(dist="mine", registry=registry)
    assert caught.value.hint == "install it; from its source folder: pip install -e ."
    with pytest.raises(UsageError, match="component=buffer/tydi"):
        checks_of(component="buffer/tydi", registry=registry)


def test_a_package_is_chosen_by_name(registry: Registry) -> None:
    labels = {check.component.label for check in checks_of(dist="acme-rl", registry=registry)}
    assert labels == {*FAULTS} | {"buffer/tidy", "learner_hook/tidy_hook"}
    kinds = {check.component.entry.kind for check in checks_of(kinds=["preset"], registry=registry)}
    assert kinds == {"preset"}


def test_expected_failures_must_fail(registry: Registry) -> None:
    """They become strict xfail marks; a reason for a check that there is not is an error."""
    options = {"component": "buffer/silent", "registry": registry, "suites": SUITES}
    mark = parametrize(
        **options, expected_failures={"options_have_help": "soon", "buffer/silent:loads": "no"}
    )
    assert mark.name == "parametrize"
    marks = {case.id: case.marks for case in mark.args[1]}
    assert marks["buffer/silent:has_a_summary"] == ()
    (expected,) = marks["buffer/silent:options_have_help"]
    assert (expected.name, expected.kwargs) == ("xfail", {"reason": "soon", "strict": True})
    assert marks["buffer/silent:loads"]
    with pytest.raises(UsageError, match="options_are_explaned"):
        parametrize(**options, expected_failures={"options_are_explaned": "typo"})


def test_a_suite_without_make_says_so() -> None:
    class TestNothing(Suite):
        def test_something(self) -> None:
            expect(self.registered, "never")

    with pytest.raises(UsageError, match="TestNothing has no component to test"):
        TestNothing().test_something()


def test_checks_are_listed_once_and_may_be_switched_off() -> None:
    class Some(BufferContract):
        test_ids_increase = None  # type: ignore[assignment]

        def test_more(self) -> None: ...

    assert set(Some.checks()) == {*BufferContract.checks(), "more"} - {"ids_increase"}
    assert len(Some.checks()) == len(set(Some.checks()))
