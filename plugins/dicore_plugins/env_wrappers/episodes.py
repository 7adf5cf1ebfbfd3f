"""Options of the wrappers that change resets, time limits, actions or the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dicore.config.schema import REQUIRED, ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_wrappers.fit import env_of, need_action, need_arrays, need_box_actions

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = [
    "ActionRepeatConfig",
    "DiscretizeActionConfig",
    "EpisodicLifeConfig",
    "FireResetConfig",
    "GymToGymnasiumConfig",
    "HybridDictActionConfig",
    "MaxAndSkipConfig",
    "NoopResetConfig",
    "RescaleActionConfig",
    "SaveStateConfig",
    "StickyActionConfig",
    "TimeLimitConfig",
    "VersusConfig",
]


@frozen(kw_only=True)
class TimeLimitConfig(ComponentConfig):
    """Truncates episodes after a number of steps (Gymnasium `TimeLimit`)."""

    max_episode_steps: int = option(REQUIRED, "maximum episode length", ge=1, unit="env steps")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from gymnasium.wrappers import TimeLimit

        return TimeLimit(env_of(parts), self.max_episode_steps)


@frozen(kw_only=True)
class GymToGymnasiumConfig(ComponentConfig):
    """Adapts an environment with the older API of gym to Gymnasium's."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`; one with the Gymnasium API is returned as it is."""
        env: Env = env_of(parts)
        return env


@frozen(kw_only=True)
class NoopResetConfig(ComponentConfig):
    """Takes 1 to `noop_max` no-op steps after each reset."""

    noop_max: int = option(30, "maximum number of no-op steps", ge=1, unit="env steps")
    noop_action: int = option(0, "action that does nothing")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import NoopReset

        env = env_of(parts)
        need_action("noop_reset", env, self.noop_action)
        return NoopReset(env, self.noop_max, self.noop_action)


@frozen(kw_only=True)
class EpisodicLifeConfig(ComponentConfig):
    """Ends the episode when a life is lost; the next episode continues the game (Atari)."""

    noop_action: int = option(0, "action that does nothing, taken to continue the game")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.lives import EpisodicLife

        env = env_of(parts)
        need_action("episodic_life", env, self.noop_action)
        return EpisodicLife(env, self.noop_action)


@frozen(kw_only=True)
class FireResetConfig(ComponentConfig):
    """Presses FIRE after each reset, in games that wait for it (Atari)."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.lives import FireReset

        return FireReset(env_of(parts))


@frozen(kw_only=True)
class HybridDictActionConfig(ComponentConfig):
    """Takes hybrid actions as a dict of the discrete type and one vector of all arguments."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import HybridDictAction

        return HybridDictAction(env_of(parts))


@frozen(kw_only=True)
class ActionRepeatConfig(ComponentConfig):
    """Repeats each action and returns the summed reward."""

    action_repeat: int = option(REQUIRED, "env steps per action", ge=1, unit="env steps")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import ActionRepeat

        return ActionRepeat(env_of(parts), self.action_repeat)


@frozen(kw_only=True)
class MaxAndSkipConfig(ComponentConfig):
    """Repeats each action; returns the element-wise maximum of the last two frames (Atari)."""

    skip: int = option(4, "env steps per action; rewards are summed", ge=1, unit="env steps")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import MaxAndSkip

        env = env_of(parts)
        need_arrays("max_and_skip", env)
        return MaxAndSkip(env, self.skip)


@frozen(kw_only=True)
class SaveStateConfig(ComponentConfig):
    """Saves the state within an episode, which a resumed run restores instead of replaying it.

    For environments of classic control, MuJoCo, and others whose attributes are numbers and arrays.
    List it last.
    """

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.save_state import SaveState

        return SaveState(env_of(parts))


@frozen(kw_only=True)
class StickyActionConfig(ComponentConfig):
    """Repeats the previous action with a given probability (Gymnasium `StickyAction`)."""

    probability: float = option(0.25, "probability of repeating the previous action", ge=0, lt=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from gymnasium.wrappers import StickyAction

        return StickyAction(env_of(parts), self.probability)


@frozen(kw_only=True)
class RescaleActionConfig(ComponentConfig):
    """Rescales actions from [min_action, max_action] to the bounds of the action space."""

    min_action: float = option(-1.0, "lower bound of the actions that the policy returns")
    max_action: float = option(1.0, "upper bound of the actions that the policy returns")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields an error if the bounds are inconsistent."""
        if self.min_action >= self.max_action:
            yield "max_action", f"must be > min_action {self.min_action}, got {self.max_action}"

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        import numpy as np
        from gymnasium.wrappers import RescaleAction

        env = env_of(parts)
        need_box_actions("rescale_action", env)
        return RescaleAction(env, np.float32(self.min_action), np.float32(self.max_action))


@frozen(kw_only=True)
class DiscretizeActionConfig(ComponentConfig):
    """Offers evenly spaced values of each continuous action, its bounds among them, as choices."""

    bins: int = option(11, "values of each action", ge=2)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import DiscretizeAction

        env = env_of(parts)
        need_box_actions("discretize_action", env)
        return DiscretizeAction(env, self.bins)


@frozen(kw_only=True)
class VersusConfig(ComponentConfig):
    """Plays one of two agents by an opponent; observations and rewards are the other agent's."""

    opponent: str = option(
        "random",
        "random; scripted: that of the environment; or a file of `save_snapshot`; in collectors,"
        " the commander one_vs_one replaces it",
    )
    side: int | None = option(None, "number of the agent; None: drawn for each episode", ge=0, le=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.versus import Versus

        return Versus(env_of(parts), self.opponent, self.side)
