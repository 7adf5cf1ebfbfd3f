"""Classic control: small, quick, and solved by most algorithms in minutes."""

from __future__ import annotations

from dicore.config.schema import frozen, option
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig


@frozen(kw_only=True)
class CartPoleConfig(GymnasiumConfig):
    """CartPole-v1: balance a pole on a cart; 500 steps at most, solved at 475."""

    env_id: str = option("CartPole-v1", "id under which gymnasium knows it")
    n_evaluator_episode: int = option(10, "episodes in one evaluation", ge=1)
    stop_value: float = option(475.0, "mean return at which training stops", unit="return")


@frozen(kw_only=True)
class AcrobotConfig(GymnasiumConfig):
    """Acrobot-v1: swing a two-link arm above its base; -1 per step, solved at -100."""

    env_id: str = option("Acrobot-v1", "id under which gymnasium knows it")
    n_evaluator_episode: int = option(10, "episodes in one evaluation", ge=1)
    stop_value: float = option(-100.0, "mean return at which training stops", unit="return")


@frozen(kw_only=True)
class MountainCarConfig(GymnasiumConfig):
    """MountainCar-v0: rock a weak car out of a valley; -1 per step, solved at -110."""

    env_id: str = option("MountainCar-v0", "id under which gymnasium knows it")
    n_evaluator_episode: int = option(10, "episodes in one evaluation", ge=1)
    stop_value: float = option(-110.0, "mean return at which training stops", unit="return")


@frozen(kw_only=True)
class PendulumConfig(GymnasiumConfig):
    """Pendulum-v1: hold a pendulum upright by torque (continuous actions)."""

    env_id: str = option("Pendulum-v1", "id under which gymnasium knows it")
    n_evaluator_episode: int = option(10, "episodes in one evaluation", ge=1)
    stop_value: float = option(-250.0, "mean return at which training stops", unit="return")
