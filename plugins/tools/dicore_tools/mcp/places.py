"""What a client may name: paths below one folder, registered names, and options without paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dicore.errors import UsageError

__all__ = ["below", "config_of", "name_of", "override"]

_TEXTS: Final = (".yaml", ".yml", ".toml", ".json")
_PATH: Final = re.compile(r"(?<![\w-])/|\.\.|[~\\]")
"""Begins a path that may lead out of the folder; `package/name` has none."""
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


def below(root: Path, text: str) -> Path:
    """Returns the path that a text names, which is below the root, links followed.

    Raises:
        UsageError: it leads out of the root, or there is nothing.
    """
    path = (root / text).resolve()
    if "\0" in text or not path.is_relative_to(root):
        raise UsageError(f"{text!r}: not below the root of this server")
    if not path.exists():
        raise UsageError(f"{text!r}: no such file or folder below the root of this server")
    return path


def config_of(root: Path, text: str) -> str:
    """Returns a config as a command takes it: a text file or a run below the root, or a preset.

    Raises:
        UsageError: it is a Python file, which would be executed, or not below the root.
    """
    if _NAME.fullmatch(text) and not (root / text).exists():
        return text
    path = below(root, text)
    if path.is_file() and path.suffix.lower() not in _TEXTS:
        raise UsageError(f"{text!r}: not a config of text", hint=f"one of {', '.join(_TEXTS)}")
    return str(path)


def name_of(text: str) -> str:
    """Returns a name of a new run folder.

    Raises:
        UsageError: it is not a name of letters, digits and . _ -.
    """
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r}: not a name of letters, digits and . _ -")
    return text


def override(text: str) -> str:
    """Returns an option as a command takes it, `a.b=c`.

    Raises:
        UsageError: it is not of this form, names the folder of the run, or has a path.
    """
    path, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.\[\]]*", path):
        raise UsageError(f"{text!r}: not an option of the form a.b=c")
    if path == "exp_name" or _PATH.search(value):
        raise UsageError(f"{text!r}: paths are not accepted in options")
    return text
