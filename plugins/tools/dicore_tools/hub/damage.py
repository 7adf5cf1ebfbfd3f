"""Refuses damaged files of an item: what a training could not read is neither pushed nor taken."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from dicore.console import say
from dicore.errors import DicoreError, SchemaError
from dicore.run.atomic import open_regular, read_json
from dicore.run.checkpoint_io import MANIFEST, TENSORS, verify
from dicore_registry.explain import brief

__all__ = ["check_whole"]

_CUT: Final = "it was cut off or damaged: make it again, or take another copy"
_MOST_RATIO: Final = 100
_MOST_BYTES: Final = 2**30
"""Archives that grow beyond both are not unpacked: a stranger's may be made to take forever."""


def check_whole(files: Mapping[str, Path], shown: str) -> None:
    """Checks the files of data sets and checkpoints, every byte; other files are left alone.

    Args:
        files: Files by their path in the item.
        shown: The item, in messages.

    Raises:
        SchemaError: a NumPy archive or an HDF5 file is damaged.
        CheckpointError: a checkpoint, or the folder of a data set, is damaged.
    """
    for path, file in files.items():
        if (check := _CHECKS.get(file.suffix.lower())) is not None:
            _refuse(check, file, shown if Path(shown) == file else f"{shown}/{path}")
    for folder in _sealed(files.values()):
        try:
            verify(folder)
        except DicoreError as error:
            place = next(path for path, file in files.items() if file.parent == folder)
            name = str(Path(shown, place).parent)
            text = error.message.replace(str(folder), name)
            raise type(error)(text, hint=error.hint or _CUT) from error


def _refuse(check: Callable[[Path], None], file: Path, shown: str) -> None:
    try:
        check(file)
    except Exception as error:  # of a stranger's bytes: any
        raise SchemaError(f"{shown}: cannot be read: {brief(error)}", hint=_CUT) from error


def _sealed(files: Iterable[Path]) -> list[Path]:
    """Returns the folders that dicore sealed: with its tensors, or a manifest of its own."""
    found = dict.fromkeys(
        file.parent for file in files
        if file.name == TENSORS or (file.name == MANIFEST and _is_manifest(file))
    )  # fmt: skip
    return list(found)


def _is_manifest(file: Path) -> bool:
    """Returns whether a `manifest.json` is one of dicore; others have files of this name too."""
    try:
        return dict(read_json(file)).get("format") == "dicore-state"
    except (OSError, ValueError, TypeError):
        return False


def _archive(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        size = sum(each.file_size for each in archive.infolist())
        if size > max(_MOST_RATIO * file.stat().st_size, _MOST_BYTES):
            say(f"{file.name}: not checked for damage: it grows to {size / 2**30:.1f} GiB")
            return
        if (member := archive.testzip()) is not None:
            raise ValueError(f"{member} has another checksum")


def _hdf5(file: Path) -> None:
    """Compares the size of a file with that in its superblock (HDF5 File Format 3.0, II.A)."""
    with open_regular(file) as opened:
        head, size, at = opened.read(48), file.stat().st_size, 512
        while not head.startswith(b"\x89HDF\r\n\x1a\n"):  # or what a user wrote is before it
            if at >= size:
                raise ValueError("not an HDF5 file")
            opened.seek(at)
            head, at = opened.read(48), 2 * at
    base, end = (12, 28) if head[8] >= 2 else (24, 40)
    if head[9 if head[8] >= 2 else 13] != 8:  # bytes of an address
        return
    first, last = (int.from_bytes(head[at : at + 8], "little") for at in (base, end))
    if first + last > size and at == 512:
        raise ValueError(f"it has {size} bytes, expected {first + last}")


_CHECKS: Final = {".npz": _archive, ".hdf5": _hdf5, ".h5": _hdf5}
