"""Start of a training: from the command to the first env step, minus `import torch` (P15).

One JSON line per figure: medians over whole processes in milliseconds, in turn, and the time of
compile and bind after all imports.

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
from importlib.machinery import PathFinder

class Watched:  # patches the env when the training imports it
    def find_spec(name, path, target=None):
        if name != "gymnasium.envs.classic_control.cartpole":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.CartPoleEnv.step = step

        spec.loader.exec_module = exec_module
        return spec

def step(*_):
    os.write(2, f"first step {time.monotonic() - float(sys.argv[1])}".encode())
    os._exit(0)

sys.meta_path.insert(0, Watched)
from dicore.cli import main
main(["train", "-e", "cartpole", "-p", "dqn", "-s", "0", "--exp-name", sys.argv[2]])
"""
COMPILE = """
import time
from dicore.run.env_factory import spec_of
from dicore.run.launch import TrainRequest, bind, compile_request

request = TrainRequest(env="cartpole", policy="dqn", seed=0)
spaces = spec_of(compile_request(request).env, 0)
began = time.perf_counter()
bind(compile_request(request), spaces)
print(time.perf_counter() - began)
"""


def seconds(program: str, *arguments: str) -> float:
    """Runs a process and returns the last number that it prints."""
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
