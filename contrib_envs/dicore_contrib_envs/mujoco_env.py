"""MuJoCo: locomotion of simulated bodies (Todorov et al. 2012), with continuous torques."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig

_NEVER = float("inf")


@frozen(kw_only=True)
class HalfCheetahConfig(GymnasiumConfig):
    """HalfCheetah-v5: run with two legs in a plane; solved at return 4800."""

    env_id: str = option("HalfCheetah-v5", "Gymnasium environment id")
    forward_reward_weight: float = option(1.0, "weight of the forward speed in the reward")
    ctrl_cost_weight: float = option(0.1, "weight of the cost of torques", ge=0)
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(4800.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {
            "forward_reward_weight": self.forward_reward_weight,
            "ctrl_cost_weight": self.ctrl_cost_weight,
        }


@frozen(kw_only=True)
class HopperConfig(GymnasiumConfig):
    """Hopper-v5: hop forward on one leg; solved at return 3800."""

    env_id: str = option("Hopper-v5", "Gymnasium environment id")
    terminate_when_unhealthy: bool = option(True, "end the episode when the body falls")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(3800.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"terminate_when_unhealthy": self.terminate_when_unhealthy}


@frozen(kw_only=True)
class Walker2dConfig(GymnasiumConfig):
    """Walker2d-v5: walk forward on two legs in a plane; Gymnasium publishes no threshold."""

    env_id: str = option("Walker2d-v5", "Gymnasium environment id")
    terminate_when_unhealthy: bool = option(True, "end the episode when the body falls")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(_NEVER, "mean episode return at which training stops; inf: never")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"terminate_when_unhealthy": self.terminate_when_unhealthy}


@frozen(kw_only=True)
class AntConfig(GymnasiumConfig):
    """Ant-v5: walk forward on four legs; solved at return 6000."""

    env_id: str = option("Ant-v5", "Gymnasium environment id")
    terminate_when_unhealthy: bool = option(True, "end the episode when the body falls")
    include_cfrc_ext_in_observation: bool = option(
        True, "observe the contact forces (78 of 105 numbers)"
    )
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(6000.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {
            "terminate_when_unhealthy": self.terminate_when_unhealthy,
            "include_cfrc_ext_in_observation": self.include_cfrc_ext_in_observation,
        }


@frozen(kw_only=True)
class HumanoidConfig(GymnasiumConfig):
    """Humanoid-v5: walk forward with a human-like body; Gymnasium publishes no threshold."""

    env_id: str = option("Humanoid-v5", "Gymnasium environment id")
    terminate_when_unhealthy: bool = option(True, "end the episode when the body falls")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(_NEVER, "mean episode return at which training stops; inf: never")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"terminate_when_unhealthy": self.terminate_when_unhealthy}


@frozen(kw_only=True)
class SwimmerConfig(GymnasiumConfig):
    """Swimmer-v5: swim forward with three links; solved at return 360."""

    env_id: str = option("Swimmer-v5", "Gymnasium environment id")
    ctrl_cost_weight: float = option(1e-4, "weight of the cost of torques", ge=0)
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(360.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"ctrl_cost_weight": self.ctrl_cost_weight}


def _sac(name: str) -> dict[str, Any]:
    """Returns SAC with the settings of Haarnoja et al. 2018, which are alike for all bodies."""
    return {
        "env": {"type": name, "collector_env_num": 1, "evaluator_env_num": 10},
        "policy": {
            "type": "sac",
            "discount_factor": 0.99,
            "learn": {"batch_size": 256, "learning_rate": 3e-4},
            "collect": {"n_sample": 1, "random_collect_size": 10_000},
            "eval": {"evaluator": {"eval_freq": 10_000}},
            "other": {"replay_buffer": {"replay_buffer_size": 1_000_000}},
        },
    }


HALFCHEETAH_SAC = _sac("halfcheetah")
"""SAC on HalfCheetah with the settings of Haarnoja et al. 2018; not trained to its stop value."""

HOPPER_SAC = _sac("hopper")
"""SAC on Hopper with the settings of Haarnoja et al. 2018: 3,068 in 200k env steps (one seed)."""

WALKER2D_SAC = _sac("walker2d")
"""SAC on Walker2d with the settings of Haarnoja et al. 2018; trains until a budget ends it."""

ANT_SAC = _sac("ant")
"""SAC on Ant with the settings of Haarnoja et al. 2018; not trained to its stop value."""

HUMANOID_SAC = _sac("humanoid")
"""SAC on Humanoid with the settings of Haarnoja et al. 2018; trains until a budget ends it."""

SWIMMER_SAC = _sac("swimmer")
"""SAC on Swimmer with the settings of Haarnoja et al. 2018; not trained to its stop value."""


def _ppo(name: str, discount_factor: float = 0.99) -> dict[str, Any]:
    """Returns PPO with the settings of Schulman et al. 2017, which are alike for all bodies."""
    return {
        "env": {"type": name, "collector_env_num": 1, "evaluator_env_num": 10},
        "policy": {
            "type": "ppo",
            "discount_factor": discount_factor,
            "model": {"obs_norm": True, "value_norm": True},
            "eval": {"evaluator": {"eval_freq": 3_200}},
        },
    }


HOPPER_PPO = _ppo("hopper")
"""PPO on Hopper with the settings of Schulman et al. 2017, which are the defaults, and normalised
observations and values: 3,300 to 3,510 after 500k env steps. With those of rl-zoo3 it stays near
1000, as Stable-Baselines3 does."""

HALFCHEETAH_PPO: dict[str, Any] = {
    "env": {"type": "halfcheetah", "collector_env_num": 1, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.98,
        "model": {
            "encoder_hidden_size_list": [256, 256],
            "activation": "relu",
            "log_std_init": -2.0,
            "initial_weights": "uniform",
            "obs_norm": True,
            "value_norm": True,
        },
        "learn": {
            "epoch_per_collect": 20,
            "batch_size": 64,
            "learning_rate": 2.0633e-5,
            "entropy_weight": 0.000401762,
            "clip_ratio": 0.1,
            "max_grad_norm": 0.8,
            "value_weight": 0.58096,
        },
        "collect": {"n_sample": 512, "gae_lambda": 0.92},
        "eval": {"evaluator": {"eval_freq": 8_000}},
    },
}
"""PPO on HalfCheetah with the settings of rl-zoo3: 4,800 in 307k env steps, 6,150 after 1M (one
seed).

