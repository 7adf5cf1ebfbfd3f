"""Trains DQN on CartPole until it is solved and prints the next commands: `make demo`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dicore.cli import main as dicore

BUDGET = 50_000


def newest(pattern: str) -> Path:
    return max(Path("runs").glob(pattern), key=lambda path: path.stat().st_mtime)


def main() -> int:
    arguments = ["-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", str(BUDGET)]
    print("$ dicore train", *arguments, flush=True)
    code = dicore(["train", *arguments])
    if code:
        return int(code)
    run = newest("cartpole_dqn_s0*")
    result = json.loads((run / "run.json").read_text())["result"]
    print()
    if not result["stop"]:
        print(f"not solved within {BUDGET} env steps: best mean return {result['best_return']:.1f}")
        return 1
    print(f"solved: mean return {result['best_return']:.1f} over 10 episodes (stop value 475)")
    print(f"  evaluate:  .venv/bin/dicore eval {run} -n 20 -s 100")
    print(f"  plot:      .venv/bin/dicore plot {run} --text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
