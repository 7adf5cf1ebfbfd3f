"""Options of the wrappers that change how episodes begin and end, and what an action does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config.schema import REQUIRED, ComponentConfig, frozen, option
from dicore.errors import ConfigError
from dicore_plugins.env_wrappers.fit import need_arrays, need_box_actions, need_discrete

__all__ = [
    "ActionRepeatConfig",
    "MaxAndSkipConfig",
    "NoopResetConfig",
    "RescaleActionConfig",
    "StickyActionConfig",
    "TimeLimitConfig",
]


@frozen(kw_only=True)
class TimeLimitConfig(ComponentConfig):
    """Cuts episodes after a number of steps: truncated, not terminated (gymnasium's)."""

    max_episode_steps: int = option(REQUIRED, "most steps of an episode", ge=1, unit="env steps")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from gymnasium.wrappers import TimeLimit

        return TimeLimit(parts["env"], self.max_episode_steps)


@frozen(kw_only=True)
class NoopResetConfig(ComponentConfig):
    """Begins episodes by a random number of steps that do nothing."""

    noop_max: int = option(30, "most such steps", ge=1, unit="env steps")
    noop_action: int = option(0, "the action that does nothing")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import NoopReset

        need_discrete("noop_reset", parts["env"])
        space = parts["env"].action_space
        if not space.contains(self.noop_action):
            raise ConfigError(
                f"env.env_wrapper: 'noop_reset': {self.noop_action} is no action of {space}"
            )
        return NoopReset(parts["env"], self.noop_max, self.noop_action)


@frozen(kw_only=True)
class ActionRepeatConfig(ComponentConfig):
    """Does each action several times and pays the sum of the rewards (gymnasium's)."""

    action_repeat: int = option(REQUIRED, "times", ge=1, unit="env steps")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from gymnasium.wrappers import RepeatAction

        return RepeatAction(parts["env"], self.action_repeat)


@frozen(kw_only=True)
class MaxAndSkipConfig(ComponentConfig):
    """Does each action several times; shows the larger of the last two frames, point by point."""

    skip: int = option(4, "times", ge=1, unit="env steps")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import MaxAndSkip

        need_arrays("max_and_skip", parts["env"])
        return MaxAndSkip(parts["env"], self.skip)


@frozen(kw_only=True)
class StickyActionConfig(ComponentConfig):
    """Does the last action again now and then, whatever the new one is (gymnasium's)."""

    probability: float = option(0.25, "chance of that", ge=0, le=1)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from gymnasium.wrappers import StickyAction

        return StickyAction(parts["env"], self.probability)


@frozen(kw_only=True)
class RescaleActionConfig(ComponentConfig):
    """Takes actions in [min_action, max_action] and scales them to the bounds of the env."""

    min_action: float = option(-1.0, "lower bound of what is taken")
    max_action: float = option(1.0, "upper bound of what is taken")

    def check(self) -> Iterator[tuple[str, str]]:
        """Finds bounds that contradict each other."""
        if self.min_action >= self.max_action:
            yield "max_action", f"must be > min_action {self.min_action}, got {self.max_action}"

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.wrappers import RescaleAction

        need_box_actions("rescale_action", parts["env"])
        return RescaleAction(parts["env"], np.float32(self.min_action), np.float32(self.max_action))
