"""Use of processors, memory and GPUs by a run, measured by a process beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget
from dicore.run.log import MetricsFile, read_metrics
from dicore_plugins.loggers.child import ChildLogger

_MIB: Final = 2**20
_GPU_QUERY: Final = (
    "--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits",
)  # fmt: skip


class UsageLogger(ChildLogger):
    """Writes `log/usage.jsonl`: use of processors, memory and GPUs while a run goes on.

    Each line has the step at that time and `usage/cpu` (of the run and its workers, in percent of
    one core), `usage/memory_mib` (their resident memory; shared pages count several times),
    `usage/processes`, `usage/machine_cpu` and `usage/machine_memory` (in percent),
    `usage/core_<n>`, and `usage/gpu_<n>_load` and `usage/gpu_<n>_memory_mib` where nvidia-smi
    works. `dicore plot RUN -y usage/cpu` draws them.

    Args:
        interval: Seconds between two measurements.
        cores: Also log the load of each core.
    """

    writer = "dicore_plugins.loggers.usage:UsageWriter"

    def __init__(self, *, interval: float = 5.0, cores: bool = True) -> None:
        super().__init__()
        self._interval = max(interval, 0.01)
        self._cores = cores
        self._told = 0.0

    def open(self, target: LogTarget) -> None:
        """Starts the process that measures."""
        super().open(target)
        self.send("watch", pid=os.getpid(), interval=self._interval, cores=self._cores)

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Passes the present step on, at most once per measurement."""
        if time.monotonic() - self._told >= self._interval:
            self._told = time.monotonic()
            self.send("step", env_step=env_step, train_iter=train_iter)

    def flush(self) -> None:
        """Does nothing: every line is written at once."""


class UsageWriter:
    """Measures the processes of a training from outside."""

    def __init__(self) -> None:
        self._file: MetricsFile | None = None
        self._steps = {"env_step": 0, "train_iter": 0}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, *, folder: str, title: str, resumed_at: list[int] | None) -> None:
        """Opens the file; of a resumed run, after the lines up to its checkpoint."""
        path = Path(folder) / "usage.jsonl"
        self._file = MetricsFile(path)
        if resumed_at is None:
            path.unlink(missing_ok=True)
            return
        self._steps = dict(zip(("env_step", "train_iter"), (max(n, 0) for n in resumed_at),
                               strict=True))  # fmt: skip
        size, seconds = 0, 0.0
        with suppress(OSError, UsageError):
            for line, raw in zip(read_metrics(path), path.read_bytes().split(b"\n"), strict=False):
                if line["step"] > resumed_at[0]:
                    break
                size, seconds = size + len(raw) + 1, line["time"]
            self._file.rewind({"size": size, "time": seconds})

    def watch(self, *, pid: int, interval: float, cores: bool) -> None:
        """Starts to measure."""
        self._thread = threading.Thread(target=self._run, args=(pid, interval, cores), daemon=True)
        self._thread.start()

    def step(self, *, env_step: int, train_iter: int) -> None:
        """Stores the present step."""
        self._steps = {"env_step": env_step, "train_iter": train_iter}

    def close(self) -> None:
        """Ends after the running measurement."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)
        if self._file is not None:
            self._file.close()

    def _run(self, pid: int, interval: float, cores: bool) -> None:
        meter = Meter(pid, cores=cores)
        ended = False
        while not ended:
            ended = self._ended.wait(interval)
            values = meter.read()
            if values and self._file is not None:
                self._file.log_scalars(values, **self._steps)


class Meter:
    """Measures a process with all that it started, and the machine.

    Args:
        pid: The process.
        cores: Also measure each core.
    """

    def __init__(self, pid: int, *, cores: bool = True) -> None:
        import psutil

        self._psutil = psutil
        self._pid, self._cores, self._own = pid, cores, os.getpid()
        self._known: dict[int, Any] = {}
        self._nvidia = shutil.which("nvidia-smi")
        self.read()  # loads are those since the call before

    def read(self) -> dict[str, float]:
        """Returns the values since the last call; nothing if the process is gone."""
        psutil = self._psutil
        try:
            root = psutil.Process(self._pid)
            found = [root, *root.children(recursive=True)]
        except psutil.Error:
            return {}
        self._known = {each.pid: self._known.get(each.pid, each) for each in found
                       if each.pid != self._own}  # fmt: skip
        cpu = memory = 0.0
        for each in self._known.values():
            with suppress(psutil.Error):
                cpu += each.cpu_percent()
                memory += each.memory_info().rss / _MIB
        values = {
            "usage/cpu": cpu,
            "usage/memory_mib": round(memory, 1),
            "usage/processes": float(len(self._known)),
            "usage/machine_memory": psutil.virtual_memory().percent,
        }
        loads = psutil.cpu_percent(percpu=True)
        values["usage/machine_cpu"] = round(sum(loads) / max(len(loads), 1), 1)
        if self._cores:
            values |= {f"usage/core_{number}": load for number, load in enumerate(loads)}
        return values | self._gpus()

    def _gpus(self) -> dict[str, float]:
        if self._nvidia is None:
            return {}
        try:
            told = subprocess.run(  # noqa: S603 - the driver's own program
                [self._nvidia, *_GPU_QUERY],
                capture_output=True, text=True, check=True, timeout=10,
            ).stdout  # fmt: skip
            rows = [[float(cell) for cell in line.split(",")] for line in told.splitlines()]
            return {
                f"usage/gpu_{int(index)}_{name}": value
                for index, load, memory in rows
                for name, value in (("load", load), ("memory_mib", memory))
            }
        except (OSError, subprocess.SubprocessError, ValueError):
            self._nvidia = None  # no driver, or one without these numbers: quiet from now on
            return {}
