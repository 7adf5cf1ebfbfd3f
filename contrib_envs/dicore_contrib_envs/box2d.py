"""Environments on the Box2D physics engine."""

from __future__ import annotations

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class LunarLanderConfig(GymnasiumConfig):
    """LunarLander-v3: land between two flags with four engines; solved at 200."""

    env_id: str = option("LunarLander-v3", "id under which gymnasium knows it")
    n_evaluator_episode: int = option(10, "episodes in one evaluation", ge=1)
    stop_value: float = option(200.0, "mean return at which training stops", unit="return")
