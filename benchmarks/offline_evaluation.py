"""Rank correlation of off-policy estimates with the discounted returns of 12 policies of one run.

The policies are the checkpoints of one training, of all qualities; the data are episodes of four of
them, with random actions among theirs. The bar is a rank correlation of 0.8 for `fqe`.

    python -m benchmarks.offline_evaluation --eps 0.3 --episodes 100 --updates 8000 --fit=
    python -m benchmarks.offline_evaluation --env pendulum --policy sac --steps 3000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dicore import collect_demo_data
from dicore.run.launch import launch
from dicore_plugins.datasets import write_npz
from dicore_tools.evaluation.offline.evaluate import evaluate_offline

POLICIES, SOURCES = 12, 4
"""Policies that are compared, and those whose steps are the data."""
EPISODES = 50
"""Episodes whose mean return is the true one."""
FIT = (
    "policy.eval.evaluator=fqe policy.eval.evaluator.target_theta=0.2"
    " policy.eval.evaluator.learning_rate=0.003"
)
"""A target that follows fast: the values have to reach far in few updates."""


def rank_correlation(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Computes Spearman's correlation; equal values have their mean rank."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    _, index, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[index], np.float64)


def checkpoints(folder: Path, env: str, policy: str, steps: int, seed: int) -> list[str]:
    """Trains in equal parts; returns the names of the checkpoints after them."""
    quiet = ["env.stop_value=inf", "pipeline.logger=[]", "pipeline.final_eval=false"]
    names = []
    for part in range(1, POLICIES + 1):
        budget = steps * part // POLICIES
        if part == 1:
            wishes = {"env": env, "policy": policy, "seed": seed, "exp_name": str(folder)}
            launch(**wishes, max_env_step=budget, overrides=quiet)
        else:
            launch(resume=str(folder), max_env_step=budget)
        names.append(f"part{part:02}")
        shutil.copytree(folder / "ckpt/final", folder / "ckpt" / names[-1])
    return names


def data_of(run: Path, names: list[str], eps: float, episodes: int) -> str:
    """Records episodes of some of the policies, and of random actions; returns the file."""
    parts = []
    for name in names:
        out = run.with_name(f"{name}.npz")
        options = {"eps": eps} if eps else {}
        with contextlib.redirect_stdout(sys.stderr):
            collect_demo_data(
                str(run), 7, expert_data_path=out, state_dict_path=name, n_episode=episodes,
                **options,
            )  # fmt: skip
        parts.append(dict(np.load(out)))
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    path = str(run.with_name("all.npz"))
    write_npz(path, columns)
    return path


def returns_of(run: Path, name: str, gamma: float) -> tuple[float, float]:
    """Plays greedy episodes; returns the mean of their returns, and of those discounted."""
    out = run.with_name(f"true_{name}.npz")
    with contextlib.redirect_stdout(sys.stderr):
        collect_demo_data(
            str(run), 11, expert_data_path=out, state_dict_path=name, n_episode=EPISODES,
            greedy=True, overrides=["env.collector_env_num=1"],
        )  # fmt: skip
    data = np.load(out)
    ends = np.flatnonzero(data["terminated"] | data["truncated"]) + 1
    rewards = np.split(data["reward"].astype(np.float64), ends[:-1])
    discounted = [each @ gamma ** np.arange(len(each)) for each in rewards]
    return float(np.mean([each.sum() for each in rewards])), float(np.mean(discounted))


def main() -> None:
    """Prints one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--policy", default="dqn")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--eps", type=float, default=0.0)
    parser.add_argument("--episodes", type=int, default=25)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--fit", default=FIT, help="of fitted Q; empty: as `dicore eval`")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        names = checkpoints(run, given.env, given.policy, given.steps, given.seed)
        sources = [names[at] for at in np.linspace(0, len(names) - 1, SOURCES).round().astype(int)]
        data = data_of(run, sources, given.eps, given.episodes)
        true, undiscounted, estimated = [], [], []
        for name in names:
            found = evaluate_offline(
                run, data, estimators=["fqe"], updates=given.updates, load_path=name,
                overrides=given.fit.split(),
            )  # fmt: skip
            estimated.append(found.estimates["fqe"].value)
            plain, discounted = returns_of(run, name, found.discount_factor)
            undiscounted.append(plain)
            true.append(discounted)
            print(name, plain, discounted, estimated[-1], found.change, file=sys.stderr)
    told = {
        "figure": "offline_evaluation",
        **vars(given),
        "policies": len(names),
        "true": [round(each, 2) for each in true],
        "fqe": [round(each, 3) for each in estimated],
        "rank_correlation": round(rank_correlation(true, estimated), 3),
        "undiscounted": [round(each, 2) for each in undiscounted],
        "rank_correlation_undiscounted": round(rank_correlation(undiscounted, estimated), 3),
        "cpu_s": round(time.process_time() - begun, 1),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
