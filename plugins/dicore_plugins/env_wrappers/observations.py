"""Options of the wrappers that change observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.config.schema import REQUIRED, ComponentConfig, frozen, option
from dicore.errors import ConfigError
from dicore.run.env_factory import BuildContext
from dicore.values import Tree
from dicore_plugins.env_wrappers.fit import (
    env_of,
    need_arrays,
    need_frames,
    need_image,
    need_vector,
)

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = [
    "FlatObsConfig",
    "FrameStackConfig",
    "LazyFrameStackConfig",
    "ObsNormConfig",
    "ObsTransposeConfig",
    "PrevActionRewardConfig",
    "RamConfig",
    "RewardInObsConfig",
    "ScaledFloatFrameConfig",
    "StaticObsNormConfig",
    "WarpFrameConfig",
]


@frozen(kw_only=True)
class WarpFrameConfig(ComponentConfig):
    """Converts frames to grayscale and resizes them (Atari preprocessing)."""

    size: int = option(84, "height and width of the resized frame", ge=1, unit="pixels")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from gymnasium.wrappers import ResizeObservation

        env = env_of(parts)
        need_image("warp_frame", env)
        if len(env.observation_space.shape) == 3 and env.observation_space.shape[2] == 3:
            env = _gray(env)
        return ResizeObservation(env, (self.size, self.size))


def _gray(env: Any) -> object:
    """Wraps an environment whose observations are uint8 [H, W, 3]: their luma (BT.601), [H, W].

    OpenCV takes an eightieth of the time of gymnasium's `GrayscaleObservation`.
    """
    import cv2
    import numpy as np
    from gymnasium.spaces import Box
    from gymnasium.wrappers import TransformObservation

    def gray(frame: Tree) -> Tree:
        return cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)

    return TransformObservation(env, gray, Box(0, 255, env.observation_space.shape[:2], np.uint8))


@frozen(kw_only=True)
class ScaledFloatFrameConfig(ComponentConfig):
    """Rescales observations from their bounds to float32 in [0, 1]."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        env = env_of(parts)
        need_arrays("scaled_float_frame", env)
        space = env.observation_space
        if not isinstance(space, Box) or not space.is_bounded():
            raise ConfigError(
                f"env.env_wrapper: 'scaled_float_frame' needs bounded observations, got {space}"
            )
        low = space.low.astype(np.float32)
        span = np.maximum(space.high.astype(np.float32) - low, np.finfo(np.float32).tiny)
        return TransformObservation(
            env,
            lambda obs: (np.asarray(obs, np.float32) - low) / span,
            Box(0.0, 1.0, space.shape, np.float32),
        )


