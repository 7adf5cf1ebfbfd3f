"""Box2D environments."""

from __future__ import annotations

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class LunarLanderConfig(GymnasiumConfig):
    """LunarLander-v3: land between two flags; solved at return 200."""

    env_id: str = option("LunarLander-v3", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(200.0, "mean episode return at which training stops")
