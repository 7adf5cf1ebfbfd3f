"""The same episodes in every format of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import h5py
import numpy as np

from dicore.data import Batch
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import write_hdf5, write_npz

SPACES = (
    gymnasium.spaces.Box(-1000.0, 1000.0, (2,), np.float32),
    gymnasium.spaces.Discrete(3),
)


class Episode(NamedTuple):
    """One episode of T steps; it was cut off if it neither terminated nor was truncated."""

    obs: Any  # float32 [T + 1, 2]
    action: Any
    reward: Any
    terminated: bool
    truncated: bool


def episodes(*lengths: str, seed: int = 0) -> list[Episode]:
    """Makes episodes: `5e` terminates after 5 steps, `4t` is truncated, `3` is cut off."""
    rng, found, first = np.random.default_rng(seed), [], 0.0
    for each in lengths:
        steps = int(each.strip("et"))
        numbers = first + np.arange(steps + 1, dtype=np.float32)
        first += 100
        found.append(
            Episode(
                np.stack([numbers, -numbers], 1),
                rng.integers(0, 3, steps),
                rng.normal(size=steps).astype(np.float32),
                each.endswith("e"),
                each.endswith("t"),
            )
        )
    return found


EPISODES = episodes("5e", "4t", "1e", "6", "3e")


def table(found: list[Episode], *, with_next: bool = False) -> dict[str, Any]:
    """Returns the columns of a file, episode after episode."""
    lasts = [np.arange(len(each.action)) == len(each.action) - 1 for each in found]
    columns = {
        "obs": np.concatenate([each.obs[:-1] for each in found]),
        "action": np.concatenate([each.action for each in found]),
        "reward": np.concatenate([each.reward for each in found]),
        "terminated": np.concatenate([x & e.terminated for x, e in zip(lasts, found, strict=True)]),
        "truncated": np.concatenate(
            [x & (not e.terminated) for x, e in zip(lasts, found, strict=True)]
        ),
    }
    if with_next:
        columns["next_obs"] = np.concatenate([each.obs[1:] for each in found])
    return columns


D4RL = {
    "obs": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals",
    "truncated": "timeouts", "next_obs": "next_observations",
}  # fmt: skip


def named(columns: dict[str, Any]) -> dict[str, Any]:
    return {D4RL[name]: column for name, column in columns.items()}


def write(form: str, folder: Path, found: list[Episode]) -> str:
    """Writes episodes in a format; returns the path for `path`."""
    path = folder / f"data.{form}"
    if form == "npz":
        write_npz(path, table(found), *SPACES)
    elif form == "npz_next":
        write_npz(path, table(found, with_next=True))
    elif form == "savez":
        path = path.with_suffix(".npz")
        np.savez(path, **named(table(found)))
    elif form == "compressed":
        path = path.with_suffix(".npz")
        np.savez_compressed(path, **named(table(found)))
    elif form == "hdf5":
        write_hdf5(path, table(found, with_next=True), *SPACES)
    elif form == "chunked":
        with h5py.File(path, "w") as file:
            for name, column in named(table(found)).items():
                file.create_dataset(name, data=column, compression="gzip", chunks=True)
    elif form == "collected":
        buffer = NaiveReplayBuffer({"replay_buffer_size": 1000})
        buffer.push(collected(found))
        buffer.save_data(path)
    else:
        write_minari(path, found)
    return str(path)


def collected(found: list[Episode]) -> Batch:
    """Returns what a collector of two environments gives: their steps take turns."""
    columns = table(found, with_next=True)
    half = sum(len(each.action) for each in found[:2])
    count = len(columns["action"])
    env_id = (np.arange(count) >= half).astype(np.int64)
    end = columns["terminated"] | (columns["truncated"] & ends_marked(found))
    order = np.argsort([i if i < half else i - half + 0.5 for i in range(count)])
    done = columns["terminated"].astype(np.float32)
    flat = {k: columns[k] for k in ("obs", "action", "reward", "next_obs")}
    flat |= {"done": done, "end": end, "env_id": env_id}
    return Batch({key: column[order] for key, column in flat.items()}, count)


def ends_marked(found: list[Episode]) -> Any:
    """Returns of which steps a collector knows that their episode ends: not of those cut off."""
    return np.concatenate(
        [np.full(len(each.action), each.terminated or each.truncated) for each in found]
    )


def write_minari(path: Path, found: list[Episode]) -> None:
    from minari.data_collector import EpisodeBuffer
    from minari.dataset._storages.hdf5_storage import HDF5Storage

    data = path / "data"
    data.mkdir(parents=True)
    storage = HDF5Storage.new(data, *SPACES)
    storage.update_episodes(
        EpisodeBuffer(
            id=number,
            observations=each.obs,
            actions=each.action,
            rewards=each.reward,
            terminations=np.arange(1, len(each.action) + 1) // len(each.action) * each.terminated,
            truncations=np.arange(1, len(each.action) + 1)
            // len(each.action)
            * (not each.terminated),
            infos=None,
        )
        for number, each in enumerate(found)
    )
    storage.update_metadata({"minari_version": "0.5.3", "dataset_id": "test/data-v0"})


TYPES = {
    "npz": "npz", "npz_next": "npz", "savez": "npz", "compressed": "npz", "hdf5": "hdf5",
    "chunked": "hdf5", "collected": "collected", "minari": "minari",
}  # fmt: skip
"""The component that reads each format."""
WITHOUT_LAST = {"npz", "savez", "compressed", "chunked"}
"""Formats that do not tell the observation after a step that a time limit ended."""
