"""Arrays inside files: memory maps where they lie there as they are, and content hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dicore.data.tree import Array
from dicore.errors import DicoreError, SchemaError, UsageError
from dicore.run.atomic import sync_folder, temporary
from dicore_plugins.buffers.memory import available_bytes
from dicore_registry.explain import brief

__all__ = ["SPACES", "check_fits", "existing", "fingerprint_of", "mapped", "reading", "replaced"]

SPACES = ("observation_space", "action_space")
"""Names of the spaces in files."""


def existing(path: str, *, folder: bool = False) -> Path:
    """Returns the path of a file or a folder that exists.

    Raises:
        UsageError: it does not exist, or is the other.
    """
    found = Path(path).expanduser()
    if found.is_dir() if folder else found.is_file():
        return found
    kind = "folder" if folder else "file"
    problem = f"not a {kind}" if found.exists() else f"no such {kind}"
    raise UsageError(
        f"{path}: {problem}",
        hint="name a data set; dicore collect RUN --episodes 10 -o demo.npz makes one of a trained"
        " policy",
    )


@contextmanager
def reading(path: str, hint: str) -> Iterator[None]:
    """Makes any error of what a file holds a SchemaError: it may be a stranger's."""
    try:
        yield
    except DicoreError:
        raise
    except Exception as error:
        text = f"{path}: cannot be read: {brief(error)}"
        raise SchemaError(text, hint=hint, context={"file": path}) from error


def check_fits(path: object, size: int) -> None:
    """Raises an error if arrays that cannot be memory-mapped do not fit into memory.

    Args:
        path: Their file, which may claim far more than it holds.
        size: Bytes that the file says they have.

    Raises:
        SchemaError: they do not fit.
    """
    available = available_bytes()
    if available is not None and size > available:
        raise SchemaError(
            f"{path}: its compressed columns say that they have {size / 2**30:.1f} GiB, but"
            f" {available / 2**30:.1f} GiB of memory are available",
            hint="store them without compression, which is memory-mapped",
            context={"file": str(path)},
        )


def mapped(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...], offset: int) -> Array:
    """Returns an array that lies in a file, in C order from `offset` on, as a memory map."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def fingerprint_of(paths: Iterable[Path]) -> str:
    """Returns the sha256 of the content of files, one after the other; `sha256:…`."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Gives the path of a new file, which replaces `path` when the block ends without an error."""
    unfinished = temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise UsageError(f"{path}: not written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
