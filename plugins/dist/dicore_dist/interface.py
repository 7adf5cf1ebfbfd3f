"""The roles of distributed training: comm learner, comm collector, commander, and their channels.

Metadata is sent by the transport; samples and parameters are stored in files or an object store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data import State

_HERE, _SUITE = "dicore_dist.interface", "dicore.testing.role:RoleContract"

LEARNER_KIND = Kind("comm_learner",
    summary="connects a learner to the other processes: receives data, sends the policy",
    contract=f"{_HERE}:ICommLearner", suite=_SUITE)  # fmt: skip
COLLECTOR_KIND = Kind("comm_collector",
    summary="connects a collector to the other processes: receives the policy, sends data",
    contract=f"{_HERE}:ICommCollector", suite=_SUITE)  # fmt: skip
COMMANDER_KIND = Kind("commander",
    summary="assigns tasks to collectors and learners",
    contract=f"{_HERE}:ICommander", suite=_SUITE)  # fmt: skip
TRANSPORT_KIND = Kind("transport",
    summary="sends requests and responses between processes",
    contract=f"{_HERE}:ITransport", suite=_SUITE)  # fmt: skip


@runtime_checkable
class ICommLearner(Contract, Protocol):
    """Runs a learner: receives its data and sends its policy."""

    @property
    def hooks4call(self) -> Sequence[object]:
        """Learner hooks that send the policy and the learn info."""

    def start(self) -> None:
        """Starts to serve tasks."""

    def close(self) -> None:
        """Stops, also while it waits for data; later calls do nothing."""

    def get_data(self, batch_size: int) -> Sequence[object]:
        """Blocks until `batch_size` samples exist and returns their metadata."""

    def send_policy(self, state_dict: State) -> None:
        """Publishes parameters for collectors, atomically."""

    def send_learn_info(self, learn_info: Mapping[str, object]) -> None:
        """Sends `learner_step`, `priority_info` and `learner_done`."""


@runtime_checkable
class ICommCollector(Contract, Protocol):
    """Runs a collector: receives the newest policy and sends its data."""

    def start(self) -> None:
        """Starts to serve tasks."""

    def close(self) -> None:
        """Stops; later calls do nothing."""

    def get_policy_update_info(self, path: str) -> Mapping[str, object]:
        """Returns the policy that a learner published under `path`."""

    def send_stepdata(self, path: str, stepdata: object) -> None:
        """Publishes samples under `path`, atomically."""

    def send_metadata(self, metadata: Mapping[str, object]) -> None:
        """Sends `data_id`, `policy_iter` and `collector_done`."""


@runtime_checkable
class ICommander(Contract, Protocol):
    """Assigns tasks and decides when training ends."""

    def get_collector_task(self) -> Mapping[str, object] | None:
        """Returns the next task for a collector, as below for a learner; None: none now.

        A task has a `task_id`, which ends with `_NUMBER`; with `eval_flag` a collector evaluates.
        """

    def get_learner_task(self) -> Mapping[str, object] | None: ...

    def finish_collector_task(self, task_id: str, finished_task: Mapping[str, object]) -> bool:
        """Accepts a result, as below of a learner; returns whether training is over."""

    def finish_learner_task(self, task_id: str, finished_task: Mapping[str, Any]) -> bool: ...

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        """Reports that a task failed, as below that of a learner."""

    def notify_fail_learner_task(self, task: Mapping[str, Any]) -> None: ...

    def update_learner_info(self, task_id: str, info: Mapping[str, Any]) -> None:
        """Accepts the progress of a learner."""


@runtime_checkable
class ITransport(Contract, Protocol):
    """Sends numbers, texts, lists and dicts, without unpickling."""

    def serve(self, name: str, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Calls `answer` for each request of this name; errors are returned as text."""

    def request(
        self, name: str, data: Mapping[str, object], timeout: float | None = None
    ) -> Mapping[str, object]:
        """Sends a request and returns the response; `timeout` is in seconds, None: unlimited."""

    def close(self) -> None:
        """Stops; later calls do nothing."""
