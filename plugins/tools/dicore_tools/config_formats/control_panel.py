"""The control panel of a config file: a few parameters from which the other values are derived.

In YAML, TOML and JSON `cpanel` is a section at the top, and a value refers to a parameter by
`${cpanel.lr}`; a Python file defines `cpanel` and a function `gen_params(cpanel)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config.convert import Mismatch, convert, describe_value
from dicore.config.layers import Lines
from dicore.config.paths import plain
from dicore.config.reader import ConfigFile
from dicore.config.redact import KNOB, conceal, is_secret, names_in, resolve
from dicore.config.sections import Compiled
from dicore.data.json_codec import dumps, is_array, loads
from dicore.errors import ConfigError
from dicore_registry import nearest

__all__ = ["PANEL", "ControlPanel", "apply_overrides", "gen_params", "run_files"]

_EXAMPLE = "as in --cpanel '{\"lr\": 0.001}'"
_NO_PANEL = "declare it in the file, as in cpanel = {'lr': 0.001}"


class ControlPanel:
    """The control panel of config files, found by the core as the config format `cpanel`."""

    def parse(self, text: str) -> dict[str, Any]:
        """Reads the overrides of a command line.

        Args:
            text: A JSON object; a tuple is `{"__tuple__": [1, 2]}`, an array
                `{"__array__": ["float32", [1, 2]]}`, and if the default is one of these, a list.

        Raises:
            ConfigError: it is not a JSON object.
        """
        try:
            overrides = loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"cpanel: not a JSON object: {error}", hint=_EXAMPLE) from None
        if not isinstance(overrides, dict):
            kind = type(overrides).__name__
            raise ConfigError(f"cpanel: not a JSON object, but {kind}", hint=_EXAMPLE)
        return overrides

    def fill(
        self,
        tree: dict[str, Any],
        overrides: Mapping[str, Any] | None,
        lines: Lines,
        file: str,
    ) -> tuple[dict[str, object], dict[str, object] | None]:
        """Returns a tree without its panel, references replaced, and the panel's parameters.

        Raises:
            ConfigError: an override or a reference names no parameter.
        """
        panel = apply_overrides(tree.pop("cpanel", None), overrides, file)
        return substitute(tree, panel, lines, file), panel

    def read_dict(
        self, main: Mapping[str, Any], overrides: Mapping[str, object] | None
    ) -> ConfigFile | None:
        """Reads `{"cpanel": …, "gen_params": …}`; any other dict has no panel to override.

        Raises:
            ConfigError: there is no such parameter, or `gen_params` returns no config.
        """
        if "gen_params" not in main:
            apply_overrides(None, overrides, "config")
            return None
        panel = apply_overrides(main.get("cpanel", {}), overrides, "config")
        return ConfigFile(
            *gen_params(main["gen_params"], panel or {}, main, "config"), cpanel=panel
        )


PANEL = ControlPanel()


def run_files(compiled: Compiled, record: Mapping[str, Any]) -> dict[str, str]:
    """Returns `cpanel.json`, and `params.yaml` with the values derived from the panel."""
    from dicore_tools.config_formats.yaml_form import yaml_source

    return {
        "cpanel.json": dumps(record["cpanel"]) + "\n",
        "params.yaml": yaml_source(record["config"], compiled.origin),
    }


def apply_overrides(
    declared: object, overrides: Mapping[str, object] | None, file: str
) -> dict[str, Any] | None:
    """Overrides parameters of a panel.

    Args:
        declared: The panel with its defaults; None for a file without one.
        overrides: New values by name; a section of parameters may be given in part.
        file: For messages.

    Returns:
        All parameters; a list given for a tuple or an array becomes one. None without a panel.

    Raises:
        ConfigError: there is no such parameter, or a value has another type than the default.
    """
    if declared is None:
        if overrides:
            names = ", ".join(overrides)
            raise ConfigError(f"{file}: has no cpanel, but {names} is set", hint=_NO_PANEL)
        return None
    if not isinstance(declared, Mapping):
        raise ConfigError(f"{file}: cpanel: expected a section, got {describe_value(declared)}")
    problems: list[str] = []
    panel = _overridden(declared, overrides or {}, "cpanel", problems)
    if problems:
        raise ConfigError(sorted(problems))
    return panel


def _overridden(
    declared: Mapping[str, Any], overrides: Mapping[str, object], path: str, problems: list[str]
) -> dict[str, object]:
    panel = {key: plain(value) for key, value in declared.items()}
    for key, value in overrides.items():
        at = f"{path}.{key}"
        if key not in declared:
            close = nearest(str(key), [str(known) for known in declared])
            hint = f"did you mean '{close}'?" if close else f"expected {', '.join(declared)}"
            problems.append(f"{at}: no such parameter; {hint}")
        elif isinstance(declared[key], Mapping) and isinstance(value, Mapping):
            panel[key] = _overridden(declared[key], value, at, problems)
        else:
            try:
                panel[key] = _like(declared[key], value, at)
            except Mismatch as wrong:
                for where, message in wrong.findings:
                    shown = conceal(message) if is_secret(where) else message
                    problems.append(f"{where}: {shown}")
    return panel


def _like(default: Any, value: Any, path: str) -> object:
    """Converts a value to the type of the default that it replaces."""
    if default is None or value is None:
        return plain(value)
    if is_array(default):
        import numpy

        try:
            return numpy.array(value, dtype=default.dtype)
        except (TypeError, ValueError) as error:
            raise Mismatch([(path, f"expected an array of {default.dtype}: {error}")]) from None
    if is_array(value):
        value = value.tolist()
    return convert(value, dict if isinstance(default, Mapping) else type(default), path)


def gen_params(
    maker: Any, panel: Mapping[str, object], names: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls a config file's `gen_params(cpanel)`.

    Args:
        maker: The function.
        panel: Its parameters.
        names: What else the file defines: `create_config`, where the function returns one dict.
        file: For messages.

    Raises:
        ConfigError: there is no such function, or it does not return a config.
    """
    if not callable(maker):
        raise ConfigError(
            f"{file}: declares cpanel, but no gen_params(cpanel)",
            hint="define gen_params(cpanel) -> main_config, create_config",
        )
    made = maker(plain(panel))
    if isinstance(made, list | tuple) and len(made) == 2:
        main, create = made
    elif isinstance(made, Mapping) and made.keys() <= {"main_config", "create_config"}:
        main, create = made.get("main_config"), made.get("create_config")
    else:
        main, create = made, names.get("create_config")
    main, create = ({} if half is None else half for half in (main, create))
    if not (isinstance(main, Mapping) and isinstance(create, Mapping)):
        raise ConfigError(
            f"{file}: gen_params must return main_config, create_config (or a dict with both),"
            f" got {describe_value(made)}"
        )
    return dict(main), dict(create)


def substitute(
    tree: dict[str, Any], panel: dict[str, object] | None, lines: Lines, file: str
) -> dict[str, object]:
    """Replaces the references of a tree by the values of parameters.

    Raises:
        ConfigError: a reference names no parameter.
    """
    if not names_in(tree, KNOB):
        return tree
    problems: list[str] = []

    def find(name: str, path: str) -> object:
        value: Any = panel or {}
        for key in name.split("."):
            known = list(value) if isinstance(value, Mapping) else []
            if key not in known:
                close = nearest(key, known)
                hint = f"; did you mean '{close}'?" if close else ""
                line = lines.find(path)
                place = f"{file}:{line}" if line else file
                message = "the file has no cpanel" if panel is None else f"no such parameter{hint}"
                problems.append(f"{path}: ${{cpanel.{name}}}: {message} ({place})")
                return None
            value = value[key]
        return plain(value)

    filled = {key: resolve(value, str(key), find, KNOB) for key, value in tree.items()}
    if problems:
        raise ConfigError(sorted(problems))
    return filled
