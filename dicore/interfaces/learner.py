"""The learner role: calls a learn mode and counts iterations; the optimizer role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.interfaces.hook import ILearnerHook

KIND = Kind(
    name="learner",
    summary="runs gradient updates with a policy's learn mode, and hooks before and after them",
    contract="dicore.interfaces.learner:ILearner",
    section="policy.learn.learner",
    suite="dicore.testing.learner:LearnerContract",
    use="dicore train -e cartpole -p dqn policy.learn.learner={name}",
)

OPTIMIZER_KIND = Kind(
    name="optimizer",
    summary="updates parameters from their gradients",
    contract="dicore.interfaces.learner:IOptimizer",
    section="policy.learn.optimizer",
    suite="dicore.testing.role:RoleContract",
    use="dicore train -e cartpole -p dqn policy.learn.optimizer={name}",
)


@runtime_checkable
class ILearner(Contract, Protocol):
    """Trains on given data (`train`), or on a data source (`start`)."""

    policy: Any
    """The learn mode."""

    @property
    def train_iter(self) -> int:
        """Number of updates so far."""

    @property
    def learn_info(self) -> dict[str, Any]:
        """`learner_step`, `priority_info` and `learner_done`."""

    @property
    def priority_info(self) -> dict[str, Any]:
        """`priority`, `replay_buffer_idx` and `replay_unique_id` of the last batch."""

    def train(
        self, data: Any, envstep: int = -1, policy_kwargs: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Runs one iteration with its hooks; returns a dict of tensors per update."""

    def start(self) -> None:
        """Trains from the data source until `train_iterations`."""

    def register_hook(self, hook: ILearnerHook) -> None:
        """Adds a hook by its priority."""

    def call_hook(self, position: str) -> None:
        """Calls all hooks of a position."""

    def save_checkpoint(self, name: str | None = None) -> Any:
        """Saves a checkpoint."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class IOptimizer(Contract, Protocol):
    """The part of `torch.optim.Optimizer` that policies use.

    Built with the part `params`, which iterates over the parameters; `step()` needs no argument.
    """

    param_groups: list[dict[str, Any]]
    """The parameters and their options; schedules read and set `lr`."""

    def step(self) -> Any:
        """Updates the parameters."""

    def zero_grad(self) -> None:
        """Clears the gradients."""

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Calls `hook(optimizer, args, kwargs)` before each update, such as an all-reduce."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None: ...
