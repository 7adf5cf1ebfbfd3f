"""The learner role: calls a learn mode and counts iterations; the optimizer role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore.values import Columns, Row, State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data import Batch
    from dicore.interfaces.hook import ILearnerHook
    from dicore.interfaces.policy import LearnMode

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

    policy: LearnMode
    """The learn mode."""

    @property
    def train_iter(self) -> int:
        """Number of updates so far."""

    @property
    def learn_info(self) -> dict[str, Tree]:
        """`learner_step`, `priority_info` and `learner_done`."""

    @property
    def priority_info(self) -> dict[str, Tree]:
        """`priority`, `replay_buffer_idx` and `replay_unique_id` of the last batch."""

    def train(
        self,
        data: Batch | list[Row] | Columns,
        envstep: int = -1,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> list[Columns]:
        """Runs one iteration with its hooks; returns a dict of tensors per update."""

    def start(self) -> None:
        """Trains from the data source until `train_iterations`."""

    def register_hook(self, hook: ILearnerHook) -> None:
        """Adds a hook by its priority."""

    def call_hook(self, position: str) -> None:
        """Calls all hooks of a position."""

    def save_checkpoint(self, name: str | None = None) -> object:
        """Saves a checkpoint."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: State) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class IOptimizer(Contract, Protocol):
    """The part of `torch.optim.Optimizer` that policies use.

    Built with the part `params`, which iterates over the parameters; `step()` needs no argument.
    """

    param_groups: list[dict[str, Tree]]
    """The parameters and their options; schedules read and set `lr`."""

    def step(self) -> object:
        """Updates the parameters."""

    def zero_grad(self) -> None:
        """Clears the gradients."""

    def register_step_pre_hook(self, hook: Callable[..., None]) -> object:
        """Calls `hook(optimizer, args, kwargs)` before each update, such as an all-reduce."""

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state_dict: State) -> None: ...
