"""The collector role: steps an env manager with a collect mode and returns samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="collector",
    summary="steps environments with a policy and returns training samples",
    contract="dicore.interfaces.collector:ISerialCollector",
    section="policy.collect.collector",
    suite="dicore.testing.collector:CollectorContract",
)


@runtime_checkable
class ISerialCollector(Protocol):
    """Collects samples or episodes in the calling process."""

    envstep: int
    """Env steps collected so far; set on resume."""

    def collect(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Collects as `collect_batch` does and returns rows."""

    def collect_batch(self, *args: Any, **kwargs: Any) -> Batch:
        """Collects the configured or given number and returns columns."""

    def reset_env(self, env: Any | None = None) -> None:
        """Resets the manager, or launches and uses another one."""

    def reset_policy(self, policy: Any | None = None) -> None:
        """Resets the policy, or uses another collect mode."""

    def reset(self, policy: Any | None = None, env: Any | None = None) -> None:
        """Resets both, the counters and all unfinished trajectories."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self) -> None:
        """Closes the environments; later calls do nothing."""
