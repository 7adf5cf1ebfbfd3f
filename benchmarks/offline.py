"""Drawing from a memory-mapped data set, compared with the replay buffer in memory.

python benchmarks/offline.py
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import contest
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_plugins.datasets.order import shuffled

ROWS, BATCH, MANY, OBS = 1_000_000, 256, 64, 17


def write(path: Path) -> None:
    """Writes 1M steps of a task like HalfCheetah, in episodes of 1000 steps."""
    rng = np.random.default_rng(0)
    last = np.arange(ROWS) % 1000 == 999
    columns = {
        "obs": rng.standard_normal((ROWS, OBS)).astype(np.float32),
        "action": rng.standard_normal((ROWS, 6)).astype(np.float32),
        "reward": rng.standard_normal(ROWS).astype(np.float32),
        "terminated": last & (rng.random(ROWS) < 0.5),
        "truncated": last,
    }
    write_npz(path, columns)


def endless(data: Any, size: int) -> Iterator[Any]:
    """Yields batches epoch after epoch, in random order, as offline training does."""
    for epoch in itertools.count():
        order = shuffled(len(data), np.random.default_rng((0, epoch)))
        yield from data.take_batches(order, size)


def main() -> None:
    """Draws single batches, and many in a row, which both gather several at once."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        write(path)
        data = NpzDataset({"path": str(path)})
        buffer = NaiveReplayBuffer({"replay_buffer_size": len(data)}, rng=np.random.default_rng(0))
        buffer.load_dataset(data)
        batches = endless(data, BATCH)

        def many_of_ring() -> None:
            for batch in buffer.sample_batches(MANY, BATCH):
                batch.to_torch()

        def many_of_data() -> None:
            for batch in itertools.islice(batches, MANY):
                batch.to_torch()

        mixed = np.random.default_rng(0).permutation(len(data))
        order = itertools.cycle(np.array_split(mixed, len(data) // BATCH))
        one: dict[str, Callable[[], object]] = {
            "dicore": lambda: data.take(next(order)[:BATCH]).to_torch(),
            "ring in memory": lambda: buffer.sample_batch(BATCH).to_torch(),
        }
        contest(
            "M10 one batch",
            one,
            1,
            "batches/s",
            against={"ring in memory": 0.9},
            clock=time.process_time,
        )
        many = {"dicore": many_of_data, "ring in memory": many_of_ring}
        contest(
            "M10 offline",
            many,
            MANY,
            "batches/s",
            against={"ring in memory": 0.9},
            clock=time.process_time,
        )


if __name__ == "__main__":
    main()
