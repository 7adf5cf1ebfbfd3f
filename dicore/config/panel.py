"""The control panel of a config file: few knobs that the other values are made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config.exact import is_array, loads
from dicore.config.leaf import Mismatch, convert, got
from dicore.config.lines import Lines
from dicore.config.nearest import nearest
from dicore.config.plain import plain
from dicore.config.references import KNOB, names_in, resolve
from dicore.config.secrets import conceal, is_secret
from dicore.errors import ConfigError

__all__ = ["gen_params", "knobs", "parse_knobs", "refer"]

_EXAMPLE = "as in --cpanel '{\"lr\": 0.001}'"
_NONE = "declare it in the file, as in cpanel = {'lr': 0.001}"


def knobs(declared: Any, wanted: Mapping[str, Any] | None, file: str) -> dict[str, Any] | None:
    """Turns knobs.

    Args:
        declared: The panel with its defaults; None for a file without one.
        wanted: Knobs by name with their new values; a section of knobs may be given in part.
        file: For messages.

    Returns:
        All knobs; a list given for a tuple or an array becomes one. None without a panel.

    Raises:
        ConfigError: there is no such knob, or a value is not of the type of the default.
    """
    if declared is None:
        if wanted:
            raise ConfigError(f"{file}: has no cpanel, but {', '.join(wanted)} is set", hint=_NONE)
        return None
    if not isinstance(declared, Mapping):
        raise ConfigError(f"{file}: cpanel: expected a section, got {got(declared)}")
    problems: list[str] = []
    turned = _turned(declared, wanted or {}, "cpanel", problems)
    if problems:
        raise ConfigError(sorted(problems))
    return turned


def _turned(
    declared: Mapping[str, Any], wanted: Mapping[str, Any], path: str, problems: list[str]
) -> dict[str, Any]:
    turned = {key: plain(value) for key, value in declared.items()}
    for key, value in wanted.items():
        at = f"{path}.{key}"
        if key not in declared:
            close = nearest(str(key), [str(known) for known in declared], ())
            hint = f"did you mean '{close}'?" if close else f"there are {', '.join(declared)}"
            problems.append(f"{at}: no such knob; {hint}")
        elif isinstance(declared[key], Mapping) and isinstance(value, Mapping):
            turned[key] = _turned(declared[key], value, at, problems)
        else:
            try:
                turned[key] = _like(declared[key], value, at)
            except Mismatch as wrong:
                for where, said in wrong.findings:
                    problems.append(f"{where}: {conceal(said) if is_secret(where) else said}")
    return turned


def _like(default: Any, value: Any, path: str) -> Any:
    """Returns a value as the type of the default that it replaces."""
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


def parse_knobs(text: str) -> dict[str, Any]:
    """Reads the knobs that a command line turns.

    Args:
        text: A JSON object; a tuple is `{"__tuple__": [1, 2]}`, an array
            `{"__array__": ["float32", [1, 2]]}`, and where the default of the knob is one, a list.

    Raises:
        ConfigError: it is no JSON object.
    """
    try:
        found = loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"cpanel: not a JSON object: {error}", hint=_EXAMPLE) from None
    if not isinstance(found, dict):
        raise ConfigError(f"cpanel: not a JSON object, but {type(found).__name__}", hint=_EXAMPLE)
    return found


def gen_params(
    maker: Any, panel: Mapping[str, Any], names: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls a config file's `gen_params(cpanel)`.

    Args:
        maker: The function.
        panel: Its knobs.
        names: What else the file defines: `create_config`, where the function returns one dict.
        file: For messages.

    Raises:
        ConfigError: there is no such function, or it returns no config.
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
            f" got {got(made)}"
        )
    return dict(main), dict(create)


def refer(tree: dict[str, Any], panel: dict[str, Any] | None, lines: Lines, file: str) -> Any:
    """Puts the values of knobs where a tree refers to them.

    Raises:
        ConfigError: a reference names no knob.
    """
    if not names_in(tree, KNOB):
        return tree
    problems: list[str] = []

    def find(name: str, path: str) -> Any:
        held: Any = panel or {}
        for key in name.split("."):
            known = list(held) if isinstance(held, Mapping) else []
            if key not in known:
                close = nearest(key, known, ())
                hint = f"; did you mean '{close}'?" if close else ""
                line = lines.find(path)
                place = f"{file}:{line}" if line else file
                said = "the file has no cpanel" if panel is None else f"no such knob{hint}"
                problems.append(f"{path}: ${{cpanel.{name}}}: {said} ({place})")
                return None
            held = held[key]
        return plain(held)

    filled = {key: resolve(value, str(key), find, KNOB) for key, value in tree.items()}
    if problems:
        raise ConfigError(sorted(problems))
    return filled
