"""Cost of checkpoints and logging: a checkpoint compared with writing its bytes, and the log.

The checkpoint holds a buffer of a million transitions with observations of 4 numbers. "Bytes with
fsync" is the least that any safe save can do: its files written from memory, fsynced, one by one.

    python -m benchmarks.checkpoint
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import ROUNDS, at_most, emit
from dicore.data import Batch
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.launch import launch
from dicore.run.log import LogHub
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig

ROWS, CHUNK = 1_000_000, 100_000
SAVE_TARGET, LOG_TARGET = 1.5, 0.01
BUDGET = 4_000


def full_buffer() -> NaiveReplayBuffer:
    """Returns a buffer with a million random samples."""
    rng = np.random.default_rng(0)
    buffer = NaiveReplayBuffer(NaiveConfig(replay_buffer_size=ROWS), rng=np.random.default_rng(0))
    for _ in range(ROWS // CHUNK):
        columns = {
            "obs": rng.standard_normal((CHUNK, 4)).astype(np.float32),
            "next_obs": rng.standard_normal((CHUNK, 4)).astype(np.float32),
            "action": rng.integers(0, 2, CHUNK),
            "reward": rng.standard_normal(CHUNK).astype(np.float32),
            "done": rng.random(CHUNK) < 0.01,
        }
        buffer.push(Batch(columns))
    return buffer


def write_bare(target: Path, content: list[bytes]) -> None:
    """Writes each piece to a file with fsync, then syncs the folder."""
    target.mkdir()
    for number, piece in enumerate(content):
        with (target / str(number)).open("xb", buffering=0) as file:
            view = memoryview(piece)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
    descriptor = os.open(target, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def saving(folder: Path) -> None:
    """Prints the times of both, measured in turn, and the ratio per round.

    Taking the state is part of a save; dropping the oldest checkpoint is timed by itself.
    """
    buffer = full_buffer()
    store, pruned = (
        CheckpointStore(folder / name, keep=keep) for name, keep in (("a", 99), ("b", 1))
    )
    taken = {"buffer": buffer.state_dict()}
    content = [path.read_bytes() for path in sorted(store.save("first", taken).iterdir())]
    del taken
    mib = round(sum(map(len, content)) / 2**20, 1)
    times: dict[str, list[float]] = {"save": [], "bare": [], "save, drop": []}
    for number in range(ROUNDS):

        def save(into: CheckpointStore, number: int = number) -> Path:
            state = {"buffer": buffer.state_dict()}
            return into.save(f"iteration_{number}", state, train_iter=number)

        times["bare"].append(seconds(lambda: write_bare(folder / "bare", content)))
        shutil.rmtree(folder / "bare")
        times["save"].append(seconds(lambda: save(store)))
        shutil.rmtree(store.folder / f"iteration_{number}")
        times["save, drop"].append(seconds(lambda: save(pruned)))
    ratios = [a / b for a, b in zip(times["save"], times["bare"], strict=True)]
    emit("bytes with fsync", times["bare"], "s", mib=mib)
    emit("save 1M rows", times["save"], "s", mib=mib)
    emit("save 1M rows and drop the oldest", times["save, drop"], "s", mib=mib)
    at_most("save / bytes with fsync", ratios, "x", SAVE_TARGET)
    emit("load 1M rows", [seconds(lambda: store.load("first")) for _ in range(3)], "s")


def logged() -> None:
    """Prints the share of a DQN training that is spent in the log."""
    spent = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent
            start = time.perf_counter()
            result = method(*args, **kwargs)
            spent += time.perf_counter() - start
            return result

        return call

    hub: Any = LogHub
    for name in ("log_scalars", "log_histogram", "log_text", "flush"):
        setattr(hub, name, timed(getattr(hub, name)))
    shares = []
    for seed in range(4):
        spent = 0.0
        with tempfile.TemporaryDirectory() as folder:
            outcome = launch(
                env="cartpole",
                policy="dqn",
                seed=seed,
                exp_name=f"{folder}/run",
                max_env_step=BUDGET,
                overrides=["env.stop_value=inf", "pipeline.logger=['tensorboard']"],
            )
        if seed:  # warm-up: the first run of a process is slower
            shares.append(spent / outcome.run.result.wall_s)
    at_most("log / loop", shares, "share", LOG_TARGET)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DISK")) as folder:
        saving(Path(folder))
    logged()


if __name__ == "__main__":
    main()
