"""What a client may name: paths below one folder, registered names, and options without paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dicore.errors import UsageError
from dicore_tools.reports.curves import find_runs

__all__ = [
    "below",
    "check_texts",
    "config_of",
    "folder_of",
    "name_of",
    "override",
    "runs_of",
    "target_of",
]

_TEXTS: Final = (".yaml", ".yml", ".toml", ".json")
_PATH: Final = re.compile(r"(?<![\w-])/|\.\.|[~\\]")
"""Begins a path that may lead out of the folder; `package/name` has none."""
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_PRESET: Final = re.compile(r"[A-Za-z0-9][\w-]{0,99}")
"""No dot: a name with one may be that of a module."""
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and halves of characters, which no argument of a process may have."""
_MOST_LETTERS: Final = 4096


def check_texts(given: object) -> None:
    """Checks every text of the arguments of a call.

    Raises:
        UsageError: one has a control character, or is too long.
    """
    if isinstance(given, str):
        if _UNPRINTABLE.search(given):
            raise UsageError(f"{given[:100]!a}: control characters are not accepted")
        if len(given) > _MOST_LETTERS:
            raise UsageError(f"{given[:100]!r}…: longer than {_MOST_LETTERS} letters")
    elif isinstance(given, dict | list):
        for each in given.values() if isinstance(given, dict) else given:
            check_texts(each)


def below(root: Path, text: str) -> Path:
    """Returns the path that a text names, which is below the root, links followed.

    Raises:
        UsageError: it leads out of the root, or there is nothing.
    """
    path = target_of(root, root / text)
    if path is None:
        raise UsageError(f"{text!r}: not below the root of this server")
    if not path.exists():
        raise UsageError(f"{text!r}: no such file or folder below the root of this server")
    return path


def folder_of(root: Path, text: str) -> Path:
    """Returns the file or folder that a text names; neither it nor a link in it leads out.

    Raises:
        UsageError: it does, or there is nothing.
    """
    path = below(root, text)
    for link in _links(root, path):
        if target_of(root, link) is None:
            where = link.relative_to(root)
            raise UsageError(f"{text!r}: {str(where)!r} is a link out of the root of this server")
    return path


def runs_of(root: Path, texts: Iterable[str]) -> list[Path]:
    """Returns the runs in folders and summaries, each checked as if a client had named it.

    Raises:
        UsageError: one leads out of the root, or there are no runs.
    """
    found = find_runs([below(root, text) for text in texts])
    return [folder_of(root, str(run.path)) for run in found]


def target_of(root: Path, path: Path) -> Path | None:
    """Returns where a path leads; None: out of the root, or nowhere."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links in a circle
        return None
    return target if target.is_relative_to(root) else None


def _links(root: Path, path: Path) -> Iterator[Path]:
    """Yields the links in a folder, and those in the folders of the root that they lead to."""
    todo, seen = [path], {path}
    while todo:
        for at, folders, files in os.walk(todo.pop()):
            for link in filter(Path.is_symlink, (Path(at, name) for name in (*folders, *files))):
                yield link
                target = target_of(root, link)
                if target is not None and target not in seen:
                    seen.add(target)
                    todo.append(target)


def config_of(root: Path, text: str) -> str:
    """Returns a config as a command takes it: a text file or a run below the root, or a preset.

    Raises:
        UsageError: it is a Python file, which would be executed, or not below the root.
    """
    if _PRESET.fullmatch(text) and not (root / text).exists():
        return text
    path = folder_of(root, text)
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
        UsageError: it is not of this form, names the folder of the run or modules, or has a path.
    """
    path, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.\[\]]*", path):
        raise UsageError(f"{text!r}: not an option of the form a.b=c")
    if path == "exp_name" or _PATH.search(value):
        raise UsageError(f"{text!r}: paths are not accepted in options")
    if "import_names" in text:
        raise UsageError(f"{text!r}: this server imports no modules that an option names")
    return text
