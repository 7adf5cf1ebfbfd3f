"""Values that stand elsewhere: `${env:NAME}` and, in files with a control panel, `${cpanel.NAME}`.

`${env:NAME}` is the text of a variable of the environment. It is looked up when a config is
compiled; the saved forms keep the reference, so a secret never gets into a file. An option that is
no text takes what the command line would take (`${env:LR}` may be 1e-3). `${cpanel.NAME}` is the
value of a knob, whatever its type; inside of a longer text it is written out.

A text that really means `${env:NAME}` is written with one more dollar: `$${env:NAME}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ENV", "KNOB", "escaped", "is_whole", "names_in", "resolve"]

ENV = re.compile(r"(\$+)\{env:([A-Za-z_]\w*)\}")
KNOB = re.compile(r"(\$+)\{cpanel\.([\w.-]+)\}")


def names_in(value: Any, pattern: re.Pattern[str] = ENV) -> bool:
    """Says whether a text or anything inside of a container looks like a reference."""
    if isinstance(value, str):
        return "${" in value and pattern.search(value) is not None
    if isinstance(value, Mapping):
        return any(names_in(item, pattern) for item in value.values())
    return isinstance(value, list | tuple) and any(names_in(item, pattern) for item in value)


def is_whole(text: str, pattern: re.Pattern[str] = ENV) -> str | None:
    """Returns the name where a text is one reference and nothing else, else None."""
    match = pattern.fullmatch(text)
    return match[2] if match is not None and match[1] == "$" else None


def resolve(
    value: Any,
    path: str,
    find: Callable[[str, str], Any] | None = None,
    pattern: re.Pattern[str] = ENV,
    noted: dict[str, str] | None = None,
) -> Any:
    """Replaces the references in a value, in the items of lists and dicts too.

    Args:
        value: What a layer says.
        path: Where it stands.
        find: Returns the value of a name at a path; None reads the environment, and raises
            KeyError for a variable that is not set.
        pattern: Which references.
        noted: Takes the text of each reference by its path.
    """
    if isinstance(value, Mapping):
        return {
            key: resolve(item, f"{path}.{key}", find, pattern, noted) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        items = (
            resolve(item, f"{path}[{i}]", find, pattern, noted) for i, item in enumerate(value)
        )
        return type(value)(items)
    if not isinstance(value, str) or not names_in(value, pattern):
        return value
    read = find or (lambda name, _: os.environ[name])
    if (name := is_whole(value, pattern)) is not None:
        if noted is not None:
            noted[path] = value
        return read(name, path)
    if noted is not None and any(match[1] == "$" for match in pattern.finditer(value)):
        noted[path] = value

    def written(match: re.Match[str]) -> str:
        if match[1] == "$":
            return str(read(match[2], path))
        return match[0][1:]

    return pattern.sub(written, value)


def escaped(text: str) -> str:
    """Writes a text so that `resolve` gives it back: what looks like a reference is none."""
    return ENV.sub(lambda match: f"${match[0]}", text) if "${env:" in text else text
