"""The learner-hook role: a callable with a position; lower priorities are called first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from dicore.errors import HookError
from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.interfaces.learner import ILearner

KIND = Kind(
    name="learner_hook",
    summary="runs before or after a training run or a gradient update (callback)",
    contract="dicore.interfaces.hook:ILearnerHook",
    section="policy.learn.learner.hook",
    suite="dicore.testing.hook:HookContract",
    use="dicore train -e cartpole -p dqn policy.learn.learner.hook.{name}_{position}={freq}",
)

POSITIONS: Final = ("before_run", "after_run", "before_iter", "after_iter")


@runtime_checkable
class ILearnerHook(Protocol):
    """The part of a hook that learners use."""

    name: str
    position: str
    priority: int

    def __call__(self, engine: ILearner) -> None: ...


class LearnerHook:
    """Base class of hooks; subclasses implement `__call__`.

    For resumed runs, a hook with state may have `resume(engine)`, called when the counters of the
    learner are restored, or `state_dict()` and `load_state_dict(state)`, used by checkpoints.

    Args:
        name: Name in messages.
        priority: 0 or more; lower runs first, equal ones in order of registration.
        position: One of `before_run after_run before_iter after_iter`; required.

    Raises:
        HookError: invalid position or priority.
    """

    def __init__(self, name: str, priority: int = 100, position: str = "") -> None:
        if position not in POSITIONS:
            wrong = f"unknown position '{position}'" if position else "position is missing"
            raise HookError(f"hook '{name}': {wrong}; expected one of {', '.join(POSITIONS)}")
        if isinstance(priority, bool) or not isinstance(priority, int) or priority < 0:
            raise HookError(f"hook '{name}': priority: expected int >= 0, got {priority!r}")
        self.name = name
        self.position = position
        self.priority = priority

    def __call__(self, engine: Any) -> None:
        raise TypeError(f"hook '{self.name}': {type(self).__name__} does not implement __call__")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.position}, priority={self.priority})"
