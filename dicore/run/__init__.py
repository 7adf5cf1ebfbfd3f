"""The run: folder, random streams, checkpoints, signals and logs; names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dicore.run.checkpoint_store import CheckpointStore, read_state, write_state
    from dicore.run.env_factory import BuildContext
    from dicore.run.folder import RunFolder
    from dicore.run.log import LogHub, read_metrics
    from dicore.run.random import (
        Streams,
        episode_seed,
        hash_seed,
        seed_everything,
        stream,
        torch_stream,
    )
    from dicore.run.run import Limits, Run

__all__ = [
    "BuildContext", "CheckpointStore", "Limits", "LogHub", "Run", "RunFolder", "Streams",
    "episode_seed", "hash_seed", "read_metrics", "read_state", "seed_everything", "stream",
    "torch_stream", "write_state",
]  # fmt: skip

_MODULES = {
    "checkpoint_store": ("CheckpointStore", "read_state", "write_state"),
    "env_factory": ("BuildContext",),
    "folder": ("RunFolder",),
    "log": ("LogHub", "read_metrics"),
    "random": ("Streams", "episode_seed", "hash_seed", "seed_everything", "stream", "torch_stream"),
    "run": ("Limits", "Run"),
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
