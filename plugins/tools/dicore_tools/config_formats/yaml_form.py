"""A config as YAML that can be read back: exact values, with their origins as comments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from math import inf
from typing import Any

from dicore.config.paths import join
from dicore.data.json_codec import encode

__all__ = ["yaml_source"]

_BREAKS = re.compile(r"[\n\r\x85\u2028\u2029\ufeff]")
_OPEN = (":", "|", ">", "|-", ">-", "|+", ">+")


def yaml_source(
    tree: Mapping[str, Any], origin: Mapping[str, str], *, comments: bool = False
) -> str:
    """Writes a config as YAML, which is a config file again.

    Args:
        tree: Its values as nested dicts.
        origin: Origin of each value, by path.
        comments: Write the origin behind each value.
    """
    import yaml

    from dicore_tools.config_formats.text_files import node_lines

    tree = _without_float_tags(encode(_with_lists(tree, "", origin)))
    text: str = yaml.dump(tree, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=inf)
    if not comments:
        return text
    lines = text.split("\n")
    places = node_lines(yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    for path, number in places.items():
        source = origin.get(path)
        if source and not lines[number - 1].rstrip().endswith(_OPEN):
            lines[number - 1] += f"  # {source}"
    return "\n".join(lines)


@cache
def _dumper() -> object:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Escapes all line breaks of YAML, so that a value is one line."""

    def text(dumper: Any, value: str) -> Any:
        style = '"' if _BREAKS.search(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def _with_lists(tree: Any, path: str, origin: Mapping[str, str]) -> Any:
    """Writes lists of components as lists; compile makes tuples of them anyway."""
    if isinstance(tree, Mapping):
        return {key: _with_lists(value, join(path, key), origin) for key, value in tree.items()}
    are_parts = path in origin and (not tree or f"{path}[0].type" in origin)
    if isinstance(tree, tuple) and are_parts:
        return [_with_lists(item, f"{path}[{i}]", origin) for i, item in enumerate(tree)]
    return tree


def _without_float_tags(tree: Any) -> Any:
    """Removes the tags of inf and nan, which YAML can write itself."""
    if isinstance(tree, dict):
        if tree.keys() == {"__float__"}:
            return float(tree["__float__"])
        return {key: _without_float_tags(value) for key, value in tree.items()}
    return [_without_float_tags(item) for item in tree] if isinstance(tree, list) else tree
