"""What of a folder is pushed: the data of a run or a data set, and nothing secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from dicore.console import say
from dicore.errors import UsageError
from dicore.run.atomic import open_regular
from dicore_tools.certificates import NAME as CERTIFICATE

__all__ = ["content", "files_of", "path_problem"]

_OF_RUN: Final = ("config.json", "run.json", "log/metrics.jsonl", "log/evaluator/evaluator.txt")
_CHECKPOINTS: Final = (("ckpt", "best"), ("ckpt", "final"))
"""What is pushed of a run."""
_DATA: Final = ("ckpt", "log", "video")
_FILES: Final = re.compile(
    r"(config|run|certificate)\.json|(formatted_)?total_config\.py|code(_\d+)?\.diff"
)
"""What a run has besides, as folders and files: it is data, for all who may read the run."""
_SECRET: Final = re.compile(
    r"(?!.*\.(npz|npy|h5|hdf5|safetensors|parquet|arrow)$)"
    r"(.*[._-])?(token|secret|password|passwd|credential)s?([._-].*)?|id_(rsa|dsa|ecdsa|ed25519)"
    r"|.*\.(pem|key|p12|pfx|kdbx)",
    re.IGNORECASE,
)
"""Names of what opens something; `policy/token` and its mark of a training on several machines."""
_FOR_OTHERS: Final = 0o044


def files_of(path: Path, *, is_run: bool, everything: bool) -> Iterator[tuple[str, Path]]:
    """Yields what is pushed of a file or folder, and prints what is left out of it.

    Raises:
        UsageError: there is nothing.
    """
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise UsageError(
            f"{path}: no such file or folder",
            hint="name a run folder, or the file or folder of a data set",
        )
    if not is_run and (runs := [each.parent.name for each in sorted(path.glob("*/run.json"))]):
        raise UsageError(f"{path}: a folder of runs", hint=f"push one of them: {path / runs[0]}")
    whole = everything or not is_run or (path / CERTIFICATE).is_file()
    found = 0
    for file in sorted(path.rglob("*")):
        place = PurePosixPath(file.relative_to(path).as_posix())
        if any(part.startswith(".") for part in place.parts):
            continue
        if not (whole or str(place) in _OF_RUN or place.parts[:2] in _CHECKPOINTS):
            continue
        why = _left_out(file, place, is_run=is_run)
        if why:
            say(f"not pushed: {place}: {why}")
        elif not file.is_dir():
            found += 1
            yield str(place), file
    if not found:
        raise UsageError(f"{path}: there is nothing to push")


def _left_out(file: Path, place: PurePosixPath, *, is_run: bool) -> str:
    """Returns why a file is not pushed; "" if it is."""
    if file.is_symlink():
        return "a link"
    if file.is_dir():
        return ""
    if _SECRET.fullmatch(place.name):
        return "it may be a secret, by its name"
    known = place.parts[0] in _DATA or _FILES.fullmatch(str(place))
    if is_run and not known and not file.stat().st_mode & _FOR_OTHERS:
        return "only its owner may read it"
    return ""


def content(file: Path) -> bytes:
    """Returns a file that is pushed.

    Raises:
        UsageError: it cannot be read, or is no regular file.
    """
    try:
        with open_regular(file) as opened:
            return opened.read()
    except OSError as error:
        raise UsageError(f"{file}: cannot be pushed: {error.strerror or error}") from error


def path_problem(path: str) -> str:
    """Returns what is wrong with the path of a file in an item; "" if it leads into its folder."""
    parts = PurePosixPath(path).parts
    bad = not parts or path != "/".join(parts) or not path.isprintable()
    bad = bad or any(each in path for each in "\\:")
    if bad or any(part.startswith((".", "/")) for part in parts):
        return f"{path!r} is no path in its folder"
    return ""
