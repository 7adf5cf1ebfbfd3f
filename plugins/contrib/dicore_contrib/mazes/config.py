"""Options of mazes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dicore.config import EnvConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore_contrib.mazes.maze import Maze

__all__ = ["MazeConfig"]


@frozen(kw_only=True)
class MazeConfig(EnvConfig):
    """Walk to a goal in a maze that is drawn anew for each episode; 1 for reaching it."""

    size: int = option(8, "cells of a side", ge=3, le=64)
    density: float = option(0.3, "probability that a cell is a wall", ge=0, le=0.6)
    n_evaluator_episode: int = option(50, "episodes per evaluation", ge=1)
    stop_value: float = option(0.95, "mean episode return at which training stops")

    def create_collector_env_cfg(self) -> list[Self]:
        """Returns the config of each collector environment."""
        return [self] * self.collector_env_num

    def create_evaluator_env_cfg(self) -> list[Self]:
        """Returns the config of each evaluator environment."""
        return [self] * self.evaluator_env_num

    def build(self, ctx: BuildContext | None, **parts: object) -> Maze:
        """Makes one environment."""
        from dicore_contrib.mazes.maze import Maze

        return Maze(self.size, self.density)
