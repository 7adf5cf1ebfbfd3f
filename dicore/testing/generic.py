"""Conformance suite of all components, whatever their kind."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import warnings
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import Any, get_type_hints

import attrs

from dicore.config.schema import ComponentConfig, Section
from dicore.errors import ConfigError
from dicore.hookspecs.manager import hooks_of
from dicore.testing.component import Component
from dicore.testing.suite import Suite, expect, expect_members, members_of, skip
from dicore_registry import Entry, Kind, Registry, Removed, Renamed
from dicore_registry.importing import import_target

__all__ = ["ComponentContract"]


class ComponentContract(Suite):
    """It can be imported, has a summary, and its options are typed and documented."""

    @classmethod
    def checks_for(cls, component: Component) -> tuple[str, ...]:
        """Returns the checks that say anything about a component, not those of other kinds."""
        others = {name for name, kind in _OF_ONE_KIND.items() if kind != component.entry.kind}
        if not component.takes_options:
            others |= _OF_OPTIONS
        return tuple(name for name in cls.checks() if name not in others)

    def test_loads(self) -> None:
        """The entry point leads to what its group declares."""
        entry, registry, target = self._parts()
        expect(target is not None, "the entry point is None")
        if isinstance(target, Renamed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                registry.resolve(entry.kind, entry.qualified)
        elif entry.kind == "plugin":
            hooks_of(registry, entry)
        elif entry.kind == "kind":
            expect(isinstance(target, Kind), _unexpected(entry, target, "a dicore_registry.Kind"))
        elif self.registered.takes_options and not isinstance(target, Removed):
            expect(callable(target), _unexpected(entry, target, "a class or function"))

    def test_has_the_methods_of_its_kind(self) -> None:
        """A class that is registered itself has the methods of its kind's contract."""
        entry, registry, target = self._parts()
        kind = registry.kinds().get(entry.kind)
        if kind is None or not isinstance(target, type) or hasattr(target, "build"):
            skip("it is not a class that is built as it is")
        module, _, name = kind.contract.partition(":")
        contract = import_target(module, name) if name else object
        methods = [each for each in members_of(contract) if callable(getattr(contract, each, None))]
        if methods and not hasattr(target, "__getattr__"):
            expect_members(target, contract, *methods)

    def test_kind_is_complete(self) -> None:
        """A kind has the name of its entry, a summary, and a contract that can be imported."""
        entry, _, target = self._parts()
        if entry.kind != "kind":
            skip("it is not a kind")
        expect(target.name == entry.name, f"its name is '{target.name}', not '{entry.name}'")
        expect(target.summary, "it has no summary")
        for path in filter(None, (target.contract, target.suite)):
            module, _, name = path.partition(":")
            import_target(module, name)

    def test_has_a_summary(self) -> None:
        """The first docstring line is a summary of at most 120 characters."""
        component = self.registered
        summary = component.registry.summary(component.entry)
        if component.entry.kind == "kind" and not summary:
            summary = component.target.summary
        if not summary and callable(component.target):  # its own, not that of its base
            summary = inspect.cleandoc(component.target.__doc__ or "").partition("\n")[0]
        expect(summary, f"{component.entry.target} has no docstring")
        expect(len(summary) <= 120, f"the first line of the docstring is too long: {summary!r}")

    def test_options_are_typed(self) -> None:
        """Every option has a type, so that configs can be checked."""
        target = self._configured().target
        cls = self.registered.config_class
        if _is_config_class(target):
            hints = get_type_hints(cls)
            vague = [
                f.name for f in attrs.fields(cls)
                if hints.get(f.name, Any) is Any and not {"component", "components"} & {*f.metadata}
            ]  # fmt: skip
        else:
            vague = [
                parameter.name
                for parameter in inspect.signature(target).parameters.values()
                if parameter.default is not parameter.empty
                and parameter.annotation is parameter.empty
                and not parameter.name.startswith("_")
            ]
        expect(not vague, f"options without a type: {', '.join(vague)}")

    def test_options_have_help(self) -> None:
        """Every option of a config class has a help text."""
        if not _is_config_class(self._configured().target):
            skip("its options come from a signature; the docstring explains them")
        silent = list(_unexplained(self.registered.config_class, ""))
        expect(not silent, f"options without help: {', '.join(silent)}")

    def test_config_module_imports_no_torch(self) -> None:
        """The module of a config class does not import torch: it is imported to list options."""
        if not _is_config_class(self._configured().target):
            skip("it has no config class, so its module may import anything")
        ours = self.registered.entry
        targets = tuple(
            entry.target for entry in self.registered.registry.entries(ours.kind)
            if entry.status == "ok" and entry.dist == ours.dist != "local"
        )  # fmt: skip
        target = ours.target
        found = _torch_importers(targets) if target in targets else None
        if found is None:  # or another module hangs or ends the process
            found = _torch_importers((target,))
        expect(found is not None, f"importing {target} hangs or ends the process")
        where = (found or {}).get(target)
        expect(where is None, f"importing {target} imports torch: {where}")

    def test_default_config_round_trips(self) -> None:
        """The defaults, converted to plain data and compiled again, are equal."""
        from dicore.config.compiler import compile_section
        from dicore.config.paths import to_dict

        config = self._default()
        again = compile_section(type(config), to_dict(config))
        expect(again == config, f"the defaults compiled again differ: {again} and {config}")

    def test_config_pickles(self) -> None:
        """Its config can be pickled, so that it can be sent to workers."""
        config = self._default()
        again = ForkingPickler.loads(ForkingPickler.dumps(config))
        expect(again == config, f"the unpickled config is {again}, not {config}")

    def test_preset_compiles(self) -> None:
        """A preset compiles: it has no unknown keys and no invalid values."""
        from dicore.config import compile_config

        component = self.registered
        if component.entry.kind != "preset":
            skip("it is not a preset")
        try:
            compile_config(component.target, registry=component.registry)
        except ConfigError as error:
            expect(False, f"the preset does not compile: {error}")

    def test_command_has_help(self) -> None:
        """A command is a click command with a help text."""
        component = self.registered
        if component.entry.kind != "command":
            skip("it is not a command")
        from click import Command

        command = component.target
        wrong = _unexpected(component.entry, command, "a click command")
        expect(isinstance(command, Command), wrong)
        expect(command.help or command.short_help, "it has no help text")

    def _parts(self) -> tuple[Entry, Registry, Any]:
        component = self.registered
        return component.entry, component.registry, component.target

    def _configured(self) -> Any:
        if not self.registered.takes_options:
            skip(f"a {self.registered.entry.kind} takes no options")
        return self.registered

    def _default(self) -> ComponentConfig:
        """Returns the defaults, with examples for required options."""
        component = self._configured()
        try:
            config: ComponentConfig = component.example()
        except ConfigError as error:
            expect(False, f"the defaults do not compile: {error}")
            raise
        return config


