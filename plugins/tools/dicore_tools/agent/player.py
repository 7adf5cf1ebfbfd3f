"""A trained policy as a function: one observation in, one action out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.config import bind
from dicore_tools.agent.observation import observation
from dicore_tools.evaluation.policy_loader import Trained

__all__ = ["player"]


def player(trained: Trained) -> Callable[[Any], Any]:
    """Builds the policy and returns how it acts without exploration.

    Args:
        trained: The policy.

    Returns:
        A function that raises UsageError where an observation does not fit the environment's space.
    """
    from dicore.run.env_factory import BuildContext, spaces_of
    from dicore.run.random import seeded

    spaces = spaces_of(trained.compiled.env, trained.compiled.seed)
    compiled = bind(trained.compiled, *spaces)
    context = BuildContext(seed=compiled.seed).with_spaces(*spaces)
    with seeded(compiled.seed):  # an untrained network is then that of `evaluate`
        policy, _ = Trained(compiled, trained.name, trained.read).build(context)
    forward, space = policy.eval_mode.forward, spaces[0]

    def act(obs: Any) -> Any:
        return forward({0: observation(space, obs)})[0]["action"]

    return act
