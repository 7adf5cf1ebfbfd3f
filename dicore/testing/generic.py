"""What every component must keep, whatever its kind."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import Any, get_type_hints

import attrs

from dicore.config.schema import ComponentConfig, Section
from dicore.errors import ConfigError
from dicore.testing.suite import Suite, expect, skip

__all__ = ["ComponentContract"]


class ComponentContract(Suite):
    """It loads, says what it is, and its options are typed, explained and exact."""

    def test_loads(self) -> None:
        """The entry point leads to an object."""
        expect(self.registered.target is not None, "the entry point leads to None")

    def test_has_a_summary(self) -> None:
        """The first line of its docstring says in one line what it is."""
        component = self.registered
        summary = component.registry.summary(component.entry)
        if not summary:
            doc = inspect.getdoc(component.target) if callable(component.target) else ""
            summary = (doc or "").partition("\n")[0]
        expect(summary, f"{component.entry.target} has no docstring")
        expect(len(summary) <= 120, f"the first line of the docstring is too long: {summary!r}")

    def test_options_are_typed(self) -> None:
        """Every option has a type that a config can be checked against."""
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

    def test_options_are_explained(self) -> None:
        """Every option of a config class says what it means."""
        if not _is_config_class(self._configured().target):
            skip("its options are those of a signature; the docstring explains them")
        silent = list(_unexplained(self.registered.config_class, ""))
        expect(not silent, f"options without help: {', '.join(silent)}")

    def test_config_module_imports_no_torch(self) -> None:
        """A config class is light: its module is imported to list options, also without torch."""
        if not _is_config_class(self._configured().target):
            skip("it is registered itself; importing it imports what it needs")
        targets = tuple(
            entry.target for entry in self.registered.registry.entries()
            if entry.status == "ok" and entry.dist != "local" and entry.kind not in _NO_CONFIG
        )  # fmt: skip
        target = self.registered.entry.target
        found = _torch_importers(targets if target in targets else (target,))
        expect(target not in found, f"importing {target} imports torch: {found.get(target)}")

    def test_default_config_round_trips(self) -> None:
        """Written as plain data and compiled again, the defaults are what they were."""
        from dicore.config.compiler import compile_section
        from dicore.config.paths import to_dict

        config = self._default()
        again = compile_section(type(config), to_dict(config))
        expect(again == config, f"the defaults compiled again differ: {again} and {config}")

    def test_config_pickles(self) -> None:
        """Workers are sent configs; what they get is equal."""
        config = self._default()
        again = ForkingPickler.loads(ForkingPickler.dumps(config))
        expect(again == config, f"the config pickled and back is {again}, it was {config}")

    def test_preset_compiles(self) -> None:
        """A preset is a config: unknown keys and wrong values in it are found here."""
        from dicore.config import compile_config

        component = self.registered
        if component.entry.kind != "preset":
            skip("it is no preset")
        try:
            compile_config(component.target, registry=component.registry)
        except ConfigError as error:
            expect(False, f"the preset does not compile: {error}")

    def test_command_explains_itself(self) -> None:
        """A command is one of click's, with a help text."""
        component = self.registered
        if component.entry.kind != "command":
            skip("it is no command")
        from click import Command

        command = component.target
        expect(isinstance(command, Command), f"it is a {type(command).__name__}, no click command")
        expect(command.help or command.short_help, "it has no help text")

    def _configured(self) -> Any:
        if not self.registered.takes_options:
            skip(f"a {self.registered.entry.kind} takes no options")
        return self.registered

    def _default(self) -> ComponentConfig:
        """Returns the defaults, with a value for what somebody has to give."""
        component = self._configured()
        try:
            config: ComponentConfig = component.example()
        except ConfigError as error:
            expect(False, f"the defaults do not compile: {error}")
            raise
        return config


_NO_CONFIG = ("kind", "default", "plugin", "preset", "command")


def _is_config_class(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, ComponentConfig)


def _unexplained(cls: type[Section], prefix: str) -> Any:
    for field in attrs.fields(cls):
        section = field.metadata.get("section")
        if section is not None:
            yield from _unexplained(section, f"{prefix}{field.name}.")
        elif not field.metadata.get("help"):
            yield prefix + field.name


_PROBE = """
import importlib, json, sys, traceback

class Watch:
    seen = None
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            stack = [each for each in traceback.extract_stack() if "importlib" not in each.filename]
            Watch.seen = f"{stack[-2].filename}:{stack[-2].lineno}"
            raise ModuleNotFoundError("torch is kept away by this check", name="torch")

sys.meta_path.insert(0, Watch())
found = {}
sys.path[:], targets = json.load(sys.stdin)
for target in targets:
    Watch.seen = None
    before = set(sys.modules)
    try:
        importlib.import_module(target.partition(":")[0])
    except Exception:
        for name in set(sys.modules) - before:
            del sys.modules[name]
    if Watch.seen:
        found[target] = Watch.seen
print(json.dumps(found))
"""


@cache
def _torch_importers(targets: tuple[str, ...]) -> dict[str, str]:
    """Imports all targets in one process without torch; returns where each asked for it."""
    answer = subprocess.run(  # noqa: S603 - our own interpreter and our own program
        [sys.executable, "-c", _PROBE],
        input=json.dumps([sys.path, targets]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, str] = json.loads(answer.stdout.splitlines()[-1])
    return found
