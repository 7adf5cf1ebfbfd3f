"""Environments of the package `gym`, the predecessor of Gymnasium, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["GymConfig"]


@frozen(kw_only=True)
class GymConfig(EnvConfig):
    """Any environment of the old package `gym` 0.26 by id, adapted to Gymnasium's API."""

    env_id: str = option(REQUIRED, "environment id of gym, e.g. CartPole-v1 or module:Id")
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of gym.make")

    def from_spec(self) -> dict[str, object]:
        """Returns the registered reward threshold as `stop_value`.

        Raises:
            ConfigError: the id is not registered.
            MissingDependencyError: gym is not installed.
        """
        from dicore_plugins.env_wrappers.gym_adapter import gym_spec

        threshold = gym_spec(self.env_id).reward_threshold
        return {} if threshold is None else {"stop_value": float(threshold)}

    def with_pictures(self) -> Self:
        """Returns this config with rendering enabled, for videos."""
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: the id is not registered, or `gym.make` refuses the arguments.
            MissingDependencyError: gym, or a package that the environment needs, is not installed.
        """
        from dicore_plugins.env_managers.adapt import from_gym

        env: Env = from_gym(self.env_id, **self.make_kwargs)
        return env
