"""The layers of environments that remember more than an episode: a normaliser, a curriculum.

A layer, be it a wrapper or the environment itself, takes part by two methods, `state_dict` and
`load_state_dict`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from dicore.errors import CheckpointCorruptError

__all__ = ["Layers"]

States = Sequence[Any]


class Layers:
    """Keeps what such layers knew before each running episode, by which it can be played again.

    Args:
        envs: All environments of a manager, by id.
    """

    def __init__(self, envs: Iterable[Any] = ()) -> None:
        self._found = [_stateful(env) for env in envs]
        self._any = any(self._found)
        self._begun: list[States] = [[] for _ in self._found]

    def __bool__(self) -> bool:
        return self._any

    def begin(self, env_id: int) -> None:
        """Notes what is known before an episode begins."""
        self._begun[env_id] = self.now(env_id)

    def begun(self, env_id: int) -> States:
        """Returns what was known before the running episode."""
        return self._begun[env_id]

    def now(self, env_id: int) -> States:
        """Returns what is known, as copies."""
        return [copy.deepcopy(layer.state_dict()) for layer in self._found[env_id]]

    def load(self, env_id: int, states: States) -> None:
        """Restores what `now` or `begun` returned.

        Raises:
            CheckpointCorruptError: it is of another environment.
        """
        layers = self._found[env_id]
        if len(states) != len(layers):
            names = ", ".join(type(layer).__name__ for layer in layers) or "none"
            raise CheckpointCorruptError(
                f"{len(states)} states for the layers with state of env {env_id}: {names}"
            )
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)

    def replace(self, env_id: int, env: Any) -> None:
        """Hands what one environment knows on to the one that takes its place."""
        states, self._found[env_id] = self.now(env_id), _stateful(env)
        self.load(env_id, states)


def _stateful(env: Any) -> list[Any]:
    """Returns the layers of an environment that have state, the outermost first."""
    found, layer = [], env
    while layer is not None:
        kind = type(layer)  # an older wrapper answers for what is below it
        if callable(getattr(kind, "state_dict", None)) and hasattr(kind, "load_state_dict"):
            found.append(layer)
        layer = vars(layer).get("env") if hasattr(layer, "__dict__") else None
    return found
