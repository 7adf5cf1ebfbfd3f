"""MinAtar: five Atari games on a 10 x 10 grid (Young and Tian 2019)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig

_CELL: Final = 16
"""Width of a cell in pictures, in pixels."""

_FRAMES_PER_SECOND: Final = 10


@frozen(kw_only=True)
class MinAtarConfig(GymnasiumConfig):
    """MinAtar by id: Asterix, Breakout, Freeway, Seaquest, SpaceInvaders; bool [10, 10, C].

    Ids that end in `-v1` have the actions of the game, those in `-v0` all six.
    """

    presets_for_all: ClassVar[bool] = True
    """Whether presets of this name are for all ids, not only for its own."""

    env_id: str = option("MinAtar/Breakout-v1", "id, e.g. MinAtar/Asterix-v1")
    sticky_action_probability: float = option(
        0.1, "probability of repeating the previous action", ge=0, le=1
    )
    difficulty_ramping: bool = option(True, "games become faster, and enemies more, with time")
    max_episode_steps: int | None = option(
        None,
        "maximum episode length; None: that of gymnax, 1,000, in Freeway 2,500",
        ge=1,
        unit="env steps",
    )
    n_evaluator_episode: int = option(20, "episodes per evaluation", ge=1)
    stop_value: float = option(math.inf, "mean episode return at which training stops")

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `gymnasium.make`."""
        usual = 2_500 if "Freeway" in self.env_id else 1_000
        return {
            "sticky_action_prob": self.sticky_action_probability,
            "difficulty_ramping": self.difficulty_ramping,
            "max_episode_steps": self.max_episode_steps or usual,
            "disable_env_checker": True,  # pictures are no bytes before `adapt`
        }

    def adapt(self, env: Any) -> Any:
        """Wraps the environment: the last action ends with its episode, pictures are bytes."""
        import gymnasium
        import numpy as np

        class MinAtar(gymnasium.Wrapper[Any, Any, Any, Any]):
            def reset(
                self, *, seed: int | None = None, options: dict[str, Any] | None = None
            ) -> tuple[Any, dict[str, Any]]:
                game: Any = self.unwrapped
                game.game.last_action = 0  # else sticky in the next episode
                return super().reset(seed=seed, options=options)

            def render(self) -> Any:
                drawn: Any = super().render()
                if self.render_mode != "rgb_array":
                    return drawn
                return np.kron(255 * drawn, np.ones((_CELL, _CELL, 1))).astype(np.uint8)

        env.unwrapped.metadata = {**env.unwrapped.metadata, "render_fps": _FRAMES_PER_SECOND}
        return MinAtar(env)


def _minatar(env_num: int, **policy: Any) -> dict[str, Any]:
    return {
        "env": {"type": "minatar", "collector_env_num": env_num, "evaluator_env_num": 10},
        "policy": policy,
    }


def _ppo(learning_rate: float, **model: Any) -> dict[str, Any]:
    return _minatar(
        64,
        type="ppo",
        discount_factor=0.99,
        model={"encoder_hidden_size_list": [128, 128], "activation": "relu", **model},
        learn={
            "batch_size": 1_024,
            "epoch_per_collect": 4,
            "learning_rate": learning_rate,
            "learning_rate_end": 0.02,
            "entropy_weight": 0.01,
            "max_grad_norm": 0.5,
        },
        collect={"n_sample": 8_192, "gae_lambda": 0.95},
        eval={"evaluator": {"eval_freq": 640}},
    )


MINATAR_PPO = _ppo(2.5e-3, conv="small")
"""PPO on MinAtar with the CNN of its paper; 33 on Asterix, 59 on Breakout, 65 on Freeway, 28 on
Seaquest and 150 on SpaceInvaders after 5M env steps (last checkpoint of three seeds, of Freeway of
two; PPO of gymnax: 15, 28, 58, none at hand, 131)."""
MINATAR_PPO_V1 = _ppo(5e-3)
"""The same without a CNN; 46 on Breakout after 5M env steps (3 seeds), but 5 on Asterix."""
MINATAR_PQN = _minatar(
    128,
    type="pqn",
    discount_factor=0.99,
    model={"encoder_hidden_size_list": [128], "conv": "small"},
    learn={
        "batch_size": 128,
        "epoch_per_collect": 2,
        "learning_rate": 5e-4,
        "learning_rate_end": 0.02,
        "td_lambda": 0.65,
        "max_grad_norm": 10.0,
    },
    collect={"n_sample": 4_096},
    other={"eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 500_000}},
    eval={"evaluator": {"eval_freq": 2_560}},
)
"""PQN on MinAtar (Gallici et al. 2024, arXiv:2407.04811); 52 on Asterix, 51 on Breakout, 65 on
Freeway, 42 on Seaquest and 129 on SpaceInvaders after 5M env steps (seed 0, last checkpoint)."""
