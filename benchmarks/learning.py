"""P16, P19: env steps and seconds to a return, compared with SB3 with the settings of rl-zoo3.

Both are evaluated on 10 episodes every so many env steps; the first mean of at least the return
ends the training.

python -m benchmarks.learning cartpole_ppo            # 5 seeds
python -m benchmarks.learning pendulum_ppo 3          # 3 seeds
python -m benchmarks.learning pendulum_ppo 3 SB3      # SB3 alone
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.measure import compare, emit, missing
from dicore.run.launch import launch

EPISODES = 10


class Task(NamedTuple):
    """What both train.

    Args:
        env: Name of the environment; the algorithm is the rest of the task's name.
        env_id: Gymnasium id.
        wanted: Mean return that ends the training.
        limit: Most env steps.
        every: Env steps between evaluations.
        sb3: Algorithm and arguments of SB3 or sb3-contrib: the zoo's settings; `noise` is the
            standard deviation of the exploration noise.
        num_envs: Environments of SB3.
        normalize: SB3 normalizes observations and rewards, as the zoo says.
        warm_up: Env steps before the first update by SB3's default; evaluations count from there.
    """

    env: str
    env_id: str
    wanted: float
    limit: int
    every: int
    sb3: tuple[str, dict[str, Any]] | None
    num_envs: int
    normalize: bool = False
    warm_up: int = 0


def falling(start: float, steps: int, limit: int) -> Callable[[float], float]:
    """Returns a schedule that falls from `start` to 0 in `steps`, of a training of `limit`."""
    return lambda remaining: start * max(1 - (1 - remaining) * limit / steps, 0.0)


_PENDULUM_TD3: dict[str, Any] = {
    "gamma": 0.98, "buffer_size": 200_000, "learning_starts": 1_000, "noise": 0.1,
    "learning_rate": 1e-3, "policy_kwargs": {"net_arch": [400, 300]},
}  # fmt: skip
"""The zoo's settings, with a warm-up of 1 000 instead of 10 000 steps as in our presets."""

_CARTPOLE_DQN: dict[str, Any] = {
    "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1_000,
    "gamma": 0.99, "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
    "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
}  # fmt: skip
_LUNARLANDER_DQN: dict[str, Any] = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
    "gamma": 0.99, "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1,
    "exploration_fraction": 0.12, "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
}  # fmt: skip