With those of Schulman et al. 2017 it has 1,750 after 390k, and 3,110 after 1M with 64 environments.
"""

WALKER2D_PPO = _ppo("walker2d")
"""PPO on Walker2d with the settings of Schulman et al. 2017; trains until a budget ends it: best
4,900, last 2,420 after 1M env steps (one seed)."""

ANT_PPO_V1 = _ppo("ant")
"""PPO on Ant with the settings of Schulman et al. 2017: 890 at best after 1M env steps (one seed),
less than it has for standing still."""

ANT_PPO_V2: dict[str, Any] = {
    "env": {"type": "ant", "collector_env_num": 1, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.99,
        "model": {"obs_norm": True, "value_norm": True, "log_std_init": -0.5},
        "learn": {"learning_rate_end": 0.01},
        "eval": {"evaluator": {"eval_freq": 3_200}},
    },
}
"""PPO on Ant with smaller first steps, and a learning rate that falls over the whole budget: IQM
1,180 after 1M env steps, 670 to 2,150 (five seeds)."""

SWIMMER_PPO_V1 = _ppo("swimmer", discount_factor=0.9999)
"""PPO on Swimmer with the settings of Schulman et al. 2017, and the far horizon that it needs: 137
to 310 after 1M env steps (five seeds)."""

SWIMMER_PPO_V2: dict[str, Any] = {
    "env": {"type": "swimmer", "collector_env_num": 4, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.9999,
        "model": {"obs_norm": True, "value_norm": True},
        "learn": {"batch_size": 256, "learning_rate": 6e-4},
        "collect": {"n_sample": 4096, "gae_lambda": 0.98},
        "eval": {"evaluator": {"eval_freq": 1_600}},
    },
}
"""PPO on Swimmer with the settings of rl-zoo3: 356 to 359 after 1M env steps (four of five). One
seed finds another gait and stays at 150."""
