"""The environment that a wrapper wraps, and checks that it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dicore.errors import ConfigError
from dicore_plugins.env_managers.adapt import from_gym

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = [
    "env_of", "need_action", "need_arrays", "need_box_actions", "need_frames", "need_image",
    "need_scalar_reward", "need_vector", "with_returns",
]  # fmt: skip


def env_of(parts: Mapping[str, object]) -> Any:
    """Returns the part `env` of a wrapper's `build`, with the Gymnasium API."""
    return from_gym(parts["env"])


def with_returns(env: Any) -> Any:
    """Returns an environment that reports its returns, whatever outer wrappers do to rewards."""
    from gymnasium import Wrapper

    from dicore_plugins.env_wrappers.wrappers import EpisodeReturn

    inner = env
    while isinstance(inner, Wrapper) and not isinstance(inner, EpisodeReturn):
        inner = inner.env
    return env if isinstance(inner, EpisodeReturn) else EpisodeReturn(env)


def need_arrays(name: str, env: Env, *, flat: bool = False) -> None:
    """Raises ConfigError unless observations are numeric arrays; `flat`: vectors will do."""
    from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

    fits = isinstance(env.observation_space, Box | Discrete | MultiBinary | MultiDiscrete)
    hint = f"env.env_wrapper=[flat_obs, {name}] makes one vector of the parts" if flat else None
    _need(fits, name, "array observations", env.observation_space, hint)


def need_vector(name: str, env: Env) -> None:
    """Raises ConfigError unless observations are vectors of numbers [n]."""
    from gymnasium.spaces import Box

    space = env.observation_space
    fits = isinstance(space, Box) and len(space.shape) == 1
    _need(fits, name, "observations that are vectors of numbers", space)


def need_frames(name: str, env: Env, keys: list[str] | None) -> None:
    """Raises ConfigError unless observations, or their parts `keys`, are arrays of numbers."""
    from gymnasium.spaces import Box, Dict

    space = env.observation_space
    if isinstance(space, Dict):
        wanted = list(space.spaces) if keys is None else keys
        unknown = [key for key in wanted if key not in space.spaces]
        parts = {key: space[key] for key in wanted if key not in unknown}
        _need(not unknown, name, f"the parts {wanted} of a dict observation", space)
    else:
        parts = {"": space}
        _need(keys is None, name, "a dict observation for its option keys", space)
    _need(all(isinstance(each, Box) for each in parts.values()), name, "array observations", space)


def need_image(name: str, env: Env) -> None:
    """Raises ConfigError unless observations are uint8 [height, width(, 1 or 3)]."""
    space = env.observation_space
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    dtype = getattr(space, "dtype", None)
    fits = dtype == "uint8" and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))
    _need(fits, name, "image observations, uint8 [height, width] or [height, width, 3]", space)


def need_action(name: str, env: Env, action: int) -> None:
    """Raises ConfigError unless actions are discrete and `action`, the no-op, is one of them."""
    from gymnasium.spaces import Discrete

    space = env.action_space
    _need(isinstance(space, Discrete), name, "discrete actions", space)
    if not space.contains(action):
        raise ConfigError(f"env.env_wrapper: '{name}': noop_action {action} is not in {space}")


def need_scalar_reward(name: str, env: Env) -> None:
    """Raises ConfigError unless rewards are single numbers."""
    space = getattr(env.unwrapped, "reward_space", None)
    _need(getattr(space, "shape", ()) in ((), (1,)), name, "rewards of one number", space)


def need_box_actions(name: str, env: Env) -> None:
    """Raises ConfigError unless actions are bounded arrays."""
    from gymnasium.spaces import Box

    space = env.action_space
    fits = isinstance(space, Box) and space.is_bounded()
    _need(fits, name, "bounded continuous actions", space)


def _need(fits: bool, name: str, wanted: str, space: object, hint: str | None = None) -> None:
    if not fits:
        raise ConfigError(
            f"env.env_wrapper: '{name}' needs {wanted}, but wraps an environment with {space}",
            hint=hint or "list wrappers innermost first",
        )
