"""What a policy reads off the spaces of an environment: shapes, and whether it fits at all."""

from __future__ import annotations

from typing import Any

from dicore.errors import ConfigError


def observation_shape(space: Any) -> int | tuple[int, ...]:
    """Returns the shape of one observation as a model takes it: an int for vectors.

    Raises:
        ConfigError: the observations are not one array (dict and tuple spaces need flattening).
    """
    shape = getattr(space, "shape", None)
    if type(space).__name__ == "Discrete" or shape is None:
        raise ConfigError(
            f"env.type: observations of {space} are not one array of numbers",
            hint="flatten them with an env wrapper, or give the policy a model of its own",
        )
    return int(shape[0]) if len(shape) == 1 else tuple(int(size) for size in shape)


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
