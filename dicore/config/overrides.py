"""`a.b=c` of the command line: one value by its path, read the way YAML would read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dicore.config.leaf import shortened
from dicore.config.plain import plain
from dicore.config.problems import Problems
from dicore.config.secrets import is_secret
from dicore.errors import ConfigError

__all__ = ["override_tree", "parse_override", "parse_value"]

_WORDS = {
    "null": None,
    "none": None,
    "~": None,
    "": "",
    "true": True,
    "false": False,
}
_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.?(inf|nan)", re.IGNORECASE
)
_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")
_STRUCTURED = ("[", "{", '"', "'")

Overrides = Sequence[str | Mapping[str, Any]] | Mapping[str, Any]


def parse_override(text: str) -> tuple[str, Any]:
    """Splits `policy.learn.batch_size=128` into path and value.

    Args:
        text: Path, `=`, and a value as for `parse_value`.

    Raises:
        ConfigError: there is no `=`, no path, or the value cannot be read.
    """
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals:
        raise ConfigError(f"{text}: expected PATH=VALUE, as in policy.learn.batch_size=128")
    if "[" in path:
        whole = path.partition("[")[0]
        raise ConfigError(f"{path}: items of a list cannot be set by themselves; give {whole}=[…]")
    if not _PATH.fullmatch(path):
        raise ConfigError(f"{text}: {path!r} is no path; expected PATH=VALUE")
    try:
        return path, parse_value(value.strip())
    except ValueError as error:
        said = "it" if is_secret(path) else shortened(value.strip())
        raise ConfigError(f"{path}: cannot read {said}: {error}") from error


def parse_value(text: str) -> Any:
    """Reads null, booleans, numbers (`1e-3`, `inf`), lists, dicts and quoted or bare text.

    Raises:
        ValueError: a list, a dict or a quoted text does not end well.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not text.startswith(_STRUCTURED):
        return text
    import yaml

    try:
        return _from_node(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(getattr(error, "problem", None) or error)) from error


def _from_node(node: Any) -> Any:
    """Turns YAML's parse into values: quoted text stays text, bare words are read as above."""
    if node.id == "sequence":
        return [_from_node(item) for item in node.value]
    if node.id == "mapping":
        return {key.value: _from_node(item) for key, item in node.value}
    return node.value if node.style else parse_value(node.value)


def override_tree(overrides: Overrides, problems: Problems) -> dict[str, Any]:
    """Puts overrides into one tree; of two for one path the later counts.

    Args:
        overrides: A dict whose keys may be paths, or a list of such and of `a.b=c` texts (one that
            begins with `{` is a JSON object).
        problems: Takes what cannot be read.
    """
    tree: dict[str, Any] = {}
    pairs: list[tuple[str, Any]] = []
    for said in [overrides] if isinstance(overrides, Mapping) else overrides:
        try:
            pairs.extend(_pairs(said))
        except ConfigError as error:
            problems.add("", error.message)
        except json.JSONDecodeError as error:
            problems.add("", f"{{…}}: not a JSON object: {error}")
    for path, value in pairs:
        _put(tree, path.split("."), plain(value))
    return tree


def _pairs(said: str | Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    if isinstance(said, Mapping):
        return said.items()
    return json.loads(said).items() if said.startswith("{") else [parse_override(said)]


def _put(tree: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    *above, last = keys
    for key in above:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {"type": below} if isinstance(below, str) else {}
        tree = below
    held = tree.get(last)
    if isinstance(held, dict) and isinstance(value, Mapping):
        for key, item in value.items():
            _put(held, [key], item)
    elif isinstance(held, dict) and isinstance(value, str):
        held["type"] = value
    else:
        tree[last] = value
