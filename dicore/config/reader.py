"""Reads config files.

The core reads JSON. Readers of other formats are entries of `dicore.config_format`, named by the
suffix of their files: `read(file, label, cpanel)` returns a `ConfigFile` or raises ConfigError;
messages call the file `label`, and `cpanel` overrides values of its control panel. `yaml` also has
`lines(text)`, the line of each path of a JSON text; `py` has `find_module(name)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from dicore.config.layers import Lines
from dicore.config.redact import KNOB, names_in
from dicore.errors import ConfigError, UnknownComponentError
from dicore_registry import default
from dicore_registry.installing import install_line
from dicore_registry.known import known

_GROUP = "config_format"
_PANEL = "cpanel"
_RECORD = "config.json"
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a config file; `record` is all of a `config.json` that a run wrote.

    `whole` is what a run wrote in any form: an option that it lacks is newer than the run.
    """

    main: dict[str, Any]
    create: dict[str, Any]
    lines: Lines = field(default_factory=Lines)
    cpanel: dict[str, Any] | None = None
    record: Mapping[str, object] | None = None
    name: str = ""
    whole: bool = False

    @property
    def is_saved(self) -> bool:
        """Whether a run wrote the file, or it passes for one of a run folder."""
        return self.record is not None or Path(self.name).name == _RECORD


class TextError(ValueError):
    """A text is not a config; the message may begin with a line."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def read_config(
    path: str | PathLike[str], cpanel: Mapping[str, object] | None = None
) -> tuple[dict[str, object], dict[str, object]]:
    """Reads `main_config` and `create_config` from a file.

    Args:
        path: A `.py` file with both dicts (or one pair `X_config`, `X_create_config`, or `cpanel`
            and `gen_params`); or one tree in `.yaml`, `.yml`, `.toml` or `.json`, whose
            create_config may be missing; or a run folder, whose `config.json` is read; or the name
            of a module (`package.module`). Python files are executed, so name only trusted ones.
        cpanel: Parameters of the control panel to override.

    Returns:
        The two dicts.

    Raises:
        ConfigError: there is no such file, it cannot be read, or a dict is missing.
    """
    found = read_file(path, cpanel)
    return found.main, found.create


def read_file(
    path: str | PathLike[str], cpanel: Mapping[str, object] | None = None, names_only: bool = False
) -> ConfigFile:
    """Reads a config file with its lines; see `read_config`. Names alone: not one in Python."""
    file = Path(path).expanduser()
    if (file / _RECORD).is_file():
        file, path = file / _RECORD, Path(path) / _RECORD
    if not file.is_file():
        if (module := _module_file(path, names_only)) is None:
            raise ConfigError(f"{path}: no such config file", hint=f"looked in {Path.cwd()}")
        found: ConfigFile = find_format("py").read(module, str(path), cpanel, str(path))
        return replace(found, name=str(module))
    suffix = file.suffix.lower().removeprefix(".")
    if suffix == "json":
        found = read_text(file, _json, cpanel)
    else:
        found = _format_of(file, str(path), suffix, names_only).read(file, str(path), cpanel)
    return replace(found, name=str(path))


def is_config(path: str | PathLike[str]) -> bool:
    """Returns whether a path is a file or a run folder, or names a Python module."""
    file = Path(path).expanduser()
    return file.is_file() or (file / _RECORD).is_file() or _module_file(path) is not None


def _module_file(path: str | PathLike[str], names_only: bool = False) -> Path | None:
    """Returns the file of a module (`package.module`); its package is imported to find it."""
    name = str(path)
    suffix = Path(name).suffix.lower().removeprefix(".")
    if _MODULE.fullmatch(name) is None or suffix in ("json", *known(_GROUP)):
        return None
    python = find_format("py", name, names_only)
    return None if python is None else python.find_module(name)


def find_format(name: str, label: str = "", names_only: bool = False) -> Any:
    """Returns the installed format of a suffix (`py`), or None."""
    registry = default()
    if name == "py" and (names_only or registry.switches.names_only):
        what = f"{label}: a config in Python is executed, which --names-only forbids"
        raise ConfigError(what, hint="write it as YAML, TOML or JSON")
    try:
        return registry.load(registry.find(_GROUP, name))
    except UnknownComponentError:
        return None


def _format_of(file: Path, label: str, suffix: str, names_only: bool) -> Any:
    is_name = suffix.isidentifier() and suffix != _PANEL
    if is_name and (found := find_format(suffix, label, names_only)) is not None:
        return found
    if dist := known(_GROUP).get(suffix):
        raise ConfigError(f"{label}: .{suffix} files come with {dist}: {install_line(dist)}")
    names = {"json", *(entry.name for entry in default().entries(_GROUP))} - {_PANEL}
    hint = f"use one of {', '.join(f'.{name}' for name in sorted(names))}"
    what = f"cannot read '{file.suffix}' files" if file.suffix else "the file name has no suffix"
    if suffix in ("zip", "pt", "pth", "safetensors"):
        hint = f"weights of another library: dicore import-weights {file} --run RUN"
    if suffix in ("pkl", "pickle"):
        what, hint = "a pickle runs code when it is read", f"save the config as text; {hint}"
    raise ConfigError(f"{label}: {what}", hint=hint)


def control_panel(label: str) -> Any:
    """Returns the installed control panel."""
    if (found := find_format(_PANEL)) is None:
        dist = known(_GROUP).get(_PANEL, "")
        raise ConfigError(f"{label}: control panels come with {dist}: {install_line(dist)}")
    return found


def read_text(file: Path, parse: Any, cpanel: Mapping[str, object] | None) -> ConfigFile:
    """Reads a file with one tree."""
    with reading(file):
        tree, lines = parse(text_of(file))
        return tree_config(tree, lines, file, cpanel)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Makes each error of a text file a ConfigError that names it."""
    try:
        yield
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply") from None
    except TextError as error:
        raise ConfigError(_at(file, str(error)), hint=error.hint) from error
    except UnicodeDecodeError as error:
        raise not_utf8(file, error) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}") from error


