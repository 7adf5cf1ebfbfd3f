"""The roles of a training in several processes: learner, collector, and who commands them.

Metadata goes by the transport, bodies (samples, parameters) by files or the object store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

LEARNER_KIND = Kind(
    name="comm_learner",
    summary="a learner that is sent its data and sends its policy",
    contract="dicore.interfaces.comm:ICommLearner",
    suite="dicore.testing.role:RoleContract",
)

COLLECTOR_KIND = Kind(
    name="comm_collector",
    summary="a collector that is sent its policy and sends its data",
    contract="dicore.interfaces.comm:ICommCollector",
    suite="dicore.testing.role:RoleContract",
)

COMMANDER_KIND = Kind(
    name="commander",
    summary="makes the tasks of collectors and learners",
    contract="dicore.interfaces.comm:ICommander",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class ICommLearner(Protocol):
    """Holds a learner, gives it data and passes its policy on."""

    @property
    def hooks4call(self) -> Sequence[Any]:
        """Learner hooks that send policy and learn info at their times."""

    def start(self) -> None:
        """Begins to serve tasks."""

    def close(self) -> None:
        """Ends, also while it waits for data; a second time does nothing."""

    def get_data(self, batch_size: int) -> Sequence[Any]:
        """Returns the metadata of that many samples; waits until they are there."""

    def send_policy(self, state_dict: Mapping[str, Any]) -> None:
        """Makes parameters readable for collectors, all at once."""

    def send_learn_info(self, learn_info: Mapping[str, Any]) -> None:
        """Tells how learning goes: `learner_step`, `priority_info` and `learner_done`."""


@runtime_checkable
class ICommCollector(Protocol):
    """Holds a collector, gives it the newest policy and passes its data on."""

    def start(self) -> None:
        """Begins to serve tasks."""

    def close(self) -> None:
        """Ends; a second time does nothing."""

    def get_policy_update_info(self, path: str) -> Mapping[str, Any]:
        """Returns the policy that a learner has made readable under a name."""

    def send_stepdata(self, path: str, stepdata: Any) -> None:
        """Makes samples readable under a name, all at once."""

    def send_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Tells of samples, or of the end: `data_id`, `policy_iter` and `collector_done`."""


@runtime_checkable
class ICommander(Protocol):
    """Decides what collectors and learners do, and when the training ends."""

    def get_collector_task(self) -> Mapping[str, Any] | None:
        """Returns the next task for a collector; None: none now."""

    def get_learner_task(self) -> Mapping[str, Any] | None:
        """Returns the next task for a learner; None: none now."""

    def finish_collector_task(self, task_id: str, finished_task: Mapping[str, Any]) -> bool:
        """Takes a result; returns whether the training is over."""

    def finish_learner_task(self, task_id: str, finished_task: Mapping[str, Any]) -> bool:
        """Takes a result; returns whether the training is over."""

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        """Is told that a task failed."""

    def notify_fail_learner_task(self, task: Mapping[str, Any]) -> None:
        """Is told that a task failed."""

    def update_learner_info(self, task_id: str, info: Mapping[str, Any]) -> None:
        """Takes what a learner tells while it works."""
