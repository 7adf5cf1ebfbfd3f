"""A wrapper for environments whose physics outlives an episode."""

from __future__ import annotations

from typing import Any

import gymnasium


class NewWorld(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gives an env of Box2D a new world at each reset.

    BipedalWalker removes the bodies of an episode but keeps the world, whose inner order of
    contacts changes the rounding of the next episode: the same seed and actions give other numbers.
    LunarLander makes a new world in the same way.

    Args:
        env: An env with a `world` and the method `_destroy`, which removes its bodies.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        core: Any = self.unwrapped
        core._destroy()  # noqa: SLF001 - of the old world; reset then has nothing to remove
        core.world = type(core.world)()
        return self.env.reset(seed=seed, options=options)