_OF_ONE_KIND = {
    "kind_is_complete": "kind",
    "preset_compiles": "preset",
    "command_has_help": "command",
}
_OF_OPTIONS = {
    "options_are_typed", "options_have_help", "config_module_imports_no_torch",
    "default_config_round_trips", "config_pickles",
}  # fmt: skip


def _unexpected(entry: Entry, target: Any, wanted: str) -> str:
    return f"{entry.target} is of type {type(target).__name__}, not {wanted}"


def _is_config_class(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, ComponentConfig)


def _unexplained(cls: type[Section], prefix: str) -> Any:
    for field in attrs.fields(cls):
        section = field.metadata.get("section")
        if section is not None:
            yield from _unexplained(section, f"{prefix}{field.name}.")
        elif not field.metadata.get("help"):
            yield prefix + field.name


_TIMEOUT_S = 60.0
_PROBE = """
import importlib, json, os, sys, traceback

class Watch:
    seen = None
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            stack = [each for each in traceback.extract_stack() if "importlib" not in each.filename]
            Watch.seen = f"{stack[-2].filename}:{stack[-2].lineno}"
            raise ModuleNotFoundError("this check blocks torch", name="torch")

sys.meta_path.insert(0, Watch())
found = {}
sys.path[:], targets = json.load(sys.stdin)
for target in targets:
    Watch.seen = None
    before = set(sys.modules)
    try:
        importlib.import_module(target.partition(":")[0])
    except (Exception, SystemExit):
        for name in set(sys.modules) - before:
            del sys.modules[name]
    if Watch.seen:
        found[target] = Watch.seen
print("\\n" + json.dumps(found), flush=True)
os._exit(0)  # threads started by an import would keep the process running
"""


@cache
def _torch_importers(targets: tuple[str, ...]) -> dict[str, str] | None:
    """Imports all targets in one process without torch; returns where each asked for it.

    None if the process does not end, or ends before the last import.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - our own interpreter and our own program
            [sys.executable, "-P", "-c", _PROBE],
            input=json.dumps([sys.path, targets]),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    last = (answer.stdout.splitlines() or [""])[-1]
    found: dict[str, str] | None = json.loads(last) if last.startswith("{") else None
    return found
