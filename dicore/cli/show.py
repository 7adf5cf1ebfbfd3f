"""`dicore show`: one component with its options, package and source file."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

import dicore_registry
from dicore.cli.list import entry_facts
from dicore.errors import DicoreError
from dicore_registry import Entry, Kind, Registry, Removed, Renamed, explain
from dicore_registry.public_names import public_name
from dicore_registry.queries import aliases, look_up, partners

if TYPE_CHECKING:
    from dicore.config.schema import Section

_EPILOG = """\b
Examples:
  dicore show policy/dqn
  dicore show policy/dicore-plugins/dqn     the component of this package
  dicore show preset/cartpole_dqn           the config of a preset
  dicore show buffer/naive --json
  dicore show pipeline/serial --graph       also preset/NAME; env/NAME --frame cartpole.png
"""

_ASSUMED = {"n_evaluator_episode", "stop_value"}


@click.command(name="show", epilog=_EPILOG)
@click.argument("component", metavar="KIND/NAME")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--graph", "--frame", is_flag=False, flag_value="", metavar="[FILE]",
              help="Draw a pipeline or preset (.svg), or a frame of an env (.png).")  # fmt: skip
def command(component: str, as_json: bool, graph: str | None) -> None:
    """Shows one component: options with types and defaults, package and source file."""
    if graph is not None:
        sys.stdout.write(f"{public_name('draw', '--graph')(component, graph)}\n")
        return
    registry = dicore_registry.default()
    with contextlib.redirect_stdout(sys.stderr):  # imports may print
        facts = describe(registry, look_up(registry, component))
    if as_json:
        sys.stdout.write(json.dumps(_jsonable(facts), indent=1) + "\n")
    else:
        _write_text(facts)


def describe(registry: Registry, entry: Entry) -> dict[str, Any]:
    """Imports a component and returns what is known of it, by the keys of `--json`."""
    judged, place = registry.judged(entry), registry.place(entry)
    facts = {
        **entry_facts(registry, judged),
        "aliases": aliases(registry, entry),
        **dict(zip(("file", "line", "doc"), place or ("", 0, ""), strict=False)),
        "section": "", "use": "", "options": [], "tree": None,
    }  # fmt: skip
    try:
        _describe_target(registry, entry, facts)
    except Exception as error:  # of a foreign class: whatever it likes
        if judged.status in ("ok", "conflict", "shadowed"):
            reason = error.message if isinstance(error, DicoreError) else explain.brief(error)
            facts |= {"status": "broken", "reason": reason}
    return facts


def _describe_target(registry: Registry, entry: Entry, facts: dict[str, object]) -> None:
    """Adds what only the imports of a component and of its kind show."""
    kind = registry.kinds().get(entry.kind)
    facts["section"] = kind.section if kind is not None else ""
    target = registry.load(entry)
    if isinstance(target, Renamed | Removed):
        facts |= {"status": "deprecated", "reason": target.reason}
        return
    if isinstance(target, type) or inspect.isroutine(target):  # others have that of their class
        facts["doc"] = inspect.cleandoc(str(target.__doc__ or "")) or facts["doc"]
    if isinstance(target, click.Command):
        facts["doc"] = inspect.cleandoc(target.help or "")
    elif entry.kind == "plugin":
        from dicore.hookspecs.manager import hooks_of

        facts["tree"] = {"hooks": hooks_of(registry, entry)}
    elif isinstance(target, Kind):
        facts["tree"] = target._asdict()
    elif isinstance(target, Mapping):
        facts["tree"] = dict(target)
    elif kind is not None:
        from dicore.config.signature import config_class

        cls = config_class(target, entry.kind)
        facts["options"] = list(options_of(cls, registry, _prefix(kind.section)))
    if kind is not None:
        facts["use"] = kind.usage({**_words(facts, entry), **partners(registry, entry, target)})


def _words(facts: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Returns what an example of use is made from: names, and the defaults of options."""
    name = entry.qualified if entry.status in ("conflict", "shadowed") else entry.name
    needed = [option["name"] for option in facts["options"] if option["required"]]
    item = ", ".join([f"type: {name}", *(f"{option}: …" for option in needed)])
    return {
        **{option["name"]: option["default"] for option in facts["options"]},
        "name": name,
        "spelling": name.replace("_", "-"),
        "module": entry.module,
        "attr": entry.attr,
        "item": f"{{{item}}}" if needed else name,
        "needed": "".join(
            f" {facts['section']}.{each}=…" for each in needed if each not in _ASSUMED
        ),
    }


