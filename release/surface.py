"""The public surface, recorded, and what of it a change breaks: `python -m release.surface`.

    python -m release.surface            # what was recorded and is no more; exits with 1
    python -m release.surface --record   # at a release

`release/api.json` holds what the last release made public: every name with its parameters, every
command, component and option, hook, exit code, entry-point group and file format, each with its
level of `levels.toml`. What is stable stays for two minor versions after its successor was named;
the rows of `release/removed.toml` say when that was. What is provisional needs a row only, what is
experimental none.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
from packaging.version import Version

from dicore import __version__, errors
from dicore.deprecation import DicoreDeprecationWarning
from dicore.hookspecs import specs
from dicore_registry import default
from dicore_tools.levels import level
from docs.generate.api import public_names
from docs.generate.query import command_of, components

__all__ = ["Removal", "broken", "recorded", "removals", "surface"]

_FOLDER = Path(__file__).parent
RECORD, REMOVED = _FOLDER / "api.json", _FOLDER / "removed.toml"
_WARNED = 2
"""Minor versions that a stable name works after its successor was named."""
_FORMATS = {
    "checkpoint": ("dicore.run.checkpoint_io", "FORMAT_VERSION"),
    "buffer": ("dicore_plugins.buffers.file.records", "VERSION"),
    "status": ("dicore_dist.coordinator.status", "FORMAT"),
}
Facts = Mapping[str, Any]
Surface = Mapping[str, Facts]


class Removal(NamedTuple):
    """A row of `removed.toml`: what was taken away, and what serves instead.

    Args:
        deprecated: Version that named the successor; "" if none did.
        removed: Version that takes it away.
        instead: What to write now.
    """

    deprecated: str
    removed: str
    instead: str

    @property
    def warned(self) -> bool:
        """Whether two minor versions lie between the warning and the removal."""
        if not self.deprecated:
            return False
        first, last = Version(self.deprecated), Version(self.removed)
        return first.major < last.major or last.minor - first.minor >= _WARNED


def surface() -> dict[str, Facts]:
    """Returns all that is public, by name, each with its level and what else callers rely on."""
    found = dict(sorted([*_names(), *_components(), *_commands(), *_hooks(), *_rest()]))
    return {name: {"level": level(name), **facts} for name, facts in found.items()}


def recorded(file: Path = RECORD) -> dict[str, Facts]:
    """Returns the surface that was recorded."""
    known: dict[str, Facts] = json.loads(file.read_text(encoding="utf-8"))["surface"]
    return known


def removals(file: Path = REMOVED) -> dict[str, Removal]:
    """Returns what was removed on purpose, by name."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: Removal(**row) for name, row in rows.items()}


def works(name: str) -> bool:
    """Returns whether a name that is not public any more is still found, with a warning."""
    module, colon, attribute = name.partition(":")
    kind, slash, component = name.partition("/")
    with warnings.catch_warnings(action="ignore", category=DicoreDeprecationWarning):
        if colon:
            with contextlib.suppress(ImportError):
                return hasattr(import_module(module), attribute)
        elif slash:
            found = {each.name: each.status for each in default().entries(kind)}
            return found.get(component) == "deprecated"
    return False


def broken(
    old: Surface,
    new: Surface,
    removed: Mapping[str, Removal],
    found: Callable[[str], bool] = works,
) -> list[str]:
    """Returns what worked with one surface and does not with another, less what was declared.

    Args:
        old: The surface that was recorded.
        new: The surface of now.
        removed: What was removed on purpose.
        found: Whether a name of the old one still works, though it is not in the new one.

    Returns:
        A line for each: what is gone, and what is missing for it to go.
    """
    lines = []
    for name, what in _lost(old, new, found):
        promise, row = old[name]["level"], removed.get(what)
        if promise == "experimental":
            continue
        if row is None:
            lines.append(f"{what}: {promise}, gone without a row in release/removed.toml")
        elif promise == "stable" and not row.warned:
            said = f"deprecated in {row.deprecated}" if row.deprecated else "never deprecated"
            lines.append(
                f"{what}: stable, {said}, gone in {row.removed}; wait {_WARNED} minor versions"
            )
    return lines


