"""Small tasks for goals, hybrid actions, two agents, memory and images, with known optima."""

from __future__ import annotations

from typing import Any, ClassVar

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig

_TASKS = "dicore_contrib_envs.tasks:"


@frozen(kw_only=True)
class BitFlipConfig(GymnasiumConfig):
    """Flip bits until they equal a goal (Andrychowicz et al. 2017); -1 per step before the last.

    The best mean return is 1 - E[wrong bits]: -1.67 with 5 bits, -3.02 with 8.
    """

    env_id: str = option(_TASKS + "BitFlip-v0", "Gymnasium environment id")
    n_bits: int = option(8, "number of bits and steps; harder without hindsight above 10", ge=1)
    step_reward: float = option(
        -1.0, "reward of a step; 1 more when the goal is reached; 0: the return is 1 for success"
    )
    n_evaluator_episode: int = option(100, "episodes per evaluation", ge=1)

    def from_spec(self) -> dict[str, Any]:
        """Returns the best mean return less 0.3, a stop value that needs nearly all goals."""
        from dicore_contrib_envs.tasks.bit_flip import optimal_return

        return {"stop_value": optimal_return(self.n_bits, self.step_reward) - 0.3}

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"n_bits": self.n_bits, "step_reward": self.step_reward}


@frozen(kw_only=True)
class ChainConfig(GymnasiumConfig):
    """Walk to the end of a chain, against a small reward at its start (Osband et al. 2016).

    The best return is 10 for every length.
    """

    env_id: str = option(_TASKS + "Chain-v0", "Gymnasium environment id")
    length: int = option(30, "number of states; random actions need 2^length episodes", ge=3)
    n_evaluator_episode: int = option(5, "episodes per evaluation", ge=1)
    stop_value: float = option(10.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"length": self.length}


@frozen(kw_only=True)
class MovingConfig(GymnasiumConfig):
    """Turn, move and stop on a target: hybrid actions (Masson et al. 2016).

    The best mean return is 1.99.
    """

    env_id: str = option(_TASKS + "Moving-v0", "Gymnasium environment id")
    bins: int | None = option(
        None, "discretise both arguments, for policies without continuous actions", ge=2
    )
    max_episode_steps: int = option(50, "maximum episode length", ge=1, unit="env steps")
    n_evaluator_episode: int = option(50, "episodes per evaluation", ge=1)
    stop_value: float = option(1.8, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"bins": self.bins, "max_episode_steps": self.max_episode_steps}


@frozen(kw_only=True)
class TwoStepConfig(GymnasiumConfig):
    """Two agents choose a game and play it (Rashid et al. 2018); the best return is 8.

    Rewards are per agent, float32 [2]; both receive the same.
    """

    env_id: str = option(_TASKS + "TwoStep-v0", "Gymnasium environment id")
    team_reward: bool = option(False, "one reward for the team instead of one per agent")
    n_evaluator_episode: int = option(5, "episodes per evaluation", ge=1)
    stop_value: float = option(8.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"team_reward": self.team_reward}


@frozen(kw_only=True)
class NimConfig(GymnasiumConfig):
    """Take the last of a heap of stones, two agents in turn; with the wrapper `versus`, one.

    The agent that begins can win every game: the best return is 1.
    """

    env_id: str = option(_TASKS + "Nim-v0", "Gymnasium environment id")
    heap_max: int = option(21, "largest heap", ge=5, unit="stones")
    most: int = option(3, "stones that may be taken at once", ge=2, le=3, unit="stones")
    n_evaluator_episode: int = option(50, "episodes per evaluation", ge=1)
    stop_value: float = option(1.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"heap_max": self.heap_max, "most": self.most}


