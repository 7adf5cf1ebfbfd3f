"""MiniGrid: grid worlds seen in part, with sparse rewards (Chevalier-Boisvert et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from multiprocessing import parent_process
from typing import Any, ClassVar, Final, Literal

from dicore.config.schema import frozen, option
from dicore.console import say
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig

_OF_DICTS: Final = ("ObsWrapper", "SpaceWrapper", "ViewSizeWrapper")
"""Ends of the names of MiniGrid's wrappers that take its dict."""


@frozen(kw_only=True)
class MiniGridConfig(GymnasiumConfig):
    """MiniGrid and BabyAI by id; reward 1 - 0.9 * steps / limit at the goal, otherwise 0."""

    changes_data: ClassVar[bool] = True

    env_id: str = option("MiniGrid-Empty-5x5-v0", "id, e.g. MiniGrid-DoorKey-5x5-v0")
    observation: Literal["one_hot", "symbols", "full", "rgb", "dict"] = option(
        "one_hot",
        "one_hot: the cells in view [7, 7, 20]; symbols: object, colour and state of the cells in"
        " view [7, 7, 3]; full: symbols of the whole grid; rgb: an image of the view; dict:"
        " image and direction, for wrappers of MiniGrid also the mission as text",
    )
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)

    def from_spec(self) -> dict[str, Any]:
        """Returns the stop value of Empty-5x5, whose optimal return is 0.955."""
        checked = super().from_spec()
        return {"stop_value": 0.95} if self.env_id == "MiniGrid-Empty-5x5-v0" else checked

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields wrappers of MiniGrid that take its own observations."""
        for wrapper in self.env_wrapper:
            seen = str(wrapper.type).endswith(_OF_DICTS) and self.observation != "dict"
            if seen and str(wrapper.type).startswith("minigrid."):
                yield (
                    "observation",
                    f"{wrapper.type} takes the dict of MiniGrid, not {self.observation}; set dict",
                )

    def adapt(self, env: Any) -> Any:
        """Wraps the environment so that its observations are of the chosen form."""
        if self.observation == "dict":
            return env if self.env_wrapper else _without_mission(env)
        from minigrid import wrappers

        forms: dict[str, Any] = {
            "one_hot": wrappers.OneHotPartialObsWrapper,
            "full": wrappers.FullyObsWrapper,
            "rgb": wrappers.RGBImgPartialObsWrapper,
        }
        outer = forms.get(self.observation)
        made = wrappers.ImgObsWrapper(env if outer is None else outer(env))
        if parent_process() is None:
            _tell(self.env_id, self.observation, made.observation_space.shape)
        return made


def _without_mission(env: Any) -> Any:
    from gymnasium.wrappers import FilterObservation

    return FilterObservation(env, ["image", "direction"])


@cache
def _tell(env_id: str, form: str, shape: tuple[int, ...] | None) -> None:
    """Says once what is seen, which is not what the id itself gives."""
    seen = f"{env_id} is seen as {form} {[*(shape or ())]}"
    say(f"{seen}; env.observation={{symbols,full,rgb,dict}} choose another form")


MINIGRID_DQN: dict[str, Any] = {
    "env": {"type": "minigrid", "collector_env_num": 8, "evaluator_env_num": 10},
    "policy": {
        "type": "dqn",
        "nstep": 3,
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 64]},
        "learn": {
            "batch_size": 64,
            "update_per_collect": 16,
            "learning_rate": 5e-4,
            "target_update_freq": 200,
            "max_grad_norm": 10.0,
        },
        "collect": {"n_sample": 64, "random_collect_size": 1_024},
        "eval": {"evaluator": {"eval_freq": 1_024}},
        "other": {
            "replay_buffer": {"replay_buffer_size": 50_000},
            "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 10_000},
        },
    },
}
"""Double DQN with 3-step targets on Empty-5x5; return 0.95 in 5k to 13k env steps (3 seeds)."""
MINIGRID_PPO_NGU: dict[str, Any] = {
    "env": {
        "type": "minigrid",
        "collector_env_num": 16,
        "evaluator_env_num": 10,
        "n_evaluator_episode": 20,
        "env_wrapper": ["flat_obs"],
    },
    "policy": {
        "type": "ppo",
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 128]},
        "reward_model": {"type": "ngu", "weight": 0.1},
        "learn": {
            "batch_size": 512,
            "epoch_per_collect": 4,
            "learning_rate": 1e-3,
            "learning_rate_end": 0.02,
            "entropy_weight": 0.01,
            "max_grad_norm": 0.5,
        },
        "collect": {"n_sample": 4_096, "gae_lambda": 0.95},
        "eval": {"evaluator": {"eval_freq": 640}},
    },
}
"""PPO with a bonus for states new in the episode; 0.92 on KeyCorridorS3R3, 0.71 on MultiRoom-N4-S5
after 2M env steps (seed 0, last checkpoint; PPO of rl-zoo3 on the latter after 10M: 0)."""
