"""P6 and P8: the uniform buffer compared with cpprb, SB3 and hand-written slice assignment.

python benchmarks/buffer.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measure import contest, missing
from dicore.data import Batch
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig

CAPACITY, BATCH, PUSH = 100_000, 256, 64


def rows(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "obs": rng.standard_normal((count, 4)).astype(np.float32),
        "next_obs": rng.standard_normal((count, 4)).astype(np.float32),
        "action": rng.integers(0, 2, count),
        "reward": rng.standard_normal(count).astype(np.float32),
        "done": (rng.random(count) < 0.01).astype(np.float32),
    }


def dicore_buffer() -> NaiveReplayBuffer:
    buffer = NaiveReplayBuffer(
        NaiveConfig(replay_buffer_size=CAPACITY), rng=np.random.default_rng(0)
    )
    buffer.push(Batch(rows(CAPACITY)))
    return buffer


def sample_contenders() -> dict[str, Callable[[], object]]:
    buffer, columns = dicore_buffer(), rows(CAPACITY)
    rng = np.random.default_rng(0)
    outs = {
        key: np.empty((BATCH, *column.shape[1:]), column.dtype) for key, column in columns.items()
    }
    views = {key: torch.from_numpy(out) for key, out in outs.items()}

    def hand() -> dict[str, torch.Tensor]:
        slots = rng.integers(0, CAPACITY, BATCH)
        for key, column in columns.items():
            column.take(slots, 0, outs[key], "clip")
        return views

    contenders: dict[str, Callable[[], object]] = {
        "dicore": lambda: buffer.sample_batch(BATCH, reuse=True).to_torch(),
        "hand ndarray.take": hand,
        "dicore fresh memory": lambda: buffer.sample_batch(BATCH).to_torch(),
    }
    try:
        from cpprb import ReplayBuffer
    except ImportError:
        missing("P6", "cpprb")
        return contenders
    shapes = {
        "obs": {"shape": 4},
        "next_obs": {"shape": 4},
        "action": {"dtype": np.int64},
        "reward": {},
        "done": {},
    }
    peer = ReplayBuffer(CAPACITY, shapes)
    peer.add(**columns)

    def cpprb() -> dict[str, torch.Tensor]:
        return {key: torch.from_numpy(value) for key, value in peer.sample(BATCH).items()}

    contenders["cpprb"] = cpprb
    return contenders


def push_contenders() -> dict[str, Callable[[], object]]:
    buffer, columns, few = dicore_buffer(), rows(CAPACITY), rows(PUSH)
    batch = Batch(few, PUSH, schema=object())
    cursor = 0

    def hand() -> None:
        nonlocal cursor
        stop = cursor + PUSH
        if stop > CAPACITY:
            cursor, stop = 0, PUSH
        for key, column in columns.items():
            column[cursor:stop] = few[key]
        cursor = stop

    contenders: dict[str, Callable[[], object]] = {
        "dicore": lambda: buffer.push(batch),
        "slice assignment": hand,
    }
    try:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer
    except ImportError:
        missing("P8", "stable-baselines3")
        return contenders
    box = spaces.Box(-10, 10, (4,), np.float32)
    peer = ReplayBuffer(
        CAPACITY, box, spaces.Discrete(2), n_envs=PUSH, handle_timeout_termination=False
    )
    infos: list[dict[str, object]] = [{} for _ in range(PUSH)]

    def sb3() -> None:
        peer.add(few["obs"], few["next_obs"], few["action"], few["reward"], few["done"], infos)

    contenders["SB3"] = sb3
    return contenders


def main() -> None:
    torch.set_num_threads(1)
    draws, pushes = {"cpprb": 2.5, "hand ndarray.take": 0.8}, {"SB3": 1.3, "slice assignment": 0.7}
    contest("P6", sample_contenders(), 1, "batches/s", against=draws, clock=time.process_time)
    contest("P8", push_contenders(), PUSH, "rows/s", against=pushes, clock=time.process_time)


if __name__ == "__main__":
    main()
