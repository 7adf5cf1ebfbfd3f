"""What a component needs to be built and config cannot hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore.run.run import Run

__all__ = ["BuildContext"]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Handed to every config class's `build`.

    Args:
        observation_space: Of one environment; None before it is known.
        action_space: Of one environment; None before it is known.
        device: Where tensors live: `cpu`, `cuda`, `cuda:1`.
        seed: Seed of the run.
        run: The run that the component becomes part of; None for one built by hand.
        logger: Where the component logs scalars and text; None: nowhere.
    """

    observation_space: Any = None
    action_space: Any = None
    device: str = "cpu"
    seed: int = 0
    run: Run | None = None
    logger: Any = None

    def with_spaces(self, observation_space: Any, action_space: Any) -> BuildContext:
        """Returns a copy that knows the spaces."""
        return replace(self, observation_space=observation_space, action_space=action_space)
