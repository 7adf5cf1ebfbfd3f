"""Reads config files in Python; the file is executed.

A file defines `main_config` and `create_config`, or a control panel:

    cpanel = {"lr": 1e-3, "workers": 8}

    def gen_params(cpanel):
        return main_config, create_config      # or a dict with both
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dicore.config.layers import Lines
from dicore.config.reader import ConfigFile, not_utf8
from dicore.errors import ConfigError
from dicore_registry.explain import brief
from dicore_registry.public_names import public_name
from dicore_tools.config_formats.control_panel import apply_overrides, gen_params
from dicore_tools.config_formats.python_form import WHOLE
from dicore_tools.config_formats.python_lines import python_lines
from dicore_tools.slow_code import named_if_slow

__all__ = ["PYTHON", "PythonFormat"]


_DI_ENGINE = ("easydict", "ding", "dizoo")
_PATIENCE = 10.0
"""Seconds after which a file that still runs is named, with the line that it is at."""


class PythonFormat:
    """Config files and modules in Python."""

    def read(
        self, file: Path, label: str, cpanel: Mapping[str, Any] | None, module: str = ""
    ) -> ConfigFile:
        """Reads a file; see `dicore.config.reader`.

        Args:
            file: The file.
            label: The path as the user wrote it.
            cpanel: Parameters of its control panel to override.
            module: Its name, if it is a module to be imported by name.
        """
        if not module and (absent := absent_imports(_text(file))):
            apply_overrides(None, cpanel, str(file))
            what = f"{label}: a config of DI-engine ({', '.join(absent)} not installed)"
            read = public_name("read_config_of_di_engine", f"reading {label}, of DI-engine")
            config: ConfigFile = read(file, label, what)
            return config
        run = partial(runpy.run_module, module) if module else partial(runpy.run_path, str(file))
        names = _run(file, lambda: run(run_name="dicore_config_file"))
        maker = names.get("gen_params")
        panel = None
        if "cpanel" in names or callable(maker):
            panel = apply_overrides(names.get("cpanel", {}), cpanel, str(file))
            made = _run(file, lambda: gen_params(maker, panel or {}, names, str(file)))
            main, create = zip(("main_config", "create_config"), made, strict=True)
        else:
            apply_overrides(None, cpanel, str(file))
            main, create = _pair(names, label)
        lines = python_lines(_text(file), main, create, panel is not None)
        whole = str(names.get("__doc__")).startswith(WHOLE)
        return ConfigFile(dict(main[1]), dict(create[1]), Lines(lines), panel, whole=whole)

    def find_module(self, name: str) -> Path | None:
        """Returns the file of a module; its package is imported to find it.

        Raises:
            ConfigError: there is such a package, and importing it fails.
        """
        try:
            spec = importlib.util.find_spec(name)
        except (Exception, SystemExit) as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing and f"{name}.".startswith(f"{missing}."):
                return None
            raise ConfigError(f"{name}: its package failed to import: {brief(error)}") from error
        origin = spec.origin if spec is not None else None
        return Path(origin) if origin is not None and origin.endswith(".py") else None


PYTHON = PythonFormat()


def absent_imports(text: str) -> list[str]:
    """Returns which packages of DI-engine a file imports or names that are not installed."""
    here = "^(from|import) {0}\\b|[\"']{0}\\."
    names = [name for name in _DI_ENGINE if re.search(here.format(name), text, re.MULTILINE)]
    return [name for name in names if importlib.util.find_spec(name) is None]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(file, error) from error
    except OSError as error:
        raise ConfigError(f"{file}: {error}") from error


def _run(file: Path, run: Callable[[], Any]) -> Any:
    """Runs the code of a config file; an error names the line of the file.

    Raises:
        ConfigError: the code raised something.
    """
    try:
        with named_if_slow("the config file", _PATIENCE, file):
            return run()
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)
        message = str(error)
        if isinstance(error, SyntaxError) and (error.filename == str(file) or line is None):
            line, message = error.lineno, error.msg
        place = f"{file}:{line}" if line else str(file)
        raise ConfigError(f"{place}: {type(error).__name__}: {message}") from error


def _pair(names: Mapping[str, Any], path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the two dicts, with their names, that a Python file defines."""
    pair: list[tuple[str, Mapping[str, Any]]] = []
    hint = ""
    for wanted, suffix in (("main_config", "_config"), ("create_config", "_create_config")):
        if isinstance(names.get(wanted), Mapping):
            pair.append((wanted, names[wanted]))
            continue
        others = _named(names, suffix, wanted == "create_config")
        if len(others) != 1:
            some = f" ({', '.join(others)}: which one?)" if others else ""
            if not pair and not others:
                some, hint = _instead(names, path)
            raise ConfigError(
                f"{path}: '{wanted}' is missing{some}", hint=hint or f"define {wanted} = {{…}}"
            )
        pair.append((others[0], names[others[0]]))
    return pair


def _instead(names: Mapping[str, Any], path: str) -> tuple[str, str]:
    """Returns what a file without a config defines, for a message, and a hint: what to write."""
    own = {
        name: each
        for name, each in names.items()
        if getattr(each, "__module__", "") == names.get("__name__") and not name.startswith("_")
    }
    classes = [name for name, each in own.items() if isinstance(each, type)]
    envs = [name for name in classes if all(hasattr(own[name], f) for f in ("reset", "step"))]
    if envs:
        file = path if path.endswith(".py") else f"{path.replace('.', '/')}.py"
        hint = f"name it as the environment: -e {file}:{envs[0]} -p dqn (or another policy)"
        return f"; the file has {_listed('environment', envs)}, and no config", hint
    found = [_listed("class", classes), _listed("function", [n for n in own if n not in classes])]
    text = " and ".join(filter(None, found)) or "nothing that is a config"
    example = "main_config = dict(env='cartpole', policy='dqn') and create_config = {}"
    return f"; the file has {text}", f"define {example}"


def _listed(what: str, names: Sequence[str], most: int = 3) -> str:
    """Returns `the class A` or `classes A, B, …`."""
    if len(names) < 2:
        return f"the {what} {names[0]}" if names else ""
    more = ", …" if len(names) > most else ""
    return f"{what}{'es' if what.endswith('s') else 's'} {', '.join(names[:most])}{more}"


def _named(names: Mapping[str, Any], suffix: str, create: bool) -> list[str]:
    return [
        name
        for name, value in names.items()
        if name.endswith(suffix)
        and isinstance(value, Mapping)
        and name.endswith("_create_config") == create
        and name not in ("main_config", "create_config", "system_config")
    ]
