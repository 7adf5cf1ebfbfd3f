"""What a policy reads off the spaces of an environment: shapes, and whether it fits at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.errors import ConfigError


def observation_options(space: Any) -> dict[str, Any]:
    """Returns the options by which a model knows what one observation is.

    Returns:
        `model.obs_shape`: an int for vectors, else a tuple. Of Discrete and MultiDiscrete spaces it
        is the number of values, and `model.one_hot` and `model.one_hot_start` tell them apart.

    Raises:
        ConfigError: the observations are not one array (dict and tuple spaces need flattening).
    """
    if type(space).__name__ in {"Discrete", "MultiDiscrete"}:
        sizes = tuple(np.ravel(getattr(space, "nvec", getattr(space, "n", 0))).tolist())
        start = tuple(np.ravel(np.broadcast_to(space.start, np.shape(sizes))).tolist())
        return {
            "model.obs_shape": sum(sizes),
            "model.one_hot": sizes,
            "model.one_hot_start": start,
        }
    shape = getattr(space, "shape", None)
    if shape is None:
        raise ConfigError(
            f"env.type: observations of {space} are not one array of numbers",
            hint='flatten them: env.env_wrapper=["flat_obs"]; or give the policy its own model',
        )
    sides = tuple(int(size) for size in shape)
    return {"model.obs_shape": sides[0] if len(sides) == 1 else sides}


def discrete_shape(space: Any, *, algorithm: str) -> int | tuple[int, ...]:
    """Returns the number of actions, or one number per head for multi-discrete spaces.

    Raises:
        ConfigError: the actions are not discrete.
    """
    name = type(space).__name__
    if name == "Discrete":
        return int(space.n)
    if name == "MultiDiscrete":
        return tuple(int(size) for size in space.nvec)
    raise ConfigError(
        f"policy.type: '{algorithm}' needs discrete actions; this env has {space}",
        hint="choose a policy for continuous actions, or an env with Discrete actions",
    )