@frozen(kw_only=True)
class FrameStackConfig(ComponentConfig):
    """Stacks the last n observations along a new first axis (Gymnasium `FrameStackObservation`)."""

    n_frames: int = option(4, "frames to stack; padded with the first frame after reset", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import FrameStackObservation, TransformObservation

        env = env_of(parts)
        need_arrays("frame_stack", env)
        if isinstance(env.observation_space, Box):  # the next step may write the same array
            env = TransformObservation(env, np.array, env.observation_space)
        return FrameStackObservation(env, self.n_frames)


@frozen(kw_only=True)
class LazyFrameStackConfig(ComponentConfig):
    """Stacks the last n observations like `frame_stack`, but keeps each frame once in memory."""

    n_frames: int = option(4, "frames to stack; padded with the first frame after reset", ge=1)
    keys: list[str] | None = option(  # type: ignore[assignment] # hides the method of a mapping
        None, "parts of a dict observation to stack; None: all, like `frame_stack`"
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.frame_stack import LazyFrameStack

        env = env_of(parts)
        need_frames("lazy_frame_stack", env, self.keys)
        return LazyFrameStack(env, self.n_frames, self.keys)


@frozen(kw_only=True)
class ObsTransposeConfig(ComponentConfig):
    """Transposes observations; by default moves the last axis first (channels-first images)."""

    axes: list[int] | None = option(None, "new order of the axes; None: the last axis first")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        env = env_of(parts)
        need_arrays("obs_transpose", env)
        space = env.observation_space
        count = len(space.shape)
        axes = [count - 1, *range(count - 1)] if self.axes is None else list(self.axes)
        if not isinstance(space, Box) or count < 2 or sorted(axes) != list(range(count)):
            raise ConfigError(
                f"env.env_wrapper: 'obs_transpose' cannot transpose {space} to {axes}"
            )
        low, high = (np.transpose(bound, axes) for bound in (space.low, space.high))
        transposed = Box(low, high, dtype=space.dtype.type)
        return TransformObservation(
            env, lambda obs: np.ascontiguousarray(np.transpose(obs, axes)), transposed
        )


@frozen(kw_only=True)
class ObsNormConfig(ComponentConfig):
    """Normalizes observations by running mean and std, per env (`NormalizeObservation`).

    The statistics belong to each environment, not to the policy: those of evaluations are their
    own. Checkpoints have them, and `dicore eval`, `enjoy` and `collect` go on with them; an
    exported policy does not have them, its page lists them. Networks of actors and critics have
    `policy.model.obs_norm`, one statistic for all environments, exported with the weights, which
    learns better; `static_obs_norm` has fixed ones.
    """

    epsilon: float = option(1e-8, "added to the variance to avoid division by zero", gt=0)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import NormalizeObservation

        env = env_of(parts)
        need_arrays("obs_norm", env, flat=True)
        return NormalizeObservation(env, self.epsilon)


@frozen(kw_only=True)
class StaticObsNormConfig(ComponentConfig):
    """Normalizes observations by a fixed mean and std: (obs - mean) / std."""

    mean: float | list[float] = option(
        0.0, "mean to subtract: one number, or one per element of the last axis"
    )
    std: float | list[float] = option(
        REQUIRED,
        "standard deviation to divide by: one number, or one per element of the last axis",
        gt=0,
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        env = env_of(parts)
        need_arrays("static_obs_norm", env, flat=True)
        space = env.observation_space
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        try:
            np.broadcast_to(mean + std, space.shape)
        except ValueError:
            raise ConfigError(
                f"env.env_wrapper: 'static_obs_norm': mean and std have {mean.size} and {std.size}"
                f" values, which do not match observations of shape {space.shape}"
            ) from None
        low, high = (
            (np.asarray(getattr(space, bound, end), np.float32) - mean) / std
            for bound, end in (("low", -np.inf), ("high", np.inf))
        )
        low, high = (np.broadcast_to(each, space.shape) for each in (low, high))
        return TransformObservation(
            env,
            lambda obs: (np.asarray(obs, np.float32) - mean) / std,
            Box(low, high, space.shape, np.float32),
        )


@frozen(kw_only=True)
class FlatObsConfig(ComponentConfig):
    """Flattens dict, tuple and n-D observations to one vector (`FlattenObservation`)."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from gymnasium.wrappers import FlattenObservation

        env = env_of(parts)
        if not env.observation_space.is_np_flattenable:
            raise ConfigError(
                "env.env_wrapper: 'flat_obs' needs observations of a fixed size, but wraps an"
                f" environment with {parts['env'].observation_space}"
            )
        return FlattenObservation(env)


@frozen(kw_only=True)
class RamConfig(ComponentConfig):
    """Shows a vector of numbers, such as the RAM of Atari, as an image: float32 [n, 1, 1]."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.spaces import Box
        from gymnasium.wrappers import TransformObservation

        env = env_of(parts)
        need_vector("ram", env)
        space = env.observation_space
        low, high = (
            bound.astype(np.float32).reshape(-1, 1, 1) for bound in (space.low, space.high)
        )
        return TransformObservation(
            env, lambda obs: np.asarray(obs, np.float32).reshape(-1, 1, 1), Box(low, high)
        )


@frozen(kw_only=True)
class RewardInObsConfig(ComponentConfig):
    """Adds the last reward to the observation, as a dict (decision transformers)."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import RewardInObs

        return RewardInObs(env_of(parts))


@frozen(kw_only=True)
class PrevActionRewardConfig(ComponentConfig):
    """Adds the previous action and reward to the observation, as a dict."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import PrevActionReward

        env = env_of(parts)
        if env.action_space.shape is None:
            raise ConfigError(
                "env.env_wrapper: 'obs_plus_prev_action_reward' needs numbers or arrays as actions,"
                f" but wraps an environment with {parts['env'].action_space}"
            )
        return PrevActionReward(env)
