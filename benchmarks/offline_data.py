"""Makes the data sets of the offline rows of docs/results.md: random, medium, expert, mixed.

python -m benchmarks.offline_data             # writes runs/offline_data/<env>_<kind>.npz
python -m benchmarks.offline_data cartpole    # of one environment

10,000 env steps each, 100,000 of Hopper, whose policies take half an hour to train.
Medium is a policy that has just begun to learn, expert one that has solved the task, mixed 30 % of
random, 40 % of medium and 30 % of expert steps, in whole episodes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from dicore import collect_demo_data
from dicore.run.launch import launch
from dicore_plugins.datasets import write_npz

COLUMNS = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
SHARES = {"random": 0.3, "medium": 0.4, "expert": 0.3}
SMALL = [
    "policy.model.actor_hidden_size_list=[64,64]", "policy.model.critic_hidden_size_list=[64,64]",
    "policy.learn.learning_rate=1e-3",
]  # fmt: skip
TASKS: dict[str, dict[str, Any]] = {
    "pendulum": {"id": "Pendulum-v1", "policy": "sac", "options": SMALL, "medium": 1_800,
                 "expert": 8_000, "stop": -160, "eps": 0.0, "steps": 10_000},
    "cartpole": {"id": "CartPole-v1", "policy": "dqn", "options": [], "medium": 1_500,
                 "expert": 20_000, "stop": 475, "eps": 0.2, "steps": 10_000},
    "hopper": {"id": "Hopper-v5", "policy": "ppo", "options": [], "medium": 150_000,
               "expert": 500_000, "stop": 3_000, "eps": 0.0, "steps": 100_000},
}  # fmt: skip


def randomly(env_id: str, count: int) -> dict[str, Any]:
    """Returns the columns of whole episodes with uniform actions."""
    env, rows = gymnasium.make(env_id), []
    env.action_space.seed(7)
    episode = 1000
    while len(rows) < count:
        obs, _ = env.reset(seed=episode)
        episode, ended = episode + 1, False
        while not ended:
            action = env.action_space.sample()
            after, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, np.float32(reward), terminated, truncated, after))
            obs, ended = after, terminated or truncated
    columns = zip(*rows, strict=True)
    return {name: np.array(each) for name, each in zip(COLUMNS, columns, strict=True)}


def mixed(folder: Path, env: str) -> dict[str, Any]:
    """Returns the columns of whole episodes of the other data sets, by `SHARES`."""
    parts: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for kind, share in SHARES.items():
        data = np.load(folder / f"{env}_{kind}.npz")
        ends = np.flatnonzero(data["terminated"] | data["truncated"])
        stop = int(ends[ends < share * TASKS[env]["steps"]][-1]) + 1
        for name in COLUMNS:
            parts[name].append(data[name][:stop])
    return {name: np.concatenate(each) for name, each in parts.items()}


def make(folder: Path, env: str) -> None:
    """Writes the four data sets of an environment."""
    task = TASKS[env]
    made, steps = gymnasium.make(task["id"]), task["steps"]
    spaces = made.observation_space, made.action_space
    write_npz(folder / f"{env}_random.npz", randomly(task["id"], steps), *spaces)
    for kind, seed in (("medium", 3), ("expert", 4)):
        stop = task["stop"] if kind == "expert" else "inf"
        launch(
            env=env, policy=task["policy"], seed=11, exp_name=str(folder / f"{env}_{kind}"),
            max_env_step=task[kind], exist="overwrite",
            overrides=["pipeline.logger=[]", f"env.stop_value={stop}", *task["options"]],
        )  # fmt: skip
        collect_demo_data(
            str(folder / f"{env}_{kind}"), seed, steps, folder / f"{env}_{kind}.npz",
            "final" if kind == "medium" else None,
            eps=task["eps"] if kind == "medium" else 0.0,
        )  # fmt: skip
    write_npz(folder / f"{env}_mixed.npz", mixed(folder, env), *spaces)


def main() -> None:
    """Writes the data sets of the environments that are named, or of all."""
    folder = Path("runs/offline_data")
    folder.mkdir(parents=True, exist_ok=True)
    for env in sys.argv[1:] or TASKS:
        make(folder, env)


if __name__ == "__main__":
    main()
