"""Draws the README's learning curve from real runs: needs matplotlib.

python examples/learning_curve.py --seeds 5 --out docs/images/cartpole_dqn.svg
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from dicore.run.launch import launch
from dicore.run.metrics import read_metrics


def curve(seed: int, folder: Path, budget: int) -> tuple[list[int], list[float]]:
    """Trains once and returns env steps and mean returns of the evaluations."""
    path = folder / str(seed)
    launch(
        env="cartpole",
        policy="dqn",
        seed=seed,
        exp_name=str(path),
        max_env_step=budget,
        overrides=["env.stop_value=inf", "pipeline.logger=[]"],
    )
    lines = [line for line in read_metrics(path / "log" / "metrics.jsonl") if TAG in line]
    return [line["step"] for line in lines], [line[TAG] for line in lines]


TAG = "evaluator/return_mean"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=8_000)
    parser.add_argument("--out", type=Path, default=Path("docs/images/cartpole_dqn.svg"))
    options = parser.parse_args()
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    grid = np.linspace(0, options.budget, 60)
    with tempfile.TemporaryDirectory() as folder:
        curves = [curve(seed, Path(folder), options.budget) for seed in range(options.seeds)]
    for steps, returns in curves:
        axes.plot(steps, returns, color="#1f77b4", alpha=0.25, linewidth=1)
    middle = np.median([np.interp(grid, steps, returns) for steps, returns in curves], axis=0)
    axes.plot(grid, middle, color="#1f77b4", linewidth=2, label=f"median of {options.seeds} seeds")
    axes.axhline(475, color="#888888", linestyle=":", label="solved (475)")
    axes.set(xlabel="env steps", ylabel="mean return of 10 episodes", ylim=(0, 520))
    axes.set_title("dicore train -e cartpole -p dqn", loc="left", fontsize=10)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out)


if __name__ == "__main__":
    main()
