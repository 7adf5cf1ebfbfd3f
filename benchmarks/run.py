"""Runs all benchmarks and prints which targets are reached: `make bench`.

python benchmarks/run.py                 # everything
python benchmarks/run.py buffer update   # only these scripts
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "env_manager",
    "checks",
    "subprocess_envs",
    "env_manager_curves",
    "collector",
    "buffers",
    "images",
    "atari",
    "update",
    "ppo",
    "agents",
    "one_agent",
    "sac",
    "together",
    "files_entered",
    "startup",
    "config",
    "train_start",
    "whole_run",
    "checkpoint",
    "export",
    "cartpole",
)


PARTS = ("buffer", "functions")
"""Parts of `buffers`, which run alone only if they are named."""


def main() -> int:
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return 0
    chosen = sys.argv[1:] or SCRIPTS
    unknown = set(chosen) - {*SCRIPTS, *PARTS}
    if unknown:
        print(
            f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join(SCRIPTS)}",
            file=sys.stderr,
        )
        return 2
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    judged, failed = [], []
    for number, script in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {script}", file=sys.stderr, flush=True)
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{script}"],
            cwd=HERE.parent, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                figure = json.loads(line)
                judged += [figure] if "target" in figure else []
        if process.wait():
            failed.append(script)
    print("\n  figure                                         value   target", file=sys.stderr)
    for each in judged:
        mark = "reached" if each["reached"] else "MISSED"
        target = f"{'≤' if each.get('better') == 'less' else '≥'} {each['target']}"
        print(f"  {each['name']:<44}{each['value']:>8}{target:>9}  {mark}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
