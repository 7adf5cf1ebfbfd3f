"""What keeping a run costs: a checkpoint beside the bare writing of its bytes, and the log.

The checkpoint holds a buffer of a million transitions with observations of 4 numbers. "Bytes with
fsync" is the least that any safe save can do: its files written from memory, fsynced, one by one.

    python -m benchmarks.checkpoint
"""

from __future__ import annotations

import logging
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import ROUNDS, emit
from dicore.data import Batch
from dicore.run.checkpoint import read_state
from dicore.run.launch import launch
from dicore.run.log import LogHub
from dicore.run.store import CheckpointStore
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig

ROWS, CHUNK = 1_000_000, 100_000
SAVE_TARGET, LOG_TARGET = 1.5, 0.01
BUDGET = 4_000


def full_buffer() -> NaiveReplayBuffer:
    """Returns a buffer with a million rows of noise."""
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
    """Writes each piece into a file and waits until the disk has it; then the folder's names."""
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
    """Prints how long both take, in turn, and the ratio round by round."""
    state = {"buffer": full_buffer().state_dict()}
    store = CheckpointStore(folder / "ckpt", keep=1)
    first = store.save("iteration_0", state, train_iter=0)
    content = [path.read_bytes() for path in sorted(first.iterdir())]
    size = sum(map(len, content)) / 2**20
    saves: list[float] = []
    bare: list[float] = []
    for number in range(1, ROUNDS + 1):
        target = folder / "bare"
        bare.append(seconds(lambda to=target: write_bare(to, content)))
        shutil.rmtree(target)
        name = f"iteration_{number}"
        saves.append(seconds(lambda n=name, i=number: store.save(n, state, train_iter=i)))
    emit("save 1M rows", saves, "s", mib=round(size, 1))
    emit("bytes with fsync", bare, "s", mib=round(size, 1))
    ratios = [a / b for a, b in zip(saves, bare, strict=True)]
    emit(
        "save / bytes with fsync",
        ratios,
        "x",
        target=SAVE_TARGET,
        reached=statistics.median(ratios) <= SAVE_TARGET,
    )
    loads = [seconds(lambda: read_state(store.folder / f"iteration_{ROUNDS}")) for _ in range(3)]
    emit("load 1M rows", loads, "s")


def logged() -> None:
    """Prints the share of a DQN training that is spent inside the log."""
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
        if seed:  # the first run of a process warms torch up
            shares.append(spent / outcome.run.result.wall_s)
    reached = statistics.median(shares) <= LOG_TARGET
    emit("log / loop", shares, "share", target=LOG_TARGET, reached=reached)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DISK")) as folder:
        saving(Path(folder))
    logged()


if __name__ == "__main__":
    main()