def options_of(
    cls: type[Section],
    registry: Registry,
    prefix: str = "",
    path: str = "",
    required: Mapping[str, tuple[Any, str]] | None = None,
) -> Iterator[dict[str, object]]:
    """Yields the options of a config class, including those of its sections.

    Args:
        cls: The class.
        registry: Provides the default components of slots.
        prefix: Path of the component in a complete config, with a trailing dot.
        path: Path of this section in the component, with a trailing dot.
        required: What the component requires of its options, by path; None: as `cls` says.
    """
    from dicore.config.schema import ComponentConfig, fields_of, required_by

    required = required_by(cls) if required is None else required
    for field in fields_of(cls).values():
        name = path + field.name
        if "section" in field.metadata:
            yield from options_of(field.metadata["section"], registry, prefix, f"{name}.", required)
        elif not (field.name == "type" and issubclass(cls, ComponentConfig)):
            facts = _option(field, registry, required.get(name))
            yield {"path": prefix + name, "name": name, **facts}


def _option(field: Any, registry: Registry, only: tuple[object, str] | None) -> dict[str, Any]:
    from dicore.config.convert import type_name
    from dicore.config.schema import BOUNDS, REQUIRED

    facts = field.metadata
    text, default = type_name(field.hint), field.default()
    if kind := facts.get("component"):
        text, default = kind, facts["component_default"]
        if default is None and not facts.get("optional"):
            default = registry.default(kind) or REQUIRED
    elif kind := facts.get("components"):
        text, default = f"list of {kind}", facts["component_default"]
    choices = tuple(facts.get("choices") or ())
    if get_origin(field.hint) is Literal:
        choices = get_args(field.hint)
        text = " or ".join(dict.fromkeys(type(choice).__name__ for choice in choices))
    bounds = [f"{BOUNDS[name][0]} {bound:g}" for name, bound in facts.get("bounds", {}).items()]
    bounds = [f"only {only[0]!r}"] if only else bounds
    if field.follows:
        bounds.append(f"follows {field.follows}")
    return {
        "type": text,
        "default": None if default is REQUIRED else default,
        "required": default is REQUIRED,
        "range": ", ".join(bounds),
        "choices": choices,
        "unit": facts.get("unit", ""),
        "help": facts.get("help", ""),
    }


def _prefix(section: str) -> str:
    """Returns the path of the options of a component in a config, with a trailing dot.

    `section` is the path of the component, with `[]` for an item of a list; "": of no config.
    """
    from dicore.config.schema import fields_of
    from dicore.config.sections import RunConfig

    cls: Any = RunConfig
    facts: Mapping[str, Any] = {}
    for part in section.split("."):
        field = fields_of(cls).get(part) if cls is not None else None
        if field is None:
            return ""
        facts = field.metadata
        cls = facts.get("section") or (field.hint if "component" in facts else None)
    return f"{section}[]." if "components" in facts else f"{section}."


def _jsonable(value: object) -> object:
    """Converts a value to JSON types; other values become text."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields path and value of each leaf of nested dicts."""
    if not isinstance(tree, Mapping) or not tree:
        yield path, tree
        return
    for key, value in tree.items():
        yield from leaves(value, f"{path}.{key}" if path else str(key))


def _write_text(facts: Mapping[str, Any]) -> None:
    from dicore.console import printable, write_table

    rows = {
        "status": ": ".join(filter(None, (facts["status"], facts["reason"]))),
        "package": f"{facts['dist']} {facts['version']}".rstrip(),
        "full name": facts["qualified"],
        "aliases": ", ".join(facts["aliases"]),
        "target": facts["target"],
        "file": f"{facts['file']}:{facts['line']}" if facts["file"] else "not found",
        "section": facts["section"],
        "use": facts["use"],
    }
    lines = [f"{facts['kind']}/{facts['name']}", "", *([facts["doc"], ""] if facts["doc"] else [])]
    lines += [f"{name:<10} {value}" for name, value in rows.items() if value]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in "\n".join(lines).split("\n")))
    if facts["options"]:
        sys.stdout.write("\n")
        header = ("OPTION", "TYPE", "DEFAULT", "RANGE", "HELP")
        write_table(header, [option_row(option) for option in facts["options"]])
    if facts["tree"] is not None:
        sys.stdout.write("\n")
        for path, value in leaves(facts["tree"]):
            sys.stdout.write(f"{printable(path)} = {value!r}\n")


def option_row(option: Mapping[str, Any]) -> Sequence[str]:
    """Returns path, type, default, range and help of an option as texts."""
    default = option["default"]
    if isinstance(default, Mapping) and set(default) == {"type"}:
        default = default["type"]  # a component without options
    return (
        option["path"],
        option["type"],
        "required" if option["required"] else default if isinstance(default, str) and default
        else repr(default),
        " or ".join(map(repr, option["choices"])) or option["range"],
        option["help"] + (f" [{option['unit']}]" if option["unit"] else ""),
    )  # fmt: skip
