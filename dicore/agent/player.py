"""A trained policy as a function: one observation in, one action out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.config import bind
from dicore.run.trained import Trained

__all__ = ["player"]


def player(trained: Trained) -> Callable[[Any], Any]:
    """Builds the policy and returns how it acts without exploration.

    Args:
        trained: The policy.
    """
    from dicore.run.build_context import BuildContext
    from dicore.run.envs import spaces_of

    spaces = spaces_of(trained.compiled.env, trained.compiled.seed)
    compiled = bind(trained.compiled, *spaces)
    context = BuildContext(seed=compiled.seed).with_spaces(*spaces)
    policy, _ = Trained(compiled, trained.name, trained.read).build(context)
    forward = policy.eval_mode.forward

    def act(obs: Any) -> Any:
        return forward({0: obs})[0]["action"]

    return act
