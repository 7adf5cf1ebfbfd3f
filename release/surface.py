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
import functools
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
from dicore_registry.entry import family
from dicore_tools.levels import LEVELS, level
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
        """Whether two minor versions, or the end of a major one, lie before the removal."""
        if not self.deprecated:
            return False
        first, last = Version(self.deprecated), Version(self.removed)
        return first.major < last.major or last.minor - first.minor >= _WARNED

    def wrong(self, now: str) -> str:
        """Returns what is wrong with its versions, in a checkout of version `now`; "" if nothing.

        Both are versions of releases: 0.1 or later, and no later than the next one.
        """
        first, last, newest = map(Version, (self.deprecated or "0.1", self.removed, now))
        if not Version("0.1") <= first <= last:
            return f"deprecated in {self.deprecated}, removed in {self.removed}"
        if (last.major, last.minor) > (newest.major, newest.minor + 1):
            return f"removed in {self.removed}, which is later than the next release"
        return ""


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


def works(name: str) -> Facts | None:
    """Returns what a name that is not public any more still is, with a warning; None: nothing."""
    module, colon, attribute = name.partition(":")
    kind, slash, component = name.partition("/")
    with warnings.catch_warnings(action="ignore", category=DicoreDeprecationWarning):
        if colon:
            with contextlib.suppress(ImportError, AttributeError):
                return _of_name(getattr(import_module(module), attribute))
        elif slash:
            found = {each.name: each.status for each in default().entries(kind)}
            versions = {family(name)[0] for name in found if family(name)[1]}
            newest = component in versions  # the plain name stands for it
            return _RENAMED if newest or found.get(component) == "deprecated" else None
    return None


def broken(
    old: Surface,
    new: Surface,
    removed: Mapping[str, Removal],
    found: Callable[[str], Facts | None] = works,
) -> list[str]:
    """Returns what worked with one surface and does not with another, less what was declared.

    Args:
        old: The surface that was recorded.
        new: The surface of now.
        removed: What was removed on purpose.
        found: What a name of the old one still is, though it is not in the new one.

    Returns:
        A line for each: what is gone, and what is missing for it to go.
    """
    lines = [f"release/removed.toml: {name}: {row.wrong(__version__)}"
             for name, row in removed.items() if row.wrong(__version__)]  # fmt: skip
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


def _lost(
    old: Surface, new: Surface, found: Callable[[str], Facts | None]
) -> Iterator[tuple[str, str]]:
    """Yields the recorded name, and that of the part of it that is lost."""
    for name, facts in old.items():
        now = new[name] if name in new else found(name)
        if now is None:
            yield name, name
        elif now is not _RENAMED:
            yield from ((name, f"{name}{part}") for part in _lost_parts(facts, now))


_RENAMED: Facts = {}
"""What a component is under its former name: another has its options."""


def _lost_parts(facts: Facts, now: Facts) -> Iterator[str]:
    for part, value in facts.items():
        after = now.get(part)
        if part == "level":
            if after is not None and LEVELS.index(after) > LEVELS.index(value):
                yield f" level={value}"
        elif part == "needs":
            yield from (
                f" {each}, which it did not need" for each in after or () if each not in value
            )
        elif isinstance(value, list):
            yield from (f" {each}" for each in value if each not in (after or ()))
        elif isinstance(value, dict):
            yield from _changed(value, after or {})
        elif value != after:
            yield f" {part}={value}"


def _changed(old: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> Iterator[str]:
    """Yields the calls, `` of itself or `.method`, that no longer take what they took."""
    for call, parameters in old.items():
        if call not in new:
            yield call
            continue
        now = new[call]
        named = {each.rstrip("=") for each in now}
        places, places_now = _positions(parameters), _positions(now)
        for place, name in enumerate(places):
            same = "*" in now or (place < len(places_now) and places_now[place] == name)
            if not same or name not in named:
                yield f"{call}({name})"
        for name in (each.rstrip("=") for each in parameters[len(places) :]):
            if name not in ("*", "**", ",") and name not in named and "**" not in now:
                yield f"{call}({name})"
        free = {each.rstrip("=") for each in parameters if each.endswith("=")}
        known = {each.rstrip("=") for each in parameters} - free
        needed = [each for each in now if each not in known and not each.endswith(("=", "*", ","))]
        yield from (f"{call}({each}), which it did not need" for each in needed)


def _positions(parameters: list[str]) -> list[str]:
    """Returns the names that may be passed without their names, in order."""
    stop = next(
        (i for i, each in enumerate(parameters) if each in ("*", "**", ",")), len(parameters)
    )
    return [each.rstrip("=") for each in parameters[:stop]]


def _names() -> Iterator[tuple[str, Facts]]:
    for module, names in public_names().items():
        at = import_module(module)
        for name in names:
            yield f"{module}:{name}", _of_name(getattr(at, name))


def _of_name(value: Any) -> Facts:
    """Returns what callers rely on of an object: how it is called, and its attributes."""
    facts: dict[str, Any] = {"calls": _calls(value)}
    if inspect.isclass(value):
        kept = (property, functools.cached_property)
        found = {
            name for name in dir(value) if isinstance(inspect.getattr_static(value, name), kept)
        }
        found |= {*getattr(value, "__members__", ())}
        if attributes := sorted(name for name in found if not name.startswith("_")):
            facts["attributes"] = attributes
    return facts


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
    """Returns the names of parameters: `name`, or `name=` if it may be left out.

    `,` stands before those that are passed by name only, `*` and `**` for any others.
    """
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # written in C
        return None
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    told: list[str] = []
    for each in found:
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not {",", "*"} & {*told}:
            told.append(",")
        if each.name != "self":
            optional = "=" * (each.default is not inspect.Parameter.empty)
            told.append(signs.get(each.kind) or each.name + optional)
    return told


def _components() -> Iterator[tuple[str, Facts]]:
    for facts in components():
        options = {option["path"] for option in facts["options"]}
        for each in facts["options"]:
            options |= {f"{each['path']}={choice}" for choice in each["choices"]}
        yield f"{facts['kind']}/{facts['name']}", {"options": sorted(options)} if options else {}


def _commands() -> Iterator[tuple[str, Facts]]:
    for facts in components():
        if facts["kind"] == "command":
            name = facts["name"].replace("_", "-")
            yield from _flags(command_of(facts["name"]), f"dicore {name}")


def _flags(command: click.Command, spelling: str) -> Iterator[tuple[str, Facts]]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    named = [each for each in shown if isinstance(each, click.Option)]
    options = {name for each in named for name in each.opts}
    for each in named:
        choices = each.type.choices if isinstance(each.type, click.Choice) else ()
        options |= {f"{each.opts[0]}={choice}" for choice in choices}
    needs = [each.opts[0] for each in shown if each.required]
    yield spelling, {"options": sorted(options), "needs": sorted(needs)}
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
