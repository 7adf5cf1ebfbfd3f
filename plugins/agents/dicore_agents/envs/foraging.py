"""Level-based foraging (lbforaging), mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from dicore.data import Info, Tree

__all__ = ["FreshField"]


class FreshField(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes the players off the field before a reset places them.

    lbforaging 2.0 places nobody where a player stood at the end of the last episode, so that equal
    seeds give different episodes.

    Args:
        env: The environment.
    """

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode that depends on the seed alone."""
        below: Any = self.unwrapped
        for player in below.players:
            player.position = None
        return self.env.reset(seed=seed, options=options)