def text_of(file: Path) -> str:
    """Returns the content of a text file that is not too large for a config."""
    if file.stat().st_size > _MAX_BYTES:  # a tree of Python objects takes a hundredfold
        raise TextError(f"over {_MAX_BYTES >> 20} MiB, which is too large for a config")
    return file.read_text(encoding="utf-8")


def not_utf8(file: Path, error: UnicodeDecodeError) -> ConfigError:
    """Returns the error for a file in another encoding."""
    message = f"{file}: not UTF-8 text: {error.reason} at byte {error.start}"
    return ConfigError(message, hint="save the file as UTF-8")


def _at(file: Path, message: str) -> str:
    """Puts a file before a message that may begin with a line."""
    return f"{file}:{message}" if message.partition(":")[0].isdigit() else f"{file}: {message}"


def _json(text: str) -> tuple[Any, dict[str, int]]:
    """Parses JSON; the lines come from the reader of YAML, which JSON nearly is."""
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        why = f"{error.lineno}: {error.msg} (column {error.colno})" if text.strip() else "empty"
        raise TextError(why, hint="write JSON; if a run wrote it, it was damaged") from error
    lines = yaml.lines(text) if (yaml := find_format("yaml")) is not None else {}
    return (tree if lines else json.loads(text, object_pairs_hook=_each_key_once)), lines


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise TextError(f"{key} is given twice")
        found[key] = value
    return found


def tree_config(
    tree: Any, lines: dict[str, int], file: Path, cpanel: Mapping[str, object] | None
) -> ConfigFile:
    """Reads a config from the tree of a file: main and create config, a record, a control panel."""
    tree = {} if tree is None else tree
    if "'__" in repr(tree):  # a tag; the codec imports numpy, which other files do not need
        from dicore.data.json_codec import decode

        tree = decode(tree)
    if not isinstance(tree, Mapping):
        raise TextError(f"expected a section, got {type(tree).__name__}")
    if {"config", "components"} <= tree.keys():  # a run wrote it
        if cpanel:
            raise TextError(
                "cannot override `cpanel` in a saved config", hint="edit the source file"
            )
        main = _section(tree["config"], "config")
        panel = _section(tree.get(_PANEL), _PANEL) or None
        return ConfigFile(main, {}, Lines(_below(lines, "config")), panel, tree, whole=True)
    tree, panel = {key: tree[key] for key in tree if key != "$schema"}, None  # of editors
    if cpanel or _PANEL in tree or names_in(tree, KNOB):
        tree, panel = control_panel(str(file)).fill(tree, cpanel, Lines(lines), str(file))
    if "main_config" not in tree:
        return ConfigFile(tree, {}, Lines(lines), panel)
    extra = sorted(str(key) for key in tree.keys() - {"main_config", "create_config"})
    if extra:
        raise TextError(f"{extra[0]}: is next to main_config; move it inside")
    both = {**_below(lines, "create_config"), **_below(lines, "main_config")}
    main = _section(tree["main_config"], "main_config")
    create = _section(tree.get("create_config"), "create_config")
    return ConfigFile(main, create, Lines(both), panel)


def _section(value: object, name: str) -> dict[str, object]:
    if value is not None and not isinstance(value, Mapping):
        raise TextError(f"{name}: expected a section, got {type(value).__name__} {value!r}")
    return dict(value or {})


def _below(lines: Mapping[str, int], key: str) -> dict[str, int]:
    return {p[len(key) + 1 :]: line for p, line in lines.items() if p.startswith(f"{key}.")}
