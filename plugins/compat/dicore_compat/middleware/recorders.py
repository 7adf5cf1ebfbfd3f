"""Middleware that writes: buffers, data sets, the last context, numbers of training."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch, Tree
from dicore.errors import UsageError
from dicore.run.atomic import write_file
from dicore.task import OfflineRLContext, OnlineRLContext, middleware
from dicore_plugins.middleware.callbacks import Joined

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore.run import LogHub

_LOG = logging.getLogger("dicore.data")

Online = Callable[[OnlineRLContext], None]
Halves = Generator[None, None, None]


def buffer_saver(
    cfg: Any, buffer_: IBuffer, every_envstep: int = 1000, replace: bool = False
) -> Online:
    """Saves a buffer to a file every so many env steps.

    Args:
        cfg: The whole compiled config; the file is in `replaybuffer` of `exp_name`.
        buffer_: Replay buffer (`IBuffer`).
        every_envstep: Env steps between two files.
        replace: One file `data_latest`; False: `data_envstep_<number>` each time.

    Returns:
        A middleware: env_step -> a file of `save_data`.
    """
    folder = Path(getattr(cfg, "exp_name", None) or "default_experiment") / "replaybuffer"
    last = 0

    @middleware(reads=["env_step"], uses=[buffer_])
    def save(ctx: OnlineRLContext) -> None:
        nonlocal last
        if ctx.env_step - last < every_envstep:
            return
        last = ctx.env_step
        folder.mkdir(parents=True, exist_ok=True)
        buffer_.save_data(folder / ("data_latest" if replace else f"data_envstep_{ctx.env_step}"))

    return save


def offline_data_saver(data_path: str, data_type: str = "npz") -> Callable[[Any], Halves]:
    """Collects the trajectories of all steps and writes them to a data set when the task finishes.

    Args:
        data_path: The file; its folder is made.
        data_type: Component of kind `dataset` that writes it: `npz` or `hdf5`.

    Returns:
        A middleware: trajectories -> a file that `pipeline.dataset` reads.

    Raises:
        UsageError: the data set component cannot write.
    """
    from dicore_registry import default

    registry = default()
    write = getattr(registry.resolve("dataset", data_type).target, "write", None)
    if write is None:
        raise UsageError(f"dataset '{data_type}' writes no files", hint="choose npz or hdf5")
    kept: list[Batch] = []
    own = Joined()

    @middleware(reads=["trajectories"])
    def save(ctx: OnlineRLContext) -> Halves:
        data = ctx.trajectories
        if data is not None and len(data):
            rows = data.copy() if isinstance(data, Batch) else Batch.from_rows(data)
            kept.append(rows)
        yield
        if own.task.finish and kept:
            path = Path(data_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            columns = Batch.concat(kept).columns
            columns["terminated"] = np.asarray(columns.pop("done")).astype(np.bool_)
            write(path, {key: each for key, each in columns.items() if key != "collect_iter"})
            _LOG.info("%s: %d samples", path, sum(map(len, kept)))

    return own.by(save)


def final_ctx_saver(name: str) -> Callable[[Any], Halves]:
    """Writes the counters of the last context to `result.json` when the task finishes.

    Args:
        name: The folder.

    Returns:
        A middleware: the kept fields -> a file of JSON.
    """
    own = Joined()

    @middleware(reads=["train_iter", "last_eval_iter"], optional=["env_step", "last_eval_value"])
    def save(ctx: OnlineRLContext) -> Halves:
        yield
        if not own.task.finish:
            return
        names = ("total_step", "env_step", "train_iter", "last_eval_iter", "last_eval_value")
        found: dict[str, Any] = {each: getattr(ctx, each) for each in names}
        if not math.isfinite(found["last_eval_value"]):  # nothing was evaluated
            found["last_eval_value"] = None
        Path(name).mkdir(parents=True, exist_ok=True)
        text = json.dumps(found, indent=1, default=float)
        write_file(Path(name) / "result.json", f"{text}\n".encode())

    return own.by(save)


def epoch_timer(print_per_epoch: int = 1) -> Callable[[Any], Halves]:
    """Logs the mean duration of a step.

    Args:
        print_per_epoch: Steps between two lines.

    Returns:
        A middleware; place it first.

    Raises:
        UsageError: `print_per_epoch` is not positive.
    """
    if print_per_epoch < 1:
        raise UsageError(f"print_per_epoch must be >= 1, got {print_per_epoch}")
    began: float | None = None

    @middleware(optional=["total_step"], uses=[])
    def measure(ctx: OnlineRLContext) -> Halves:
        nonlocal began
        began = time.perf_counter() if began is None else began  # not before the first step
        yield
        if (ctx.total_step + 1) % print_per_epoch == 0:
            now = time.perf_counter()
            each = 1e3 * (now - began) / print_per_epoch
            logging.getLogger("dicore.task").info("step %d: %.3f ms per step", ctx.total_step, each)
            began = now

    return measure


def online_logger(
    log: LogHub, record_train_iter: bool = False, train_show_freq: int = 100
) -> Online:
    """Logs evaluations, and the means of the results of updates.

    Args:
        log: Has `log_scalars(scalars, env_step=…, train_iter=…)`, such as a run's `log`.
        record_train_iter: Count by updates instead of env steps.
        train_show_freq: Updates between two lines about training.

    Returns:
        A middleware: eval_output, last_eval_value, train_output -> the log; place it last.
    """
    return _logger(log, by_iter=record_train_iter, every=train_show_freq)


def offline_logger(log: LogHub, train_show_freq: int = 100) -> Callable[[OfflineRLContext], None]:
    """Logs as `online_logger` does, by updates.

    Args:
        log: Has `log_scalars(scalars, env_step=…, train_iter=…)`, such as a run's `log`.
        train_show_freq: Updates between two lines about training.

    Returns:
        A middleware: eval_output, last_eval_value, train_output -> the log; place it last.
    """
    return _logger(log, by_iter=True, every=train_show_freq)


def _logger(log: LogHub, *, by_iter: bool, every: int) -> Callable[[Any], None]:
    shown = 0

    @middleware(
        reads=["env_step", "train_iter"],
        optional=["eval_output", "last_eval_value", "train_output"],
        uses=[log],
    )
    def write(ctx: OnlineRLContext) -> None:
        nonlocal shown
        scalars: dict[str, object] = {}
        if ctx.eval_output is not None:
            scalars["basic/eval_episode_return_mean"] = ctx.last_eval_value
        if ctx.train_output and ctx.train_iter - shown >= every:
            shown = ctx.train_iter
            scalars.update(_means(ctx.train_output))
        if scalars:
            step = ctx.train_iter if by_iter else ctx.env_step
            log.log_scalars(scalars, env_step=step, train_iter=ctx.train_iter)

    return write


def _means(output: Tree) -> dict[str, float]:
    """Returns the means of the single numbers among the results of updates."""
    results = output if isinstance(output, list) else [output]
    found: dict[str, float] = {}
    for key in results[-1]:
        values = [each[key] for each in results if key in each]
        numbers = [float(value) for value in values if getattr(value, "ndim", 0) == 0
                   and not isinstance(value, str)]  # fmt: skip
        if numbers:
            found[f"basic/train_{key}"] = sum(numbers) / len(numbers)
    return found
