"""The env role, which any `gymnasium.Env` satisfies, and protocols of optional features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="env",
    summary="simulates a task: observations, actions and rewards (`gymnasium.Env`)",
    contract="dicore.interfaces.env:IEnv",
    section="env",
    suite="dicore.testing.env:EnvContract",
    use="dicore train -e {name} -p dqn --max-env-step 20000",
)

WRAPPER_KIND = Kind(
    name="env_wrapper",
    summary="changes observations, actions or rewards of an environment",
    contract="dicore.interfaces.env:IEnv",
    section="env.env_wrapper",
    suite="dicore.testing.env_wrapper:EnvWrapperContract",
    use="dicore train -e cartpole -p dqn 'env.env_wrapper=[{item}]'",
)


@runtime_checkable
class IEnv(Protocol):
    """The part of `gymnasium.Env` that env managers use."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns its first observation and info."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated and info."""

    def close(self) -> None:
        """Frees the resources of the environment; later calls do nothing."""


@runtime_checkable
class SupportsReplay(Protocol):
    """An env that can record its episodes."""

    def enable_save_replay(self, replay_path: str) -> None:
        """Records all following episodes to a folder."""


@runtime_checkable
class SupportsState(Protocol):
    """An env whose state can be saved within an episode."""

    def get_state(self) -> Mapping[str, Any]: ...

    def set_state(self, state: Mapping[str, Any]) -> None: ...
