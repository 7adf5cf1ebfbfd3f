"""Returns of offline algorithms after the same updates, compared with d3rlpy on the same file.

Networks, learning rates, batches and the algorithm's own options are those of our presets. Both
policies are evaluated greedily over the same 20 episodes at the end.

python -m benchmarks.offline_data                       # makes the files
python -m benchmarks.offline_peers pendulum iql         # 3 seeds, 6,000 updates
python -m benchmarks.offline_peers pendulum iql 5 30000
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.measure import emit, missing
from dicore.run.launch import launch

EPISODES = 20
IDS = {"pendulum": "Pendulum-v1", "cartpole": "CartPole-v1", "hopper": "Hopper-v5"}
SIZES = {"pendulum": [64, 64], "cartpole": [128, 128], "hopper": [256, 256]}
RATE = {"pendulum": 1e-3, "cartpole": 1e-3, "hopper": 3e-4}
BATCH = {"pendulum": 128, "cartpole": 128, "hopper": 256}
TARGET = {"pendulum": 0.01, "cartpole": 0.01, "hopper": 0.005}
OWN: dict[str, dict[str, Any]] = {
    "pendulum_iql": {"weight_temp": 100.0, "expectile": 0.8},
    "pendulum_td3_bc": {"alpha": 40.0},
    "pendulum_cql": {"n_action_samples": 4},
    "pendulum_awac": {"lam": 0.01},
    "hopper_iql": {"weight_temp": 3.0, "expectile": 0.7},
    "hopper_td3_bc": {"alpha": 2.5},
}
"""Options of d3rlpy that are our presets' by other names."""
SCALE = {"pendulum_iql": 0.01, "pendulum_awac": 0.01}
"""What rewards are multiplied by: `pipeline.dataset.reward_scale` of our presets."""
NSTEP = {"cartpole_discrete_cql": 5, "cartpole_discrete_bcq": 5}
"""Steps of the returns: `policy.nstep` of our presets."""


def d3rlpy_config(env: str, policy: str) -> Any:
    """Returns the config of d3rlpy's algorithm."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory
    from d3rlpy.preprocessing import StandardObservationScaler

    encoder, rate = VectorEncoderFactory(SIZES[env]), RATE[env]
    shared = {"batch_size": BATCH[env], "gamma": 0.99}
    both: dict[str, Any] = {
        "actor_learning_rate": rate, "critic_learning_rate": rate, "tau": TARGET[env],
        "actor_encoder_factory": encoder, "critic_encoder_factory": encoder,
        **shared, **OWN.get(f"{env}_{policy}", {}),
    }  # fmt: skip
    if policy == "td3_bc":
        both["observation_scaler"] = StandardObservationScaler()
    one = {"learning_rate": rate, "encoder_factory": encoder, **shared}
    every = round(1 / TARGET[env])
    made: dict[str, Callable[[], Any]] = {
        "bc": lambda: (algos.DiscreteBCConfig if env == "cartpole" else algos.BCConfig)(**one),
        "td3_bc": lambda: algos.TD3PlusBCConfig(**both),
        "iql": lambda: algos.IQLConfig(value_encoder_factory=encoder, **both),
        "awac": lambda: algos.AWACConfig(**both),
        "bcq": lambda: algos.BCQConfig(
            imitator_learning_rate=rate, imitator_encoder_factory=encoder, n_action_samples=10,
            **both,
        ),
        "cql": lambda: algos.CQLConfig(
            temp_learning_rate=rate, alpha_learning_rate=0.0, **both
        ),
        "discrete_cql": lambda: algos.DiscreteCQLConfig(target_update_interval=every, **one),
        "discrete_bcq": lambda: algos.DiscreteBCQConfig(target_update_interval=every, **one),
    }  # fmt: skip
    return made[policy]()


def d3rlpy_data(path: Path, scale: Any, name: str = "") -> Any:
    """Returns the file as d3rlpy takes it, with actions in [-1, 1]."""
    from d3rlpy.dataset import MDPDataset, MultiStepTransitionPicker

    data = np.load(path)
    reward = data["reward"].astype(np.float32).reshape(-1, 1) * np.float32(SCALE.get(name, 1.0))
    action, ended = data["action"], data["terminated"]
    rows = action.reshape(-1, 1) if scale is None else (action / scale).astype(np.float32)
    return MDPDataset(
        data["obs"].astype(np.float32), rows, reward, ended.astype(np.float32),
        timeouts=(data["truncated"] & ~ended).astype(np.float32),
        transition_picker=MultiStepTransitionPicker(NSTEP.get(name, 1), 0.99),
    )  # fmt: skip


def mean_return(env: str, act: Callable[[Any], Any]) -> float:
    """Returns the mean return of the same episodes for every policy."""
    made, returns = gymnasium.make(IDS[env]), []
    for episode in range(EPISODES):
        obs, _ = made.reset(seed=5_000 + episode)
        total, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = made.step(act(obs))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def d3rlpy_run(env: str, policy: str, path: Path, seed: int, updates: int) -> float:
    """Returns the mean return after the updates."""
    import d3rlpy

    space = gymnasium.make(IDS[env]).action_space
    scale = getattr(space, "high", None)
    d3rlpy.seed(seed)
    data = d3rlpy_data(path, scale, f"{env}_{policy}")
    algorithm = d3rlpy_config(env, policy).create(device="cpu:0")
    algorithm.build_with_dataset(data)
    algorithm.fit(
        data, n_steps=updates, n_steps_per_epoch=updates, show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )  # fmt: skip

    def act(obs: Any) -> Any:
        action = algorithm.predict(obs[None].astype(np.float32))[0]
        return int(action) if scale is None else np.clip(action * scale, -scale, scale)

    return mean_return(env, act)


def dicore_run(env: str, policy: str, path: Path, seed: int, updates: int) -> float:
    """Returns the mean return after the updates."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = launch(
            env=env, policy=policy, mode="serial_offline", seed=seed, exp_name=f"{folder}/run",
            max_train_iter=updates,
            overrides=[
                "pipeline.dataset.type=npz", f"pipeline.dataset.path={path.resolve()}",
                "pipeline.logger=[]", "env.stop_value=inf",
                f"policy.eval.evaluator.eval_freq={updates}",
            ],
        )  # fmt: skip
    mode = outcome.policy.eval_mode
    mode.reset()
    return mean_return(env, lambda obs: mode.forward({0: obs})[0]["action"])


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    env, policy = sys.argv[1:3]
    seeds, updates = (int(given) for given in [*sys.argv[3:], "3", "6000"][:2])
    contenders = {"dicore": dicore_run, "d3rlpy": d3rlpy_run}
    try:
        import d3rlpy  # noqa: F401 - fails before the long run
    except ImportError:
        missing("offline", "d3rlpy")
        del contenders["d3rlpy"]
    path = Path(f"runs/offline_data/{env}_mixed.npz")
    for name, run in contenders.items():
        found = []
        for seed in range(seeds):
            found.append(run(env, policy, path, seed, updates))
            print(
                f"# {env} {policy} seed {seed} {name}: {found[-1]:.1f}", file=sys.stderr, flush=True
            )
        emit(f"{env} {policy} {name} return after {updates} updates", found, "return")


if __name__ == "__main__":
    main()
