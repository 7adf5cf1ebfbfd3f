"""The collector role: steps an env manager with a collect mode and returns samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore.values import Row, State, StateDict
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dicore.data import Batch
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.policy import CollectMode

KIND = Kind(
    name="collector",
    summary="steps environments with a policy and returns training samples",
    contract="dicore.interfaces.collector:ISerialCollector",
    section="policy.collect.collector",
    suite="dicore.testing.collector:CollectorContract",
    use="dicore train -e cartpole -p dqn policy.collect.collector={name}",
)


@runtime_checkable
class ISerialCollector(Contract, Protocol):
    """Collects samples or episodes in the calling process."""

    envstep: int
    """Env steps collected so far; set on resume."""

    @property
    def total_episode_count(self) -> int:
        """Episodes collected so far."""

    @property
    def trajectory_end_idx(self) -> npt.NDArray[np.int64]:
        """int64 [E]: the samples of the last call that end an episode, or are an env's last."""

    def collect(self, *args: Any, **kwargs: Any) -> list[Row] | list[list[Row]]:
        """Collects as `collect_batch` does and returns rows."""

    def collect_batch(
        self,
        *,
        n_sample: int | None = None,
        n_episode: int | None = None,
        train_iter: int = 0,
        random_collect: bool = False,
        policy_kwargs: Mapping[str, object] | None = None,
        should_stop: Callable[[], bool] | None = None,
        reuse: bool = False,
    ) -> Batch:
        """Collects a number of samples, or of whole episodes.

        Args:
            n_sample: Number of samples; None, without `n_episode`: the configured number.
            n_episode: Number of whole episodes.
            train_iter: Updates so far, which every sample has as `collect_iter`.
            random_collect: The policy is a warm-up policy.
            policy_kwargs: Keyword arguments of the policy's forward.
            should_stop: Asked between env steps. If it returns True, the call returns an empty
                batch, and the next call continues with the steps made so far.
            reuse: Return memory that the next call overwrites.

        Returns:
            B samples with `end` bool [B] (the last of an episode) and `env_id` int64 [B]; those of
            one environment are in order.

        Raises:
            UsageError: both numbers are given, or none, or the policy makes no samples.
        """

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Resets the manager, or launches and uses another one."""

    def reset_policy(self, policy: CollectMode | None = None) -> None:
        """Resets the policy, or uses another collect mode."""

    def reset(self, policy: CollectMode | None = None, env: IEnvManager | None = None) -> None:
        """Resets both, the counters and all unfinished trajectories."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: State) -> None: ...

    def close(self) -> None:
        """Closes the environments; later calls do nothing."""
