"""Start of a training: from the command to the first env step, beyond `import torch` (P15).

One JSON line per figure: medians of whole processes in milliseconds, taken in turn; and what
compile and bind take once everything is imported.

    python -m benchmarks.train_start [--runs 9]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import at_most, emit

TORCH = "import sys, time, torch; print(time.monotonic() - float(sys.argv[1]))"
TRAIN = """
import os, sys, time
import dicore.run.run
from dicore.cli import main

def watch(run):
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    def step(*_):
        os.write(2, f"first step {time.monotonic() - float(sys.argv[1])}".encode())
        os._exit(0)

    CartPoleEnv.step = step

dicore.run.run.Run.first_step = watch
main(["train", "-e", "cartpole", "-p", "dqn", "-s", "0", "--exp-name", sys.argv[2]])
"""
COMPILE = """
import time
from dicore.run.env_factory import spaces_of
from dicore.run.launch import TrainRequest, bind, compile_request

request = TrainRequest(env="cartpole", policy="dqn", seed=0)
spaces = spaces_of(compile_request(request).env, 0)
began = time.perf_counter()
bind(compile_request(request), *spaces)
print(time.perf_counter() - began)
"""


def seconds(program: str, *arguments: str) -> float:
    """Runs a process; returns the number that it prints last."""
    command = [sys.executable, "-c", program, str(time.monotonic()), *arguments]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return float((done.stderr if "first step" in done.stderr else done.stdout).split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    torch: list[float] = []
    train: list[float] = []
    compiled: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs + 1):
            taken = (
                seconds(TORCH) * 1e3,
                seconds(TRAIN, f"{folder}/{number}") * 1e3,
                seconds(COMPILE) * 1e3,
            )
            if number:  # the first round fills byte code and file cache
                for values, value in zip((torch, train, compiled), taken, strict=True):
                    values.append(value)
    emit("import_torch", torch, "ms")
    emit("p15_command_to_first_step", train, "ms")
    beyond = [whole - part for whole, part in zip(train, torch, strict=True)]
    at_most("p15_beyond_import_torch", beyond, "ms", 250)
    at_most("compile_and_bind", compiled, "ms", 20)


if __name__ == "__main__":
    main()
