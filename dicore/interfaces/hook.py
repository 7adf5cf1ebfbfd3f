"""The learner-hook role: a callable with a position, called in order of priority, lowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from dicore.errors import HookError
from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.interfaces.learner import ILearner

KIND = Kind(
    name="learner_hook",
    summary="something to do before or after a run or an iteration of a learner",
    contract="dicore.interfaces.hook:ILearnerHook",
    section="policy.learn.learner.hook",
    suite="dicore.testing.hook:HookContract",
)

POSITIONS: Final = ("before_run", "after_run", "before_iter", "after_iter")


@runtime_checkable
class ILearnerHook(Protocol):
    """What a learner needs of a hook."""

    name: str
    position: str
    priority: int

    def __call__(self, engine: ILearner) -> None: ...


class LearnerHook:
    """Base of hooks; derive from it and write `__call__`.

    A hook that counts has two ways to go on with a resumed run: `resume(engine)`, told when the
    learner has its counters back, and then `state_dict()` with `load_state_dict(state)`, which go
    into checkpoints.

    Args:
        name: For people; unique names make messages clear.
        priority: 0 and up; lower runs first, equal ones in order of registration.
        position: One of `before_run after_run before_iter after_iter`; must be given.

    Raises:
        HookError: the position is missing or unknown, or the priority negative.
    """

    def __init__(self, name: str, priority: int = 100, position: str = "") -> None:
        if position not in POSITIONS:
            said = f"no position '{position}'" if position else "its position is missing"
            raise HookError(f"hook '{name}': {said}", hint=f"one of {', '.join(POSITIONS)}")
        if isinstance(priority, bool) or not isinstance(priority, int) or priority < 0:
            raise HookError(f"hook '{name}': priority must be an int >= 0, got {priority!r}")
        self.name = name
        self.position = position
        self.priority = priority

    def __call__(self, engine: Any) -> None:
        raise TypeError(f"hook '{self.name}' does nothing: {type(self).__name__} has no __call__")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.position}, priority={self.priority})"
