"""What an actor-critic network is asked for."""

from __future__ import annotations

from typing import Any, Literal, get_args

from torch import nn

from dicore.errors import UsageError
from dicore.values import Columns, Tree

__all__ = ["ActorWithQ", "Mode", "check_mode"]

Mode = Literal["compute_actor", "compute_critic", "compute_actor_critic"]


def check_mode(mode: str) -> None:
    """Raises UsageError if a network is asked for another mode than the three."""
    if mode not in get_args(Mode):
        raise UsageError(f"unknown mode '{mode}'; expected {', '.join(get_args(Mode))}")


class ActorWithQ(nn.Module):
    """Base class of actors with Q networks; a subclass implements `policy`, `critic_of`, `both`."""

    def forward(self, obs: Tree, mode: Mode = "compute_actor_critic") -> Columns:
        """Computes `both`, or only a part.

        Args:
            obs: [B, ...], or a tree of these; for `compute_critic` a dict of `obs` and `action`, as
                `critic_of` takes them.
            mode: `compute_actor` or `compute_critic` compute only their part.

        Returns:
            The outputs of `both`, `policy` or `critic_of`.

        Raises:
            UsageError: the mode is unknown, or `compute_critic` gets no dict of both.
        """
        check_mode(mode)
        if mode == "compute_actor":
            found: dict[str, Any] = self.policy(obs)
            return found
        if mode == "compute_actor_critic":
            return self.both(obs)
        if not isinstance(obs, dict) or obs.keys() != {"obs", "action"}:
            raise UsageError(
                "compute_critic needs an action to value",
                hint="pass {'obs': ..., 'action': ...} with the action in [-1, 1]",
            )
        return self.critic_of(obs["obs"], obs["action"])

    def policy(self, obs: Tree) -> Columns:
        """Computes the outputs of the actor."""
        raise NotImplementedError

    def critic_of(self, obs: Tree, action: Any) -> dict[str, Any]:
        """Computes the outputs of the Q networks for an action."""
        raise NotImplementedError

    def both(self, obs: Tree) -> Columns:
        """Computes the outputs of the actor, and of the Q networks for its action."""
        raise NotImplementedError
