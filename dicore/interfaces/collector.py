"""The collector role: env manager + collect mode in, training samples out; it keeps no data."""

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
    """Collects in the calling process; the unit (sample or episode) is the component's."""

    envstep: int
    """Env steps collected so far; set it to resume."""

    def collect(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Returns what `collect_batch` returns, as rows."""

    def collect_batch(self, *args: Any, **kwargs: Any) -> Batch:
        """Collects the configured or given amount and returns it as columns."""

    def reset_env(self, env: Any | None = None) -> None:
        """Resets the manager, or launches a new one and uses it from now on."""

    def reset_policy(self, policy: Any | None = None) -> None:
        """Resets the policy, or uses another collect mode from the next step on."""

    def reset(self, policy: Any | None = None, env: Any | None = None) -> None:
        """Resets both, the counters and all partial trajectories."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self) -> None:
        """Closes the environments; harmless when repeated."""
