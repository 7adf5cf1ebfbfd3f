"""Use of the machine: measured from outside, with the step of the run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dicore.interfaces.logger import LogTarget
from dicore.run.log import read_metrics
from dicore_plugins.loggers import UsageLogger
from dicore_plugins.loggers.usage import Meter


def measure(
    folder: Path, *, resumed_at: tuple[int, int] | None, step: int
) -> list[dict[str, float]]:
    logger = UsageLogger(interval=0.02)
    logger.open(LogTarget(folder, resumed_at=resumed_at))
    logger.log_scalars({"a": 1.0}, env_step=step, train_iter=step)
    until = time.monotonic() + 30
    path = folder / "usage.jsonl"
    while not any(line["step"] == step for line in read_metrics(path)) if path.exists() else True:
        assert time.monotonic() < until
        time.sleep(0.01)
    logger.close()
    return list(read_metrics(path))


def test_lines_have_the_step_and_continue_after_a_checkpoint(tmp_path: Path) -> None:
    first = measure(tmp_path, resumed_at=None, step=30)
    assert {"usage/cpu", "usage/memory_mib", "usage/machine_cpu", "usage/core_0"} <= set(first[-1])
    assert first[-1]["usage/memory_mib"] > 10
    second = measure(tmp_path, resumed_at=(20, 20), step=25)
    assert 30 not in [line["step"] for line in second]
    times = [line["time"] for line in second]
    assert times == sorted(times)


def test_workers_count_and_the_meter_does_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert Meter(child.pid, cores=False).read()["usage/processes"] == 1.0
    finally:
        child.communicate(b"\n")
    assert Meter(child.pid).read() == {}


def test_gpus_are_quiet_where_there_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0, 35, 1024\\n1, 0, 3\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    meter = Meter(1)
    assert meter._gpus() == {
        "usage/gpu_0_load": 35.0, "usage/gpu_0_memory_mib": 1024.0,
        "usage/gpu_1_load": 0.0, "usage/gpu_1_memory_mib": 3.0,
    }  # fmt: skip
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert meter._gpus() == {}
    assert meter._nvidia is None
