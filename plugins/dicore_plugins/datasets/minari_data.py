"""Data sets of Minari (https://minari.farama.org) that are on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dicore.data import Tree, tree_map
from dicore.errors import MissingDependencyError, UsageError
from dicore_plugins.buffers.memory import check_memory
from dicore_plugins.datasets.config import MinariConfig
from dicore_plugins.datasets.dataset import TransitionDataset
from dicore_plugins.datasets.files import check_fits, fingerprint_of, reading
from dicore_plugins.datasets.hdf5 import check_contained
from dicore_plugins.datasets.recording import Recording, fail

__all__ = ["MinariDataset"]


class MinariDataset(TransitionDataset):
    """Samples of a data set of Minari, read into memory: its episodes are in parts in the file."""

    config_class: ClassVar[type[MinariConfig]] = MinariConfig

    def _read(self, path: str) -> tuple[Recording, str]:
        minari = _minari()
        folder = _folder(path)
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        check_memory(2 * sum(each.stat().st_size for each in files), 1)
        with reading(path, "delete it and record it again"):
            in_hdf5 = (each for each in files if each.suffix in (".hdf5", ".h5"))
            check_fits(path, 2 * check_contained(in_hdf5))  # a part of a few bytes may say much
            data = minari.MinariDataset(folder)
            spaces = data.observation_space, data.action_space
            recording = _recording(path, list(_episodes(path, data)), spaces)
        return recording, fingerprint_of(files)


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise MissingDependencyError(
            "data sets of Minari need the package minari",
            hint="pip install 'dicore-plugins[minari]'",
        ) from error
    return minari


def _folder(path: str) -> Path:
    """Returns the folder of the data, of a folder or an id."""
    root = os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets"
    for folder in (Path(path).expanduser(), Path(root) / path):
        for each in (folder / "data", folder):
            if (each / "metadata.json").is_file():
                return each
    raise UsageError(
        f"{path}: no such local data set of Minari (searched also {root})",
        hint="minari list local; nothing is downloaded: minari download ID",
    )


def _episodes(path: str, data: Any) -> Iterator[Any]:
    """Yields the episodes, checked."""
    for episode in data.iterate_episodes():
        steps = len(episode.rewards)
        lengths = {
            "actions": _length(episode.actions),
            "terminations": len(episode.terminations),
            "truncations": len(episode.truncations),
            "observations": _length(episode.observations) - 1,
        }
        for key, length in lengths.items():
            if length != steps:
                fail(
                    path, f"cut off: {steps} rewards, but {length} {key}", key=key,
                    episode=int(episode.id),
                )  # fmt: skip
        if steps:
            yield episode


def _length(tree: Tree) -> int:
    while isinstance(tree, dict):
        tree = next(iter(tree.values()))
    return len(tree)


def _recording(path: str, episodes: list[Any], spaces: tuple[Any, Any]) -> Recording:
    """Joins episodes; each has an observation more than steps."""
    steps = np.array([len(each.rewards) for each in episodes], np.int64)
    episode = np.repeat(np.arange(len(episodes)), steps)
    row = np.arange(steps.sum())
    obs = _joined([each.observations for each in episodes])
    return Recording(
        file=path,
        obs=obs,
        obs_row=row + episode,
        next_obs=obs,
        next_row=row + episode + 1,
        columns={"action": _joined([each.actions for each in episodes])},
        row=row,
        reward=np.concatenate([[], *(each.rewards for each in episodes)]).astype(np.float32),
        terminated=np.concatenate([[], *(each.terminations for each in episodes)]).astype(bool),
        episode=np.array([each.id for each in episodes], np.int64)[episode],
        keys={"obs": "observations", "action": "actions", "reward": "rewards"},
        spaces=spaces,
    )


def _joined(trees: list[Tree]) -> Tree:
    if not trees:
        return np.zeros((0, 1), np.float32)
    joined: Tree = tree_map(lambda *leaves: np.concatenate(leaves), trees[0], *trees[1:])
    return joined