TASKS = {
    "cartpole_dqn": Task(
        "cartpole", "CartPole-v1", 475, 50_000, 512,
        ("DQN", {**_CARTPOLE_DQN, "policy_kwargs": {"net_arch": [256, 256]}}), 1,
    ),
    "cartpole_qrdqn": Task(
        "cartpole", "CartPole-v1", 475, 50_000, 512,
        ("QRDQN", {**_CARTPOLE_DQN, "policy_kwargs": {"net_arch": [256, 256], "n_quantiles": 10}}),
        1,
    ),
    "acrobot_dqn": Task("acrobot", "Acrobot-v1", -90, 100_000, 2_048, ("DQN", _LUNARLANDER_DQN), 1),
    "lunarlander_dqn": Task(
        "lunarlander", "LunarLander-v3", 200, 100_000, 2_048, ("DQN", _LUNARLANDER_DQN), 1
    ),
    "cartpole_ppo": Task(
        "cartpole", "CartPole-v1", 475, 100_000, 512,
        ("PPO", {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
                 "n_epochs": 20, "learning_rate": falling(1e-3, 100_000, 100_000),
                 "clip_range": falling(0.2, 100_000, 100_000)}),
        8,
    ),
    "cartpole_a2c": Task("cartpole", "CartPole-v1", 475, 150_000, 2_000, ("A2C", {}), 8),
    "acrobot_ppo": Task(
        "acrobot", "Acrobot-v1", -90, 300_000, 4_096,
        ("PPO", {"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4}), 16, True,
    ),
    "pendulum_ppo": Task(
        "pendulum", "Pendulum-v1", -200, 300_000, 4_096,
        ("PPO", {"n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10,
                 "learning_rate": 1e-3, "use_sde": True, "sde_sample_freq": 4}),
        4,
    ),
    "lunarlander_ppo": Task(
        "lunarlander", "LunarLander-v3", 200, 500_000, 16_384,
        ("PPO", {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999,
                 "n_epochs": 4, "ent_coef": 0.01}),
        16,
    ),
    "pendulum_sac": Task(
        "pendulum", "Pendulum-v1", -180, 20_000, 500, ("SAC", {"learning_rate": 1e-3}), 1,
        warm_up=100,
    ),
    "pendulum_td3": Task("pendulum", "Pendulum-v1", -180, 20_000, 500, ("TD3", _PENDULUM_TD3), 1),
    "pendulum_ddpg": Task("pendulum", "Pendulum-v1", -180, 20_000, 500, ("DDPG", _PENDULUM_TD3), 1),
    "pendulum_tqc": Task(
        "pendulum", "Pendulum-v1", -180, 20_000, 500, ("TQC", {"learning_rate": 1e-3}), 1,
        warm_up=100,
    ),
    "pendulum_crossq": Task(
        "pendulum", "Pendulum-v1", -180, 20_000, 500,
        ("CrossQ", {"policy_kwargs": {"net_arch": {"pi": [256, 256], "qf": [256, 256]}}}), 1,
        warm_up=100,
    ),
    "pendulum_d4pg": Task("pendulum", "Pendulum-v1", -180, 20_000, 500, None, 1),
    "cartpole_discrete_sac": Task("cartpole", "CartPole-v1", 475, 200_000, 512, None, 8),
    "moving_pdqn": Task("moving", "", 1.89, 200_000, 2_048, None, 8),
    "moving_ppo": Task("moving", "", 1.89, 1_000_000, 10_240, None, 8),
    "mountain_car_continuous_sac": Task(
        "mountain_car_continuous", "MountainCarContinuous-v0", 90, 60_000, 1_000,
        ("SAC", {"buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32,
                 "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0,
                 "use_sde": True,
                 "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]}}),
        1,
    ),
}  # fmt: skip


def dicore_run(name: str, seed: int) -> tuple[float, int, bool]:
    """Returns seconds, env steps and whether the task was solved."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        result = launch(
            env=task.env, policy=name.removeprefix(f"{task.env}_"), seed=seed,
            exp_name=f"{folder}/run", max_env_step=task.limit,
            overrides=[f"env.stop_value={task.wanted}", "pipeline.logger=['tensorboard']"],
        ).run.result  # fmt: skip
    return result.wall_s, result.env_step, result.stop


def sb3_envs(task: Task, count: int, **options: Any) -> Any:
    """Returns environments of SB3, which normalizes them if the zoo says so."""
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    envs: Any = DummyVecEnv([lambda: gymnasium.make(task.env_id)] * count)
    return VecNormalize(envs, **options) if task.normalize else envs


def sb3_mean(task: Task, model: Any, seed: int) -> float:
    """Returns the mean return of 10 episodes, one in each environment."""
    envs = sb3_envs(task, EPISODES, training=False, norm_reward=False)
    if task.normalize:
        envs.obs_rms = model.get_vec_normalize_env().obs_rms
    envs.seed(seed)
    obs, total, live = envs.reset(), np.zeros(EPISODES), np.ones(EPISODES, bool)
    while live.any():
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, _ = envs.step(action)
        total += reward * live
        live &= ~done
    envs.close()
    return float(total.mean())


def sb3_class(algorithm: str) -> Any:
    """Returns a class of SB3, or else of sb3-contrib."""
    import stable_baselines3

    if hasattr(stable_baselines3, algorithm):
        return getattr(stable_baselines3, algorithm)
    import sb3_contrib

    return getattr(sb3_contrib, algorithm)


def sb3_options(envs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments of SB3 with its object for the exploration noise."""
    from stable_baselines3.common.noise import NormalActionNoise

    found = dict(options)
    noise = found.pop("noise", None)
    if noise is not None:
        zero = np.zeros(envs.action_space.shape)
        found["action_noise"] = NormalActionNoise(zero, zero + noise)
    return found


def sb3_run(name: str, seed: int) -> tuple[float, int, bool]:
    """Trains SB3; returns as `dicore_run` does."""
    from stable_baselines3.common.callbacks import BaseCallback

    task = TASKS[name]
    assert task.sb3 is not None
    algorithm, options = task.sb3

    class Stop(BaseCallback):
        reached = False
        next_at = task.every + options.get("learning_starts", task.warm_up)

        def _on_step(self) -> bool:
            return not self.reached

        def _on_rollout_start(self) -> None:  # after the updates of the rollout before
            if self.num_timesteps >= self.next_at:
                self.next_at += task.every
                number = seed * 1_000_000 + self.num_timesteps
                self.reached = sb3_mean(task, self.model, number) >= task.wanted

    envs = sb3_envs(task, task.num_envs, gamma=options.get("gamma", 0.99))
    model = sb3_class(algorithm)(
        "MlpPolicy", envs, seed=seed, device="cpu", **sb3_options(envs, options)
    )
    callback = Stop()
    start = time.perf_counter()
    model.learn(task.limit, callback=callback)
    seconds = time.perf_counter() - start
    reached = callback.reached or sb3_mean(task, model, seed) >= task.wanted
    return seconds, model.num_timesteps, reached


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    name = sys.argv[1] if len(sys.argv) > 1 else "cartpole_ppo"
    seeds = range(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    contenders = {"dicore": dicore_run}
    try:
        if (peer := TASKS[name].sb3) is not None:
            sb3_class(peer[0])  # fails before the long run
            contenders["SB3"] = sb3_run
            if "SB3" in sys.argv[3:]:
                del contenders["dicore"]
    except ImportError:
        missing("P16", "stable-baselines3 or sb3-contrib")
    found: dict[str, list[tuple[float, int, bool]]] = {each: [] for each in contenders}
    for seed in seeds:
        for each, run in contenders.items():
            found[each].append(run(name, seed))
            print(f"# {name} seed {seed} {each}: {found[each][-1]}", file=sys.stderr, flush=True)
    for each, runs in found.items():
        solved = f"{sum(solved for _, _, solved in runs)} of {len(runs)}"
        emit(f"{name} {each} seconds", [seconds for seconds, _, _ in runs], "s", solved=solved)
        emit(f"{name} {each} env steps", [float(steps) for _, steps, _ in runs], "env steps")
    if len(found) == 2:
        rates = [[steps / s for s, steps, _ in found[each]] for each in ("dicore", "SB3")]
        compare(f"{name} per env step", rates[0], rates[1], "SB3", 2.8 if "ppo" in name else 2.3)


if __name__ == "__main__":
    main()
