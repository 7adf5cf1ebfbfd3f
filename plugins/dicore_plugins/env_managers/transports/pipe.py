"""The pipe: all data is pickled into the messages; for spaces without a fixed shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, frozen
from dicore.run.env_factory import BuildContext
from dicore.values import Tree
from dicore_plugins.env_managers.transports.interface import EnvLayout, Rows

if TYPE_CHECKING:
    from dicore.data.tree import Array

__all__ = ["Pipe", "PipeConfig"]


class Pipe:
    """Stores nothing, so that every message carries its data."""

    def files(self) -> Sequence[int]:
        """Returns no descriptors."""
        return ()

    def attach(self, files: Sequence[int]) -> None:
        """Does nothing."""

    def put_actions(self, rows: Rows, actions: Tree) -> bool:
        """Stores nothing."""
        return False

    def actions(self, rows: Rows) -> Sequence[Any]:
        """Returns no actions."""
        return ()

    def write(self, env_id: int, buffer: int, obs: Tree, reward: Tree, ended: int) -> bool:
        """Stores nothing."""
        return False

    def write_reset(self, env_id: int, obs: Tree) -> bool:
        """Stores nothing."""
        return False

    def columns(self, rows: Rows, buffer: int) -> tuple[Tree, Array] | None:
        """Returns None."""
        return None

    def ended(self, rows: Rows, buffer: int) -> Sequence[int]:
        """Returns no flags."""
        return ()

    def reset_obs(self, env_id: int) -> Tree:
        """Returns None."""

    def close(self) -> None:
        """Does nothing."""


@frozen(kw_only=True)
class PipeConfig(ComponentConfig):
    """Pickles all data into the messages; for observations of any space."""

    def build(self, ctx: BuildContext | None, *, layout: EnvLayout, **parts: object) -> Pipe:
        """Returns the transport."""
        return Pipe()
