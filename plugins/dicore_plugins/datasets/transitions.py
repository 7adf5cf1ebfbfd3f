"""Recorded episodes as a file of samples: all of them, or those with a least return.

Shapes: B samples, one for each step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dicore.data import Batch
from dicore.errors import UsageError
from dicore_plugins.datasets.config import AutoConfig, CollectedConfig, reader_of

__all__ = ["episode_to_transitions", "episode_to_transitions_filter"]


def episode_to_transitions(
    data_path: str | Path,
    expert_data_path: str | Path,
    nstep: int = 1,
    *,
    discount_factor: float = 0.99,
) -> Batch:
    """Converts recorded episodes to samples, and writes them to a folder or a file.

    `load_demo_data` and `load_data` of a buffer read the folder. A file (`.npz`, `.hdf5`) gets
    single steps, of which a policy makes n-step samples itself. Both are data sets.

    Args:
        data_path: Episodes, as `dicore collect RUN --episodes 10 -o FILE` writes them, or another
            data set.
        expert_data_path: The folder or file; existing data in it is replaced.
        nstep: n of n-step returns; 1 for a file.
        discount_factor: Discount of n-step returns.

    Returns:
        The samples: obs [B, ...], action, reward, next_obs, done, and `value_gamma` if n > 1.

    Raises:
        SchemaError: the episodes cannot be read.
        UsageError: there are none, the folder exists and contains something else, or n-step samples
            are to be written to a file.
    """
    return _written(data_path, expert_data_path, nstep, discount_factor, -np.inf)


def episode_to_transitions_filter(
    data_path: str | Path,
    expert_data_path: str | Path,
    nstep: int = 1,
    min_episode_return: float = 0.0,
    *,
    discount_factor: float = 0.99,
) -> Batch:
    """Converts the recorded episodes with at least this return; see `episode_to_transitions`.

    Args:
        data_path: See `episode_to_transitions`.
        expert_data_path: See `episode_to_transitions`.
        nstep: See `episode_to_transitions`.
        min_episode_return: Smallest undiscounted return of an episode that is kept.
        discount_factor: See `episode_to_transitions`.

    Raises:
        UsageError: no episode has this return; and see `episode_to_transitions`.
    """
    return _written(data_path, expert_data_path, nstep, discount_factor, min_episode_return)


def _written(
    source: str | Path, target: str | Path, nstep: int, discount: float, least: float
) -> Batch:
    dataset: Any = AutoConfig(path=str(source), nstep=nstep, discount_factor=discount).build(None)
    returns, end = dataset.returns, dataset.end
    if not (returns >= least).any():
        raise UsageError(
            f"{source}: none of {len(returns)} episodes has a return of {least:g}; the best"
            f" has {returns.max():g}",
            hint="lower min_episode_return",
        )
    episode = np.cumsum(end) - end
    rows = np.flatnonzero((returns >= least)[episode])
    samples: Batch = dataset.take(rows)
    columns = {**samples.columns, "end": end[rows], "env_id": np.zeros(len(rows), np.int64)}
    place = Path(target)
    if place.suffix and not place.is_dir():
        _write_file(place, columns, dataset)
    else:
        _write_folder(place, Batch(columns, len(rows)))
    return samples


def _write_file(path: Path, columns: dict[str, object], dataset: object) -> None:
    if "value_gamma" in columns:
        raise UsageError(
            f"{path}: n-step samples cannot be written to a file of single steps",
            hint="set nstep=1, or name a folder",
        )
    write = reader_of(path.suffix.lower(), str(path)).write
    done, end = np.asarray(columns.pop("done")) > 0, np.asarray(columns.pop("end"))
    del columns["env_id"]
    columns |= {"terminated": done, "truncated": end & ~done}
    spaces = (getattr(dataset, name) for name in ("observation_space", "action_space"))
    write(path, columns, *spaces)


def _write_folder(path: Path, samples: Batch) -> None:
    from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

    if path.exists() and CollectedConfig(path=str(path)).absent() is not None:
        raise UsageError(f"{path} exists and contains other data", hint="name another folder")
    buffer = NaiveReplayBuffer({"replay_buffer_size": len(samples)})
    buffer.push(samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer.save_data(path)
