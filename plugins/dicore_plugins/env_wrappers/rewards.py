"""Options of the wrappers that change rewards or report returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dicore.config.schema import REQUIRED, ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.env_wrappers.fit import env_of, need_scalar_reward, with_returns

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["ClipRewardConfig", "DelayRewardConfig", "EpisodeReturnConfig", "RewardNormConfig"]


@frozen(kw_only=True)
class ClipRewardConfig(ComponentConfig):
    """Clips rewards; returns are of the unclipped ones, or where `eval_episode_return` is put."""

    min_reward: float = option(-1.0, "lower bound of the reward")
    max_reward: float = option(1.0, "upper bound of the reward")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields an error if the bounds are inconsistent."""
        if self.min_reward > self.max_reward:
            yield "max_reward", f"must be >= min_reward {self.min_reward}, got {self.max_reward}"

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from gymnasium.wrappers import ClipReward

        return ClipReward(with_returns(env_of(parts)), self.min_reward, self.max_reward)


@frozen(kw_only=True)
class RewardNormConfig(ComponentConfig):
    """Normalizes rewards by the running std of the discounted return, per env; not the returns.

    For policies that learn from their latest samples (ppo, a2c, …). A replay buffer keeps rewards
    of different scales; the reward model of this name scales them when they are drawn.
    """

    reward_discount: float = option(
        0.99, "discount of the running return; use policy.discount_factor", ge=0, le=1
    )
    epsilon: float = option(1e-8, "added to the variance to avoid division by zero", gt=0)

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import NormalizeReward

        env = env_of(parts)
        need_scalar_reward("reward_norm", env)
        return NormalizeReward(with_returns(env), self.reward_discount, self.epsilon)


@frozen(kw_only=True)
class DelayRewardConfig(ComponentConfig):
    """Accumulates rewards; returns the sum every n steps and at the end of the episode."""

    delay_reward_step: int = option(
        REQUIRED, "steps over which rewards are accumulated", ge=1, unit="env steps"
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import DelayReward

        return DelayReward(env_of(parts), self.delay_reward_step)


@frozen(kw_only=True)
class EpisodeReturnConfig(ComponentConfig):
    """Records the episode return before outer wrappers change the reward."""

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Wraps `env`."""
        from dicore_plugins.env_wrappers.wrappers import EpisodeReturn

        return EpisodeReturn(env_of(parts))
