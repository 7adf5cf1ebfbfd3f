"""Folders of samples that `dicore collect` wrote: tensors in one file, memory-mapped.

They are the samples of the policy that collected them: single steps, or n-step samples.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from dicore.data import Batch, Columns, Tree
from dicore.errors import SchemaError
from dicore.run.checkpoint_io import TENSORS, read_state, verify
from dicore_plugins.buffers.frame_store import restored
from dicore_plugins.datasets.config import CollectedConfig
from dicore_plugins.datasets.dataset import TransitionDataset
from dicore_plugins.datasets.files import existing, mapped, reading
from dicore_plugins.datasets.recording import Recording, Stored, fail, leaves, recording_of

__all__ = ["CollectedDataset"]

_KNOWN = {"obs", "action", "reward", "done", "next_obs", "end", "env_id", "value_gamma"}
_MOST_HEADER_BYTES = 64 << 20
_PAST = {"collect_iter"}
"""Facts about the training that collected them."""


class CollectedDataset(TransitionDataset):
    """Samples of a folder of `dicore collect`."""

    config_class: ClassVar[type[CollectedConfig]] = CollectedConfig

    def _read(self, path: str) -> tuple[Recording, str]:
        folder = existing(path, folder=True)
        manifest = verify(folder)
        state = manifest.skeleton
        columns = state.get("columns") if isinstance(state, dict) else None
        if not isinstance(columns, dict) or not columns:
            raise SchemaError(
                f"{path}: no samples in this folder",
                hint="name a folder that dicore collect, or save_data of a buffer, wrote",
            )
        with reading(path, "collect it again: its files are not of one collection"):
            tree = _with_stacks(folder) if "frames" in state else _mapped(folder / TENSORS, columns)
            stored = dict(leaf for name, each in tree.items() for leaf in leaves(each, name))
            count = min(each.shape[0] for each in stored.values())
            if not {"end", "env_id"} <= tree.keys() or 0 < int(state["cursor"]) < count:
                self._check_single(path, tree)
                stored = {key: each for key, each in stored.items() if key not in ("end", "env_id")}
                stored["end"] = _in_memory(np.ones(count, np.bool_))
            extra = tuple(name for name in tree if name not in _KNOWN | _PAST)
            recording = recording_of(path, stored, {"terminated": "done"}, extra)
        return recording, f"sha256:{manifest.sha256}"

    def _check_single(self, path: str, tree: Mapping[str, Tree]) -> None:
        """Checks that samples of unknown episodes need none."""
        cfg = self._cfg
        needs = [f"nstep is {cfg.nstep}"] * (cfg.nstep > 1 and "value_gamma" not in tree)
        needs += [f"unroll_len is {cfg.unroll_len}"] * (cfg.unroll_len > 1)
        needs += [f"derived is {', '.join(cfg.derived)}"] * bool(cfg.derived)
        if needs:
            fail(
                path,
                f"single steps of unknown episodes, but {' and '.join(needs)}",
                key="end",
                hint="set them to 1 (and none); dicore collect writes the ends of episodes",
            )


def _in_memory(array: Tree) -> Stored:
    return Stored(array.shape, array.dtype, lambda: array)


def _with_stacks(folder: Path) -> Columns:
    """Reads samples with frame stacks, each frame of which is stored once."""
    state = read_state(folder)
    samples, _ = restored(Batch(dict(state["columns"])), state["frames"])
    columns: Columns = _leafwise(samples.columns, _in_memory)
    return columns


def _leafwise(tree: Tree, fn: Callable[[Tree], Tree]) -> Tree:
    if isinstance(tree, dict):
        return {key: _leafwise(each, fn) for key, each in tree.items()}
    return fn(tree)


def _mapped(file: Path, skeleton: Mapping[str, Tree]) -> Columns:
    """Returns the columns as parts of the tensor file.

    Args:
        file: In the format of safetensors: the length of the header, the header, the tensors.
        skeleton: Name, dtype and shape of each column, nested as the columns are.
    """
    with file.open("rb") as content:
        (length,) = struct.unpack("<Q", content.read(8))
        if length > _MOST_HEADER_BYTES:
            raise ValueError(f"the header of {TENSORS} has {length} bytes")
        header = json.loads(content.read(length))

    def describe(node: Tree) -> Tree:
        if not isinstance(node, dict) or "$" not in node:
            return {key: describe(each) for key, each in dict(node).items()}
        dtype, shape = np.dtype(node["dtype"]), tuple(node["shape"])
        offset = 8 + length + header[node["at"]]["data_offsets"][0]
        return Stored(shape, dtype, partial(mapped, file, dtype, shape, offset))

    columns: Columns = describe(skeleton)
    return columns