@frozen(kw_only=True)
class TMazeConfig(GymnasiumConfig):
    """Remember a sign until the end of a corridor (Bakker 2002); the best return is 4.

    Without memory, the best mean return is 1.95.
    """

    env_id: str = option(_TASKS + "TMaze-v0", "Gymnasium environment id")
    length: int = option(10, "length of the corridor", ge=1, unit="env steps")
    n_evaluator_episode: int = option(20, "episodes per evaluation", ge=1)
    stop_value: float = option(3.9, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {"length": self.length}


@frozen(kw_only=True)
class MiniBreakoutConfig(GymnasiumConfig):
    """Breakout on a 10 x 10 grid with the rules of MinAtar (Young and Tian 2019).

    A return of 30 clears the wall once.
    """

    env_id: str = option(_TASKS + "MiniBreakout-v0", "Gymnasium environment id")
    sticky_action_probability: float = option(
        0.1, "probability of repeating the previous action", ge=0, le=1
    )
    max_episode_steps: int = option(2_500, "maximum episode length", ge=1, unit="env steps")
    n_evaluator_episode: int = option(20, "episodes per evaluation", ge=1)
    stop_value: float = option(10.0, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {
            "sticky_action_probability": self.sticky_action_probability,
            "max_episode_steps": self.max_episode_steps,
        }


@frozen(kw_only=True)
class CartPolePOMDPConfig(GymnasiumConfig):
    """CartPole-v1 without velocities, which must be derived from positions; solved at 475."""

    changes_data: ClassVar[bool] = True

    env_id: str = option("CartPole-v1", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(475.0, "mean episode return at which training stops")

    def adapt(self, env: Any) -> Any:
        """Removes the velocities from the observations: float32 [2], cart and pole."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        low, high = env.observation_space.low[::2], env.observation_space.high[::2]
        return TransformObservation(
            env, lambda obs: obs[::2].copy(), Box(low, high, (2,), np.float32)
        )


@frozen(kw_only=True)
class PendulumPOMDPConfig(GymnasiumConfig):
    """Pendulum-v1 without the velocity, which must be derived from positions; solved at -250."""

    changes_data: ClassVar[bool] = True

    env_id: str = option("Pendulum-v1", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(-250.0, "mean episode return at which training stops")

    def adapt(self, env: Any) -> Any:
        """Removes the velocity from the observations: float32 [2], cosine and sine."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        space = Box(-1.0, 1.0, (2,), np.float32)
        return TransformObservation(env, lambda obs: obs[:2].copy(), space)


def _dqn(*, env: dict[str, Any], hidden: list[int], decay: int, **learn: Any) -> dict[str, Any]:
    """Returns a preset of double DQN; the options that all small tasks share are here."""
    return {
        "env": {"collector_env_num": 8, "evaluator_env_num": 5, **env},
        "policy": {
            "type": "dqn",
            "discount_factor": 0.99,
            "model": {"encoder_hidden_size_list": hidden},
            "learn": {"batch_size": 64, "update_per_collect": 32, "max_grad_norm": 10.0, **learn},
            "collect": {"n_sample": 64, "random_collect_size": 1_024},
            "eval": {"evaluator": {"eval_freq": 2_048}},
            "other": {
                "replay_buffer": {"replay_buffer_size": 100_000},
                "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": decay},
            },
        },
    }


BIT_FLIP_DQN = _dqn(env={"type": "bit_flip", "n_bits": 5}, hidden=[128, 128], decay=10_000)
"""Double DQN on 5 bits; solved in 5k env steps (3 seeds)."""

BIT_FLIP_DQN_HER: dict[str, Any] = {
    "env": {
        "type": "bit_flip",
        "n_bits": 10,
        "collector_env_num": 8,
        "evaluator_env_num": 5,
    },
    "policy": {
        "type": "dqn",
        "discount_factor": 0.98,
        "model": {"encoder_hidden_size_list": [256]},
        "reward_model": {"type": "her"},
        "learn": {"batch_size": 128, "update_per_collect": 32},
        "collect": {"n_sample": 80, "random_collect_size": 800},
        "eval": {"evaluator": {"eval_freq": 1_024}},
        "other": {
            "replay_buffer": {"type": "episode", "replay_buffer_size": 10_000},
            "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 10_000},
        },
    },
}
"""Double DQN with hindsight goals on 10 bits; without them it does not learn."""

CHAIN_DQN_RND: dict[str, Any] = {
    "env": {"type": "chain", "collector_env_num": 8, "evaluator_env_num": 5},
    "policy": {
        "type": "dqn",
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [64, 64]},
        "reward_model": {
            "type": "rnd",
            "relabel": True,
            "weight": 10.0,
            "learning_rate": 1e-3,
        },
        "learn": {
            "batch_size": 64,
            "update_per_collect": 64,
            "target_theta": 0.02,
            "max_grad_norm": 10.0,
        },
        "collect": {"n_sample": 64, "random_collect_size": 1_024},
        "eval": {"evaluator": {"eval_freq": 2_048}},
        "other": {
            "replay_buffer": {"replay_buffer_size": 100_000},
            "eps": {"type": "linear", "start": 0.1, "end": 0.1, "decay": 10_000},
        },
    },
}
"""Double DQN with a bonus for new states on a chain of 30; without it, it stays at the start."""

TWO_STEP_DQN = _dqn(env={"type": "two_step", "team_reward": True}, hidden=[64], decay=2_000)
"""Double DQN with one head per agent; return 8 in 5k env steps (3 seeds)."""

T_MAZE_DQN = _dqn(
    env={
        "type": "t_maze",
        "length": 4,
        "env_wrapper": [{"type": "frame_stack", "n_frames": 6}],
    },
    hidden=[64, 64],
    decay=10_000,
)
"""Double DQN with the last 6 observations, corridor of 4; return 4 in 5k env steps (3 seeds)."""

CARTPOLE_POMDP_DQN: dict[str, Any] = {
    "env": {
        "type": "cartpole_pomdp",
        "env_wrapper": [{"type": "frame_stack", "n_frames": 4}],
        "collector_env_num": 8,
        "evaluator_env_num": 5,
    },
    "policy": {
        "type": "dqn",
        "nstep": 3,
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 128, 64], "initial_bias": "uniform"},
        "learn": {
            "batch_size": 128,
            "update_per_collect": 64,
            "learning_rate": 4e-3,
            "learning_rate_end": 0.05,
            "learning_rate_decay": 12_000,
            "target_theta": 0.02,
            "max_grad_norm": 10.0,
        },
        "collect": {"n_sample": 64, "random_collect_size": 1_024},
        "eval": {"evaluator": {"eval_freq": 512}},
        "other": {
            "replay_buffer": {"replay_buffer_size": 100_000},
            "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 2_000},
        },
    },
}
"""Double DQN with the last 4 observations; solved in 34k env steps on 2 of 3 seeds (304 in 40k)."""

MINI_BREAKOUT_DQN = _dqn(env={"type": "mini_breakout"}, hidden=[128, 128], decay=50_000)
"""Double DQN on flattened cells; a mean return of 10 in 13k to 38k env steps (3 seeds)."""