def _lost(old: Surface, new: Surface, found: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yields the recorded name, and that of the part of it that is lost."""
    for name, facts in old.items():
        now = new.get(name)
        if now is None:
            if not found(name):
                yield name, name
            continue
        for part, value in facts.items():
            after = now.get(part)
            if isinstance(value, list):
                yield from ((name, f"{name} {each}") for each in value if each not in (after or ()))
            elif isinstance(value, dict):
                yield from ((name, f"{name}{each}") for each in _changed(value, after or {}))
            elif part != "level" and value != after:
                yield name, f"{name} {part}={value}"


def _changed(old: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> Iterator[str]:
    """Yields the calls, `` of itself or `.method`, that no longer take what they took."""
    for call, parameters in old.items():
        if call not in new:
            yield call
            continue
        now, forms = new[call], {each.rstrip("=") for each in new[call]}
        anything = "**" in now
        for each in parameters:
            if each.rstrip("=") not in forms and not anything:
                yield f"{call}({each.rstrip('=')})"
        known = {each.rstrip("=") for each in parameters}
        fresh = [each for each in now if each not in known and not each.endswith(("=", "*"))]
        yield from (f"{call}({each}), which it did not need" for each in fresh)


def _names() -> Iterator[tuple[str, Facts]]:
    for module, names in public_names().items():
        at = import_module(module)
        for name in names:
            yield f"{module}:{name}", {"calls": _calls(getattr(at, name))}


def _calls(value: Any) -> dict[str, list[str]]:
    """Returns the parameters of a function; of a class those of its construction and methods."""
    if not callable(value):
        return {}
    found = {"": _parameters(value)}
    if inspect.isclass(value):
        for name in dir(value):
            method = inspect.getattr_static(value, name)
            method = getattr(method, "__func__", method)
            home = getattr(method, "__module__", None) or ""
            if not name.startswith("_") and inspect.isfunction(method) and "dicore" in home:
                found[f".{name}"] = _parameters(method)
    return {call: parameters for call, parameters in found.items() if parameters is not None}


def _parameters(value: Any) -> Any:
    """Returns the names of parameters: `name`, or `name=` if it may be left out, `*`, `**`."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # written in C
        return None
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        signs.get(each.kind) or each.name + "=" * (each.default is not inspect.Parameter.empty)
        for each in found
        if each.name != "self"
    ]


def _components() -> Iterator[tuple[str, Facts]]:
    for facts in components():
        options = sorted(option["path"] for option in facts["options"])
        yield f"{facts['kind']}/{facts['name']}", {"options": options} if options else {}


def _commands() -> Iterator[tuple[str, Facts]]:
    for facts in components():
        if facts["kind"] == "command":
            name = facts["name"].replace("_", "-")
            yield from _flags(command_of(facts["name"]), f"dicore {name}")


def _flags(command: click.Command, spelling: str) -> Iterator[tuple[str, Facts]]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    yield spelling, {"options": sorted({name for each in shown for name in each.opts})}
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            if not below.hidden:
                yield from _flags(below, f"{spelling} {name}")


def _hooks() -> Iterator[tuple[str, Facts]]:
    for name, value in vars(specs).items():
        if name.startswith("dicore_"):
            yield f"hook {name}", {"arguments": _parameters(value)}


def _rest() -> Iterator[tuple[str, Facts]]:
    for name in errors.__all__:
        code = getattr(getattr(errors, name), "exit_code", None)
        if code is not None:
            yield f"error {name}", {"exit_code": code}
    for kind in default().kinds():
        yield f"group dicore.{kind}", {}
    for name, (module, attribute) in _FORMATS.items():
        yield f"file {name}", {"version": getattr(import_module(module), attribute)}


def main() -> None:
    """Compares or records; ends with 1 if something is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write release/api.json")
    now = surface()
    if parser.parse_args().record:
        rows = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in now.items()
        )
        text = f'{{\n"version": "{__version__}",\n"surface": {{\n{rows}\n}}\n}}\n'
        RECORD.write_text(text, encoding="utf-8")
        print(f"{RECORD}: {len(now)} names")
        return
    lines = broken(recorded(), now, removals())
    print("\n".join(lines) or f"nothing of {len(recorded())} names is broken")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
