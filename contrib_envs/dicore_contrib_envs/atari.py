"""Atari 2600 games (Bellemare et al. 2013), with the preprocessing of Mnih et al. 2015."""

from __future__ import annotations

from typing import Any, Self

import attrs

from dicore.config.schema import REQUIRED, components, frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig

PREPROCESSING = (
    "noop_reset",
    "max_and_skip",
    "eval_episode_return",
    "warp_frame",
    "clip_reward",
    "lazy_frame_stack",
)
"""Innermost first: 1 to 30 no-op steps, an action per four frames and the maximum of the last two,
gray 84 x 84, the sign of the reward, the last four frames. The return is of the unclipped rewards.
"""


@frozen(kw_only=True)
class AtariConfig(GymnasiumConfig):
    """Any Atari game by id (`ALE/Seaquest-v5`), preprocessed to uint8 [4, 84, 84]."""

    env_id: str = option(REQUIRED, "id of the game, e.g. ALE/Seaquest-v5")
    env_wrapper: tuple[Any, ...] = components(
        "env_wrapper", PREPROCESSING, help="wrappers, innermost first"
    )
    repeat_action_probability: float = option(
        0.25, "probability of repeating the previous action, per frame (Machado et al. 2018)",
        ge=0, le=1,
    )  # fmt: skip
    frameskip: int = option(
        1, "frames per step of the emulator; the wrapper max_and_skip repeats each step", ge=1
    )
    episodic_life: bool = option(
        True, "when collecting, end episodes at a lost life; evaluations play whole games"
    )
    max_frames: int = option(
        18_000,
        "maximum episode length: 5 minutes (Mnih et al. 2015); Breakout without FIRE never ends",
        ge=1,
        unit="frames",
    )
    full_action_space: bool = option(False, "all 18 actions instead of those of the game")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)

    def create_collector_env_cfg(self) -> list[Self]:
        """Returns the config of each collector environment."""
        names = [each.type for each in self.env_wrapper]
        if not self.episodic_life or "episodic_life" in names:
            return [self] * self.collector_env_num
        from dicore_registry import default

        ends = default().resolve("env_wrapper", "episodic_life").target()
        inner = [at for at, name in enumerate(names, 1) if name in {"noop_reset", "max_and_skip"}]
        at = max(inner, default=0)  # a game that goes on after a lost life takes no no-op steps
        wrappers = (*self.env_wrapper[:at], ends, *self.env_wrapper[at:])
        return [attrs.evolve(self, env_wrapper=wrappers)] * self.collector_env_num

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        return {
            "repeat_action_probability": self.repeat_action_probability,
            "frameskip": self.frameskip,
            "full_action_space": self.full_action_space,
            "max_num_frames_per_episode": self.max_frames,
        }


@frozen(kw_only=True)
class PongConfig(AtariConfig):
    """Pong, preprocessed to uint8 [4, 84, 84]: first to 21 points; returns -21 to 21."""

    env_id: str = option("ALE/Pong-v5", "id of the game")
    stop_value: float = option(20.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class BreakoutConfig(AtariConfig):
    """Breakout, preprocessed to uint8 [4, 84, 84]; DQN reached 401 (Mnih et al. 2015)."""

    env_id: str = option("ALE/Breakout-v5", "id of the game")
    stop_value: float = option(400.0, "mean episode return at which training stops")


_DQN: dict[str, Any] = {
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
    "collect": {"n_sample": 32, "random_collect_size": 10_000},
    "eval": {"evaluator": {"eval_freq": 50_000}},
    "other": {
        "replay_buffer": {"replay_buffer_size": 100_000},
        "eps": {"type": "linear", "start": 1.0, "end": 0.01, "decay": 250_000},
    },
}
"""Settings of Mnih et al. 2015 with 3-step targets, a smaller buffer and shorter exploration."""

PONG_DQN: dict[str, Any] = {
    "env": {"type": "pong", "collector_env_num": 8, "evaluator_env_num": 5},
    "policy": _DQN,
}
"""Double DQN with 3-step targets on Pong; not trained to its stop value."""

BREAKOUT_DQN: dict[str, Any] = {
    "env": {"type": "breakout", "collector_env_num": 8, "evaluator_env_num": 5},
    "policy": _DQN,
}
"""Double DQN with 3-step targets on Breakout; not trained to its stop value."""
