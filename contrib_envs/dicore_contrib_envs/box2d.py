"""Box2D environments."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class LunarLanderConfig(GymnasiumConfig):
    """LunarLander-v3: land between two flags; solved at return 200."""

    env_id: str = option("LunarLander-v3", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(200.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class LunarLanderContinuousConfig(GymnasiumConfig):
    """LunarLanderContinuous-v3: land with engines of continuous power; solved at return 200."""

    env_id: str = option("LunarLanderContinuous-v3", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(200.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class BipedalWalkerConfig(GymnasiumConfig):
    """BipedalWalker-v3: walk with two legs on rough ground; solved at return 300."""

    env_id: str = option(
        "BipedalWalker-v3", "Gymnasium environment id; with obstacles: BipedalWalkerHardcore-v3"
    )
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(300.0, "mean episode return at which training stops")

    def adapt(self, env: Any) -> Any:
        """Makes episodes independent of earlier ones."""
        from dicore_contrib_envs.new_world import NewWorld

        return NewWorld(env)


@frozen(kw_only=True)
class CarRacingConfig(GymnasiumConfig):
    """CarRacing-v3: drive around a random track, seen from above; solved at return 900.

    Observations are RGB images [96, 96, 3].
    """

    env_id: str = option("CarRacing-v3", "Gymnasium environment id")
    continuous: bool = option(True, "steering, gas and brake are numbers; False: 5 actions")
    lap_complete_percent: float = option(
        0.95, "fraction of the track that completes a lap", gt=0, le=1
    )
    domain_randomize: bool = option(False, "other colours in every episode")
    n_evaluator_episode: int = option(5, "episodes per evaluation", ge=1)
    stop_value: float = option(900.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {
            "continuous": self.continuous,
            "lap_complete_percent": self.lap_complete_percent,
            "domain_randomize": self.domain_randomize,
        }

    def adapt(self, env: Any) -> Any:
        """Lets environments in threads draw one after the other."""
        from dicore_contrib_envs.one_at_a_time import OneAtATime

        return OneAtATime(env)


CAR_RACING_DQN: dict[str, Any] = {
    "env": {
        "type": "car_racing",
        "continuous": False,
        "env_wrapper": [
            {"type": "action_repeat", "action_repeat": 2},
            "warp_frame",
            "lazy_frame_stack",
        ],
        "collector_env_num": 4,
        "evaluator_env_num": 5,
    },
    "policy": {
        "type": "dqn",
        "nstep": 3,
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [512]},
        "learn": {
            "batch_size": 32,
            "update_per_collect": 8,
            "learning_rate": 1e-4,
            "target_update_freq": 500,
            "max_grad_norm": 10.0,
        },
        "collect": {"n_sample": 32, "random_collect_size": 5_000},
        "eval": {"evaluator": {"eval_freq": 20_000}},
        "other": {
            "replay_buffer": {"replay_buffer_size": 100_000},
            "eps": {"type": "linear", "start": 1.0, "end": 0.02, "decay": 100_000},
        },
    },
}
"""Double DQN with 3-step targets on CarRacing with 5 actions; not trained to its stop value."""


CAR_RACING_PPO: dict[str, Any] = {
    "env": {
        "type": "car_racing",
        "env_wrapper": [
            {"type": "action_repeat", "action_repeat": 2},
            "warp_frame",
            "lazy_frame_stack",
        ],
        "collector_env_num": 8,
        "evaluator_env_num": 5,
    },
    "policy": {
        "type": "ppo",
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [256], "value_norm": True},
        "learn": {
            "batch_size": 128,
            "epoch_per_collect": 10,
            "learning_rate": 1e-4,
            "max_grad_norm": 0.5,
        },
        "collect": {"n_sample": 4_096, "gae_lambda": 0.95},
        "eval": {"evaluator": {"eval_freq": 3_200}},
    },
}
"""PPO on gray images of 84 x 84 in stacks of four frames; not trained to its stop value."""


LUNARLANDER_CONTINUOUS_PPO: dict[str, Any] = {
    "env": {"type": "lunarlander_continuous", "collector_env_num": 16, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.999,
        "model": {"value_norm": True},
        "learn": {"batch_size": 64, "epoch_per_collect": 4, "learning_rate": 3e-4},
        "collect": {"n_sample": 16_384, "gae_lambda": 0.98},
        "eval": {"evaluator": {"eval_freq": 1_024}},
    },
}
"""PPO with normalised values on LunarLanderContinuous, after rl-zoo3; not trained to its end."""
