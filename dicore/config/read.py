"""Reads a config file: Python with both dicts, YAML, TOML, or the JSON that a run writes.

A file may have a control panel: `cpanel`, a few important knobs that other values are made from.

    cpanel = {"lr": 1e-3, "workers": 8}

    def gen_params(cpanel):
        return main_config, create_config      # or a dict with both

In YAML, TOML and JSON `cpanel` is a section at the top, and a value refers to a knob by
`${cpanel.lr}`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import tomllib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from dicore.config.exact import decode
from dicore.config.lines import Lines
from dicore.config.panel import gen_params, knobs, refer
from dicore.config.python_lines import python_lines
from dicore.config.text_lines import PositionError, json_lines, toml_lines, yaml_lines
from dicore.errors import ConfigError
from dicore_registry.explain import brief

__all__ = ["ConfigFile", "is_config", "is_record", "read_config", "read_file"]

Pair = tuple[dict[str, Any], dict[str, Any]]

_RECORD = "config.json"
_LINE = re.compile(r"line (\d+), column \d+")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a config file says.

    Args:
        main: Its main config.
        create: Its create config; empty where one tree has both.
        lines: Where each key stands.
        cpanel: The knobs as they were turned; None for a file without a control panel.
        record: All of a `config.json` that a run wrote; None for any other file.
        name: What messages call the file.
    """

    main: dict[str, Any]
    create: dict[str, Any]
    lines: Lines = field(default_factory=Lines)
    cpanel: dict[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    name: str = ""


def read_config(path: str | PathLike[str], cpanel: Mapping[str, Any] | None = None) -> Pair:
    """Reads `main_config` and `create_config` from a file.

    Args:
        path: A `.py` file holding both dicts (or one pair `X_config`, `X_create_config`, or
            `cpanel` and `gen_params`); or one tree in `.yaml`, `.yml`, `.toml` or `.json`, whose
            create_config may be missing; or the folder of a run, whose `config.json` is read; or
            the name of a module (`package.module`). Python is run, so name only what you trust.
        cpanel: Knobs to turn.

    Returns:
        The two dicts.

    Raises:
        ConfigError: there is no such file, it cannot be read, or a dict is missing.
    """
    found = read_file(path, cpanel)
    return found.main, found.create


def read_file(path: str | PathLike[str], cpanel: Mapping[str, Any] | None = None) -> ConfigFile:
    """Reads a config file with its lines; see `read_config`.

    Raises:
        ConfigError: as `read_config` says.
    """
    file = Path(path).expanduser()
    if (file / _RECORD).is_file():
        file = file / _RECORD
        path = Path(path) / _RECORD
    if not file.is_file():
        if (module := _module_file(path)) is not None:
            return replace(_python(module, str(path), cpanel, str(path)), name=str(module))
        raise ConfigError(f"{path}: no such config file", hint=f"looked in {Path.cwd()}")
    return replace(_read(file, path, cpanel), name=str(path))


def _read(file: Path, path: str | PathLike[str], cpanel: Mapping[str, Any] | None) -> ConfigFile:
    suffix = file.suffix.lower()
    if suffix == ".py":
        return _python(file, str(path), cpanel)
    read = _READERS.get(suffix)
    if read is None:
        known = ", ".join([".py", *_READERS])
        raise ConfigError(f"{path}: cannot read '{file.suffix}' files", hint=f"one of {known}")
    try:
        tree, lines = read(_text(file))
        return _tree(decode(tree), lines, file, cpanel)
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply") from None
    except _TextError as wrong:
        raise ConfigError(_at(file, wrong.message), hint=wrong.hint) from wrong
    except PositionError as error:
        raise ConfigError(_at(file, str(error))) from error
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from error


def is_config(path: str | PathLike[str]) -> bool:
    """Says whether a path is that of a file or of a run's folder, or names a Python module."""
    file = Path(path).expanduser()
    is_file = file.is_file() or (file / _RECORD).is_file()
    return is_file or _module_file(path) is not None


def _module_file(path: str | PathLike[str]) -> Path | None:
    """Returns the file of a module (`package.module`); its package is imported to find it.

    Raises:
        ConfigError: there is such a package, and importing it fails.
    """
    name = str(path)
    if _MODULE.fullmatch(name) is None or Path(name).suffix.lower() in (".py", *_READERS):
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            return None
        raise ConfigError(f"{name}: its package failed to import: {brief(error)}") from error
    origin = spec.origin if spec is not None else None
    return Path(origin) if origin is not None and origin.endswith(".py") else None


class _TextError(ConfigError):
    """What is wrong with a text, whose file the reader puts before it."""


def is_record(tree: Any) -> bool:
    """Says whether a tree is a `config.json` that a run wrote."""
    return isinstance(tree, Mapping) and {"config", "components"} <= tree.keys()


def _at(file: Path, message: str) -> str:
    """Puts a file before a message that may begin with a line."""
    return f"{file}:{message}" if message.partition(":")[0].isdigit() else f"{file}: {message}"


def _tree(
    tree: Any, lines: dict[str, int], file: Path, wanted: Mapping[str, Any] | None
) -> ConfigFile:
    if tree is None:
        tree = {}
    if not isinstance(tree, Mapping):
        raise _TextError(f"expected a section, got {type(tree).__name__}")
    if is_record(tree):
        if wanted:
            raise _TextError(
                "the knobs of a finished config cannot be turned",
                hint="turn those of the file that it was made from",
            )
        main = _section(tree["config"], "config")
        below = _below(lines, "config")
        return ConfigFile(
            main, {}, Lines(below), _section(tree.get("cpanel"), "cpanel") or None, tree
        )
    tree = dict(tree)
    panel = knobs(tree.pop("cpanel", None), wanted, str(file))
    tree = refer(tree, panel, Lines(lines), str(file))
    if "main_config" not in tree:
        return ConfigFile(tree, {}, Lines(lines), panel)
    extra = sorted(str(key) for key in tree.keys() - {"main_config", "create_config"})
    if extra:
        raise _TextError(f"{extra[0]}: stands beside main_config; put it inside")
    both = {**_below(lines, "create_config"), **_below(lines, "main_config")}
    main = _section(tree["main_config"], "main_config")
    return ConfigFile(
        main, _section(tree.get("create_config"), "create_config"), Lines(both), panel
    )


def _section(value: Any, name: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise _TextError(f"{name}: expected a section, got {type(value).__name__} {value!r}")
    return dict(value or {})


def _below(lines: Mapping[str, int], key: str) -> dict[str, int]:
    start = f"{key}."
    return {
        path.removeprefix(start): line for path, line in lines.items() if path.startswith(start)
    }


def _python(
    file: Path, said: str, wanted: Mapping[str, Any] | None, module: str = ""
) -> ConfigFile:
    run = partial(runpy.run_module, module) if module else partial(runpy.run_path, str(file))
    names = _run(file, lambda: run(run_name="dicore_config_file"))
    text = _text(file)
    panel = None
    maker = names.get("gen_params")
    if "cpanel" in names or callable(maker):
        panel = knobs(names.get("cpanel", {}), wanted, str(file))
        main, create = _run(file, lambda: gen_params(maker, panel or {}, names, str(file)))
        found = {"main_config": ("main_config", main), "create_config": ("create_config", create)}
    else:
        knobs(None, wanted, str(file))
        found = _pair(names, said)
    main, create = found["main_config"], found["create_config"]
    made_by = "gen_params" if callable(maker) and panel is not None else ""
    lines = python_lines(text, main, create, made_by)
    return ConfigFile(dict(main[1]), dict(create[1]), Lines(lines), panel)


def _run(file: Path, run: Callable[[], Any]) -> Any:
    """Runs the code of a config file; what it raises points into the file.

    Raises:
        ConfigError: it raised something.
    """
    try:
        return run()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)
        said = str(error)
        if isinstance(error, SyntaxError) and (error.filename == str(file) or line is None):
            line, said = error.lineno, error.msg
        place = f"{file}:{line}" if line else str(file)
        raise ConfigError(f"{place}: {type(error).__name__}: {said}") from error


def _yaml(text: str) -> tuple[Any, dict[str, int]]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        lines = yaml_lines(root)
        return (None if root is None else loader.construct_document(root)), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = (error.problem or str(error)).removeprefix("could not determine a constructor for ")
        if said != error.problem:
            said = f"{said} is not allowed: a config holds plain data"
        raise _TextError(f"{mark.line + 1}: {said}" if mark else said) from error
    except yaml.YAMLError as error:
        raise _TextError(str(error)) from error
    finally:
        loader.dispose()


def _toml(text: str) -> tuple[Any, dict[str, int]]:
    try:
        return tomllib.loads(text), toml_lines(text)
    except tomllib.TOMLDecodeError as error:
        said, place, where = str(error).partition(" (at ")
        line = _LINE.search(where)
        if line is None:  # "(at end of document)", or none
            count = text.rstrip().count("\n") + 1
            raise _TextError(f"{count}: {said}: the file ends here" if place else said) from error
        raise _TextError(f"{line[1]}: {said}") from error


def _json(text: str) -> tuple[Any, dict[str, int]]:
    try:
        return json.loads(text), json_lines(text)
    except json.JSONDecodeError as error:
        raise _TextError(f"{error.lineno}: {error.msg}, in column {error.colno}") from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _pair(names: Mapping[str, Any], path: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Finds the two dicts, with their names, among what a Python file defines."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for wanted, suffix in (("main_config", "_config"), ("create_config", "_create_config")):
        if isinstance(names.get(wanted), Mapping):
            found[wanted] = wanted, names[wanted]
            continue
        others = _named(names, suffix, wanted == "create_config")
        if len(others) != 1:
            some = f" ({', '.join(others)}: which one?)" if others else ""
            raise ConfigError(
                f"{path}: '{wanted}' is missing{some}", hint=f"define {wanted} = {{…}}"
            )
        found[wanted] = others[0], names[others[0]]
    return found


def _named(names: Mapping[str, Any], suffix: str, create: bool) -> list[str]:
    return [
        name
        for name, value in names.items()
        if name.endswith(suffix)
        and isinstance(value, Mapping)
        and name.endswith("_create_config") == create
        and name not in ("main_config", "create_config", "system_config")
    ]


_READERS: dict[str, Callable[[str], tuple[Any, dict[str, int]]]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".json": _json,
}
