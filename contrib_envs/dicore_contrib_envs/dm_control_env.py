"""The DeepMind control suite (Tassa et al. 2018) by ids that shimmy registers."""

from __future__ import annotations

from typing import Any, Literal

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class DMControlConfig(GymnasiumConfig):
    """Tasks of dm_control by id; 1000 steps with rewards of 0 to 1, so returns are at most 1000."""

    env_id: str = option("dm_control/cartpole-balance-v0", "dm_control/DOMAIN-TASK-v0")
    observation: Literal["flat", "dict"] = option(
        "flat", "flat: one vector, float32; dict: arrays by name, float64"
    )
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)

    def adapt(self, env: Any) -> Any:
        """Flattens the observations."""
        if self.observation == "dict":
            return env
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import FlattenObservation, TransformObservation

        flat = FlattenObservation(env)
        low, high = (np.float32(getattr(flat.observation_space, end)) for end in ("low", "high"))
        space = Box(low, high, dtype=np.float32)
        return TransformObservation(flat, lambda obs: np.asarray(obs, np.float32), space)


DM_CONTROL_SAC: dict[str, Any] = {
    "env": {
        "type": "dm_control",
        "stop_value": 950.0,
        "collector_env_num": 1,
        "evaluator_env_num": 10,
    },
    "policy": {
        "type": "sac",
        "discount_factor": 0.99,
        "learn": {"batch_size": 256, "learning_rate": 3e-4},
        "collect": {"n_sample": 1, "random_collect_size": 2_000},
        "eval": {"evaluator": {"eval_freq": 5_000}},
        "other": {"replay_buffer": {"replay_buffer_size": 1_000_000}},
    },
}
"""SAC on cartpole-balance of dm_control; not trained to its stop value."""
