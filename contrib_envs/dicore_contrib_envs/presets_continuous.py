"""Presets of off-policy algorithms for continuous and hybrid actions, and of discrete SAC."""

from __future__ import annotations

from typing import Any


def _preset(
    env: str, policy: str, *, every: int = 500, envs: int = 1, size: int = 100_000, **options: Any
) -> dict[str, Any]:
    """Returns a preset with one update per env step; the options that all share are here."""
    learn = {"update_per_step": 1.0, **options.pop("learn", {})}
    other = {"replay_buffer": {"replay_buffer_size": size}, **options.pop("other", {})}
    return {
        "env": {"type": env, "collector_env_num": envs, "evaluator_env_num": 10},
        "policy": {
            "type": policy,
            "discount_factor": 0.99,
            "learn": learn,
            "eval": {"evaluator": {"eval_freq": every}},
            "other": other,
            **options,
        },
    }


_WIDE = {"actor_hidden_size_list": [400, 300], "critic_hidden_size_list": [400, 300]}

PENDULUM_TD3 = _preset(
    "pendulum",
    "td3",
    discount_factor=0.98,
    model=_WIDE,
    learn={"learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 1_000, "noise": 0.1},
)
"""TD3 on Pendulum with the settings of rl-zoo3, but a shorter warm-up; 5k to 7.5k env steps."""

PENDULUM_DDPG = _preset(
    "pendulum",
    "ddpg",
    discount_factor=0.98,
    model=_WIDE,
    learn={"learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 1_000, "noise": 0.1},
)
"""DDPG on Pendulum with the settings of rl-zoo3, but a shorter warm-up; 4k env steps (3 seeds)."""

PENDULUM_D4PG = _preset(
    "pendulum",
    "d4pg",
    discount_factor=0.98,
    model={"v_min": -500.0, "v_max": 0.0},
    learn={"learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 1_000, "noise": 0.1},
    other={"replay_buffer": {"type": "advanced", "replay_buffer_size": 100_000}},
)
"""D4PG on Pendulum; -180 in 2.5k env steps (3 seeds)."""

PENDULUM_TQC = _preset(
    "pendulum",
    "tqc",
    learn={"learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 100},
)
"""TQC on Pendulum with the settings of rl-zoo3; -180 in 3k env steps (3 seeds)."""

PENDULUM_CROSSQ = _preset(
    "pendulum",
    "crossq",
    model={"critic_hidden_size_list": [256, 256]},
    learn={"learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 100},
)
"""CrossQ with narrow critics on Pendulum; -180 in 2.6k env steps (3 seeds)."""

_SMALL = {"actor_hidden_size_list": [64, 64], "critic_hidden_size_list": [64, 64]}

PENDULUM_REDQ = _preset(
    "pendulum",
    "redq",
    every=10_000,
    model=_SMALL,
    learn={"update_per_step": 20.0, "learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 100},
)
"""REDQ on Pendulum in small networks, with the learning rate of the other presets of Pendulum."""

PENDULUM_DROQ = _preset(
    "pendulum",
    "droq",
    every=10_000,
    model=_SMALL,
    learn={"update_per_step": 20.0, "learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 100},
)
"""DroQ on Pendulum in small networks; -147 after 600 env steps (1 seed)."""

PENDULUM_SIMBA = _preset(
    "pendulum",
    "simba",
    every=1_000,
    model={"actor_hidden_size_list": [32], "critic_hidden_size_list": [64, 64]},
    learn={"update_per_step": 2.0, "learning_rate": 1e-3},
    collect={"n_sample": 1, "random_collect_size": 100},
)
"""SimBa on Pendulum in narrow blocks; -182 after 1,100 env steps (1 seed)."""

PENDULUM_MBPO = _preset(
    "pendulum",
    "mbpo",
    every=800,
    model=_SMALL,
    world_model={
        "type": "ensemble",
        "ensemble_size": 5,
        "elite_size": 3,
        "hidden_size_list": [128, 128],
        "train_freq": 200,
        "learning_rate": 2e-3,
        "max_epoch": 60,
    },
    learn={"learning_rate": 1e-3, "batch_size": 128, "update_per_step": 4.0},
    collect={"n_sample": 1, "random_collect_size": 200},
    other={
        "replay_buffer": {"replay_buffer_size": 100_000},
        "rollout_batch_size": 600,
        "rollout_length": 15,
        "model_buffer_size": 20_000,
        "real_share": 0.1,
    },
)
"""MBPO on Pendulum; -174 in 1.2k env steps (1 seed). Long rollouts imagine the swing-up."""

MOUNTAIN_CAR_CONTINUOUS_SAC = _preset(
    "mountain_car_continuous",
    "sac",
    every=1_000,
    size=50_000,
    discount_factor=0.9999,
    model={
        "gsde": True,
        "log_std_init": -3.67,
        "actor_hidden_size_list": [64, 64],
        "critic_hidden_size_list": [64, 64],
    },
    learn={
        "batch_size": 512,
        "learning_rate": 3e-4,
        "auto_alpha": False,
        "alpha": 0.1,
        "target_theta": 0.01,
    },
    collect={"n_sample": 32, "random_collect_size": 0, "sde_sample_freq": 32},
)
"""SAC with gSDE on MountainCarContinuous, with the settings of rl-zoo3; 6k to 10k env steps."""

BIPEDALWALKER_SAC = _preset(
    "bipedalwalker",
    "sac",
    every=10_000,
    size=300_000,
    discount_factor=0.98,
    model={**_WIDE, "gsde": True, "log_std_init": -3.0},
    learn={"learning_rate": 7.3e-4, "target_theta": 0.02},
    collect={"n_sample": 64, "random_collect_size": 10_000, "sde_sample_freq": 64},
)
"""SAC with gSDE on BipedalWalker, with the settings of rl-zoo3; 250 after 100k to 161k env steps.

`policy.learn.autocast=bfloat16` halves the time of updates on CPUs with bfloat16 instructions.
"""

LUNARLANDER_CONTINUOUS_SAC = _preset(
    "lunarlander_continuous",
    "sac",
    every=5_000,
    size=500_000,
    model=_WIDE,
    learn={"learning_rate": 7.3e-4, "target_theta": 0.01},
    collect={"n_sample": 1, "random_collect_size": 10_000},
)
"""SAC on LunarLanderContinuous, after rl-zoo3 with a constant rate; not yet measured."""

CARTPOLE_DISCRETE_SAC = _preset(
    "cartpole",
    "discrete_sac",
    envs=8,
    every=512,
    model={"actor_hidden_size_list": [128, 128], "critic_hidden_size_list": [128, 128]},
    learn={"learning_rate": 1e-3, "batch_size": 128, "target_entropy": 0.3, "target_theta": 0.02},
    collect={"n_sample": 64, "random_collect_size": 512},
)
"""SAC for discrete actions on CartPole; solves it in 7k to 18k env steps (3 seeds)."""

_MOVING: dict[str, Any] = {"eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 20_000}}

MOVING_PDQN = _preset(
    "moving",
    "pdqn",
    envs=8,
    every=2_048,
    model={"actor_hidden_size_list": [256, 256], "critic_hidden_size_list": [256, 256]},
    learn={"learning_rate": 1e-3, "actor_learning_rate": 3e-4, "batch_size": 128},
    collect={"n_sample": 64, "random_collect_size": 1_024, "noise": 0.1},
    other=_MOVING,
)
"""P-DQN on Moving; return 1.89 of 1.99 in 38k to 50k env steps (3 seeds)."""

MOVING_PADDPG = _preset(
    "moving",
    "paddpg",
    envs=8,
    every=2_048,
    discount_factor=0.95,
    model={
        "actor_hidden_size_list": [128, 128],
        "critic_hidden_size_list": [128, 128],
        "num_critics": 2,
    },
    learn={
        "learning_rate": 1e-3,
        "actor_learning_rate": 3e-4,
        "batch_size": 128,
        "target_theta": 0.01,
    },
    collect={"n_sample": 64, "random_collect_size": 1_024, "noise": 0.1},
    other=_MOVING,
)
"""PA-DDPG on Moving; return 1.8 of 1.99 in 26k and 30k env steps (2 seeds).

With one Q network and a discount of 0.99 the Q values grow to ten times the best return in 20k env
steps.
"""

MOVING_PPO: dict[str, Any] = {
    "env": {"type": "moving", "collector_env_num": 16, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.99,
        "model": {
            "value_norm": True,
            "encoder_hidden_size_list": [128, 128],
            "log_std_init": -1.2,
        },
        "learn": {
            "batch_size": 256,
            "epoch_per_collect": 10,
            "learning_rate": 1e-3,
            "entropy_weight": 0.01,
        },
        "collect": {"n_sample": 2_048, "gae_lambda": 0.95},
        "eval": {"evaluator": {"eval_freq": 320}},
    },
}
"""PPO with hybrid actions on Moving; return 1.89 of 1.99 in 133k env steps (median of 3 seeds).

As in DI-engine, the arguments begin with a standard deviation of 0.3: wider ones miss the target,
and stopping beside it costs more than never stopping.
"""
