"""EnvSpec: what the outermost wrapper says of an environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from dicore.interfaces.env import EnvSpec

PAIR = Box(-1.0, 1.0, (2,), np.float32)


class Two(gymnasium.Env[Any, Any]):
    """Two agents."""

    observation_space = PAIR
    action_space = Discrete(2)
    reward_space = PAIR
    state_space = PAIR
    agent_ids = ("a", "b")


class One(gymnasium.Wrapper[Any, Any, Any, Any]):
    """They are one."""

    agent_ids = ()
    state_space = None


def test_wrappers_come_first() -> None:
    spec = EnvSpec.of(gymnasium.Wrapper(Two()))
    assert (spec.agents, spec.state, spec.reward) == (("a", "b"), PAIR, PAIR)
    spec = EnvSpec.of(gymnasium.Wrapper(One(Two())))
    assert (spec.agents, spec.state, spec.reward) == ((), None, PAIR)


def test_what_is_not_declared_is_not_known() -> None:
    spec = EnvSpec.of(gymnasium.make("CartPole-v1"))
    assert (spec.agents, spec.state, spec.reward, spec.reward_shape) == ((), None, None, ())
