"""Options of the wrappers that change what an environment pays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config.schema import REQUIRED, ComponentConfig, frozen, option

__all__ = ["ClipRewardConfig", "DelayRewardConfig", "EpisodeReturnConfig", "RewardNormConfig"]


@frozen(kw_only=True)
class ClipRewardConfig(ComponentConfig):
    """Clips rewards; with `eval_episode_return` below it, evaluations measure the true ones."""

    min_reward: float = option(-1.0, "smallest reward paid")
    max_reward: float = option(1.0, "largest reward paid")

    def check(self) -> Iterator[tuple[str, str]]:
        """Finds bounds that contradict each other."""
        if self.min_reward > self.max_reward:
            yield "max_reward", f"must be >= min_reward {self.min_reward}, got {self.max_reward}"

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from gymnasium.wrappers import ClipReward

        return ClipReward(parts["env"], self.min_reward, self.max_reward)


@frozen(kw_only=True)
class RewardNormConfig(ComponentConfig):
    """Scales rewards by the deviation of the discounted return so far (gymnasium's; per env)."""

    reward_discount: float = option(0.99, "gamma of that return", ge=0, le=1)
    epsilon: float = option(1e-8, "added to the variance", gt=0)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import NormalizeReward

        return NormalizeReward(parts["env"], self.reward_discount, self.epsilon)


@frozen(kw_only=True)
class DelayRewardConfig(ComponentConfig):
    """Pays the rewards of several steps together, and the rest at the episode's end."""

    delay_reward_step: int = option(REQUIRED, "steps between payments", ge=1, unit="env steps")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import DelayReward

        return DelayReward(parts["env"], self.delay_reward_step)


@frozen(kw_only=True)
class EpisodeReturnConfig(ComponentConfig):
    """Tells the return of the episode as seen here; what stands above may change rewards."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import EpisodeReturn

        return EpisodeReturn(parts["env"])
