"""Counts the source files that a training enters: how many files a reader has to follow.

`files_command_to_optimizer`: from `dicore train -e cartpole -p dqn` to its first optimizer step.
`files_env_step_to_optimizer`: from the last env step before an update to its optimizer step.
A file counts if any function or class body of it runs in between, whatever values it handles. Only
importing a file does not count. `docs/path.md` lists the files that single values pass.

    python -m benchmarks.files_entered [--list]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.measure import at_most, emit

PACKAGES = (
    *("dicore", "dicore_registry", "dicore_plugins"),
    *("dicore_compat", "dicore_dist", "dicore_agents", "dicore_worlds", "dicore_contrib"),
    "dicore_contrib_envs",
    "dicore_tools",
)
DQN = ("train", "-e", "cartpole", "-p", "dqn")
TRAIN = """
import json, os, sys, threading

names = set(sys.argv[2].split())
paths = {}

def ours(path):
    if path not in paths:
        parts = path.replace(os.sep, "/").split("/")
        at = [i for i, part in enumerate(parts) if part in names]
        paths[path] = "/".join(parts[at[-1]:]) if at and path.endswith(".py") else ""
        if "tests" in parts:
            paths[path] = ""
    return paths[path]

whole, since = {}, {}

def watch(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>":
        name = ours(code.co_filename)
        if name:
            whole.setdefault(name)
            since.setdefault(name)
    elif event == "return":
        if code.co_name == "step" and code.co_filename.startswith(gymnasium):
            since.clear()
        elif code.co_qualname == "FlatOptimizer.step":
            sys.setprofile(None)
            os.write(1, json.dumps([list(whole), list(since)]).encode())
            os._exit(0)

import torch  # unwatched: its import calls a million functions
import gymnasium.envs.classic_control as classic
gymnasium = os.path.dirname(classic.__file__)
threading.setprofile(watch)
sys.setprofile(watch)
from dicore.cli import main
main([*sys.argv[3:], "-q", "-s", "0", "--exp-name", sys.argv[1]])
"""


def files_entered(*command: str) -> tuple[list[str], list[str]]:
    """Returns the files entered from the command on, and those from the last env step on."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", TRAIN, f"{folder}/run", " ".join(PACKAGES), *(command or DQN)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    if done.returncode or not done.stdout:
        raise RuntimeError(done.stderr)
    command, env_step = json.loads(done.stdout)
    return command, env_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the files in order")
    command, env_step = files_entered()
    if parser.parse_args().list:
        print(*command, "", *env_step, sep="\n")
    folders = Counter(str(Path(file).parent) for file in command)
    at_most("files_command_to_optimizer", [len(command)], "files", 108)
    at_most("files_env_step_to_optimizer", [len(env_step)], "files", 25)
    emit("files_of_the_core", [sum(file.startswith("dicore/") for file in command)], "files",
         folders=dict(folders.most_common()))  # fmt: skip


if __name__ == "__main__":
    main()
