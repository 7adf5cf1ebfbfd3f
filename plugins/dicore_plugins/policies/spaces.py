"""What a policy reads off the spaces of an environment: shapes, and whether it fits at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dicore.errors import ConfigError
from dicore_plugins.models.shapes import obs_shape_problem

_MOST_FLATTENED = 4096
"""Numbers in an image that is still flattened; of larger ones the channels stand elsewhere."""


def observation_options(space: Any) -> dict[str, Any]:
    """Returns the options by which a model knows what one observation is.

    Returns:
        `model.obs_shape`: an int for vectors, and for what models flatten (matrices, single
        numbers, images too small for convolutions); a tuple for images. Of Discrete and
        MultiDiscrete spaces it is the number of values, and `model.one_hot` and
        `model.one_hot_start` tell them apart.

    Raises:
        ConfigError: the observations are not one array (dict and tuple spaces need flattening).
    """
    if type(space).__name__ in {"Discrete", "MultiDiscrete"}:
        sizes = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0)))
        start = np.broadcast_to(space.start, sizes.shape)
        return {
            "model.obs_shape": int(sizes.sum()),
            "model.one_hot": tuple(sizes.ravel().tolist()),
            "model.one_hot_start": tuple(start.ravel().tolist()),
        }
    shape = getattr(space, "shape", None)
    if shape is None:
        raise ConfigError(
            f"env.type: observations of {space} are not one array of numbers",
            hint="flatten them: env.env_wrapper=flat_obs; or give the policy its own model",
        )
    sides = tuple(int(size) for size in shape)
    count = math.prod(sides)
    as_image = len(sides) == 3 and (obs_shape_problem(sides) is None or count > _MOST_FLATTENED)
    return {"model.obs_shape": sides if as_image else count}


def discrete_shape(space: Any, *, algorithm: str) -> int | tuple[int, ...]:
    """Returns the number of actions, or one number per head for several choices at once.

    Raises:
        ConfigError: the actions are not discrete.
    """
    name = type(space).__name__
    if name == "Discrete":
        return int(space.n)
    if name == "MultiDiscrete" and space.nvec.ndim == 1:
        return tuple(int(size) for size in space.nvec)
    if name == "MultiBinary" and len(space.shape) == 1:
        return (2,) * int(space.shape[0])
    if name in {"MultiDiscrete", "MultiBinary"}:
        raise ConfigError(
            f"policy.type: '{algorithm}' needs one row of discrete actions; this env has {space}",
            hint="flatten its action space",
        )
    raise ConfigError(
        f"policy.type: '{algorithm}' needs discrete actions; this env has {space}",
        hint="choose a policy for continuous actions, or an env with Discrete actions",
    )


def action_start(space: Any) -> int | tuple[int, ...]:
    """Returns the least action of a space that `discrete_shape` takes, one for each head."""
    start = np.asarray(getattr(space, "start", 0))
    return int(start) if start.ndim == 0 else tuple(start.tolist())
