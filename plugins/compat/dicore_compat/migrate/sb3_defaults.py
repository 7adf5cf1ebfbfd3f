"""Defaults of the algorithms of Stable-Baselines3 and SB3-contrib, as documented there."""

from __future__ import annotations

__all__ = ["DEFAULTS", "ENVS", "OFF_POLICY", "ON_POLICY"]

_ON: dict[str, object] = {
    "n_envs": 1, "n_timesteps": 1e6, "gamma": 0.99, "ent_coef": 0.0, "vf_coef": 0.5,
    "max_grad_norm": 0.5, "net_arch": [64, 64],
}  # fmt: skip
_PPO = {
    **_ON, "learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "n_epochs": 10,
    "gae_lambda": 0.95, "clip_range": 0.2, "normalize_advantage": True,
}  # fmt: skip
_OFF: dict[str, object] = {
    "n_timesteps": 1e6, "buffer_size": 1_000_000, "learning_starts": 100, "batch_size": 256,
    "tau": 0.005, "gamma": 0.99, "train_freq": 1, "gradient_steps": 1, "net_arch": [256, 256],
}  # fmt: skip
_VALUE = {
    **_OFF, "learning_rate": 1e-4, "batch_size": 32, "tau": 1.0, "train_freq": 4,
    "target_update_interval": 10_000, "exploration_fraction": 0.1, "exploration_final_eps": 0.05,
    "max_grad_norm": 10.0, "net_arch": [64, 64],
}  # fmt: skip

DEFAULTS: dict[str, dict[str, object]] = {
    "a2c": {
        **_ON, "learning_rate": 7e-4, "n_steps": 5, "gae_lambda": 1.0,
        "normalize_advantage": False,
    },
    "crossq": {**_OFF, "learning_rate": 1e-3, "policy_delay": 3, "ent_coef": "auto"},
    "ddpg": {**_OFF, "learning_rate": 1e-3, "net_arch": [400, 300]},
    "dqn": _VALUE,
    "ppo": _PPO,
    "ppo_lstm": {**_PPO, "n_steps": 128, "batch_size": 128},
    "qrdqn": {
        **_VALUE, "learning_rate": 5e-5, "exploration_fraction": 0.005,
        "exploration_final_eps": 0.01, "max_grad_norm": None,
    },
    "sac": {**_OFF, "learning_rate": 3e-4, "ent_coef": "auto"},
    "td3": {**_OFF, "learning_rate": 1e-3, "policy_delay": 2, "net_arch": [400, 300]},
    "tqc": {**_OFF, "learning_rate": 3e-4, "ent_coef": "auto"},
}  # fmt: skip
"""By algorithm, under the names of Stable-Baselines3; `net_arch` is that of `MlpPolicy`."""

ON_POLICY = ("a2c", "ppo", "ppo_lstm")
OFF_POLICY = {"value": ("dqn", "qrdqn"), "continuous": ("sac", "td3", "ddpg", "tqc", "crossq")}

ENVS = {
    "Acrobot": "acrobot",
    "Ant": "ant",
    "BipedalWalker": "bipedalwalker",
    "CarRacing": "car_racing",
    "CartPole": "cartpole",
    "HalfCheetah": "halfcheetah",
    "Hopper": "hopper",
    "Humanoid": "humanoid",
    "LunarLander": "lunarlander",
    "LunarLanderContinuous": "lunarlander_continuous",
    "MountainCar": "mountain_car",
    "MountainCarContinuous": "mountain_car_continuous",
    "Pendulum": "pendulum",
    "Swimmer": "swimmer",
    "Walker2d": "walker2d",
    "atari": "pong",
}
"""Environments with a name of their own; `atari` stands for all games."""
