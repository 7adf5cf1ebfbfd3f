"""The env role: any `gymnasium.Env` is one; what more an env can do are small protocols.

Shapes: `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="env",
    summary="an environment; its options say which",
    contract="dicore.interfaces.env:IEnv",
    section="env",
    suite="dicore.testing.env:EnvContract",
)

WRAPPER_KIND = Kind(
    name="env_wrapper",
    summary="changes what an environment shows or takes",
    contract="dicore.interfaces.env:IEnv",
    section="env.env_wrapper",
    suite="dicore.testing.env_wrapper:EnvWrapperContract",
)


@runtime_checkable
class IEnv(Protocol):
    """What a manager needs of an environment; `gymnasium.Env` has it."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode and returns its first observation and info."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated and info."""

    def close(self) -> None:
        """Lets go of what the environment holds; harmless when repeated."""


@runtime_checkable
class SupportsSeed(Protocol):
    """An env of the documents' form: seeded apart from `reset`."""

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seeds the episodes to come; static seeds give the very same episode each time."""


@runtime_checkable
class SupportsReplay(Protocol):
    """An env that can record its episodes."""

    def enable_save_replay(self, replay_path: str) -> None:
        """Records every episode from now on into a folder."""


@runtime_checkable
class SupportsState(Protocol):
    """An env whose state can be saved in the middle of an episode."""

    def get_state(self) -> Mapping[str, Any]: ...

    def set_state(self, state: Mapping[str, Any]) -> None: ...
