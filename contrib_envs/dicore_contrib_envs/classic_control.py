"""Classic control: small environments that most algorithms solve in minutes."""

from __future__ import annotations

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class CartPoleConfig(GymnasiumConfig):
    """CartPole-v1: balance a pole on a cart; at most 500 steps, solved at return 475."""

    env_id: str = option("CartPole-v1", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(475.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class AcrobotConfig(GymnasiumConfig):
    """Acrobot-v1: swing a two-link arm above its base; -1 per step, solved at return -100."""

    env_id: str = option("Acrobot-v1", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(-100.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class MountainCarConfig(GymnasiumConfig):
    """MountainCar-v0: drive an underpowered car uphill; -1 per step, solved at return -110."""

    env_id: str = option("MountainCar-v0", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(-110.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class PendulumConfig(GymnasiumConfig):
    """Pendulum-v1: swing a pendulum up and hold it upright; continuous torque."""

    env_id: str = option("Pendulum-v1", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(-250.0, "mean episode return at which training stops")


@frozen(kw_only=True)
class MountainCarContinuousConfig(GymnasiumConfig):
    """MountainCarContinuous-v0: drive an underpowered car uphill; force costs, the goal gives 100.

    Solved at return 90.
    """

    env_id: str = option("MountainCarContinuous-v0", "Gymnasium environment id")
    n_evaluator_episode: int = option(10, "episodes per evaluation", ge=1)
    stop_value: float = option(90.0, "mean episode return at which training stops")
