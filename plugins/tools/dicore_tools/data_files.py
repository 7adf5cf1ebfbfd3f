"""Samples as files that data set components read: single steps in time order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from dicore.data import Batch
from dicore.errors import UsageError
from dicore_registry import Entry, default
from dicore_registry.importing import import_target

__all__ = ["file_endings", "single_steps", "writer_of"]


def writer_of(path: str | Path) -> Callable[..., None] | None:
    """Returns what writes a file with this ending; None: no data set component does.

    A component of the kind `dataset` declares the endings as `suffixes`, and has
    `write(path, columns, observation_space, action_space)`.

    Raises:
        PluginLoadError: the component that does needs a package that is not installed.
    """
    suffix = Path(path).suffix.lower()
    for entry, endings in _endings() if suffix else ():
        if suffix in endings:
            write: Callable[..., None] = default().load(entry).write
            return write
    return None


def file_endings() -> list[str]:
    """Returns the endings of files that data set components write."""
    return [each for _, endings in _endings() for each in endings]


def _endings() -> Iterator[tuple[Entry, tuple[str, ...]]]:
    for entry in default().entries("dataset"):
        try:
            found = import_target(entry.module, entry.attr)
        except Exception:  # noqa: S112 - of another package; `dicore list` tells what is wrong
            continue
        yield entry, tuple(getattr(found, "suffixes", ()))


_REPLACED = {"done", "end", "env_id", "collect_iter"}


def single_steps(samples: Batch) -> dict[str, object]:
    """Returns samples of a collector as columns of single steps, one environment after another.

    Args:
        samples: With `done` (terminations), `end` and `env_id`.

    Returns:
        The columns; `terminated` and `truncated` bool [N] instead of the three. The last step of
        each environment is marked as truncated, if it does not end an episode.

    Raises:
        UsageError: they are n-step samples, or do not tell their episodes.
    """
    missing = {"done", "end", "env_id"} - samples.keys()
    if missing or "value_gamma" in samples:
        problem = f"without {', '.join(sorted(missing))}" if missing else "of several steps"
        raise UsageError(
            f"samples {problem} cannot be written to a file of single steps",
            hint="set policy.nstep=1, or write them to a folder",
        )
    env_id = np.asarray(samples["env_id"])
    ordered = samples[np.argsort(env_id, kind="stable")].columns
    terminated, end = np.asarray(ordered["done"]) > 0, np.array(ordered["end"], np.bool_)
    env_id = np.asarray(ordered["env_id"])
    end[-1:] = True
    end[:-1] |= env_id[1:] != env_id[:-1]
    kept = {key: each for key, each in ordered.items() if key not in _REPLACED}
    return {**kept, "terminated": terminated, "truncated": end & ~terminated}
