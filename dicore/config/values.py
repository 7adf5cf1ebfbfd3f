"""From what a layer says of an option to its value: references looked up, the type as declared."""

from __future__ import annotations

import os
from typing import Any

from dicore.config.leaf import Mismatch, convert, type_name
from dicore.config.overrides import parse_value
from dicore.config.references import is_whole, names_in, resolve
from dicore.config.secrets import REDACTED, redacted_paths

__all__ = ["take"]

_SAFE = "give it again, best as ${env:NAME}"


def take(value: Any, hint: Any, path: str, references: dict[str, str]) -> Any:
    """Returns a value as the type `hint`, once the references in it are looked up.

    Args:
        value: What a layer says.
        hint: The type that the option declares.
        path: Where it stands.
        references: Takes each reference by its path.

    Raises:
        Mismatch: it is of another type, or a variable of the environment is not set, or a secret
            was left out when the value was saved.
    """
    if left_out := list(redacted_paths(value, path)):
        raise Mismatch([(at, f"was {REDACTED} when it was saved; {_SAFE}") for at in left_out])
    if not names_in(value):
        return convert(value, hint, path)
    missing: list[tuple[str, str]] = []

    def find(name: str, at: str) -> str:
        if name not in os.environ:
            missing.append((at, f"the environment variable '{name}' is not set"))
        return os.environ.get(name, "")

    found = resolve(value, path, find, noted=references)
    if missing:
        raise Mismatch(missing)
    try:
        return convert(found, hint, path)
    except Mismatch:
        if not (isinstance(value, str) and is_whole(value)):
            raise
    try:
        return convert(parse_value(found), hint, path)
    except (Mismatch, ValueError):
        text = f"expected {type_name(hint)}, which {value} is not"
        raise Mismatch([(path, text)]) from None
