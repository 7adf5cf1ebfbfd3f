"""A wrapper for environments whose library cannot be used by several threads at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from dicore.data import Tree


__all__ = ["OneAtATime"]

_LOCK = threading.Lock()


class OneAtATime(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Resets, steps and renders environments of a process one after the other.

    SDL_gfx, by which CarRacing draws, keeps the points of a polygon in one place: observations of
    environments in threads would mix.
    """

    def reset(self, **kwargs: Any) -> Any:
        with _LOCK:
            return self.env.reset(**kwargs)

    def step(self, action: Tree) -> Any:
        with _LOCK:
            return self.env.step(action)

    def render(self) -> Any:
        with _LOCK:
            return self.env.render()
