"""The contract of learner hooks (`ILearnerHook`): a name, a position, a priority, one argument."""

from __future__ import annotations

import inspect
from typing import Any

from dicore.errors import ConfigError, HookError
from dicore.interfaces.hook import POSITIONS, ILearnerHook
from dicore.testing.suite import Suite, expect, expect_members, refuses

__all__ = ["HookContract"]


class HookContract(Suite):
    """Conformance suite of hooks: subclass it and override `make`."""

    def make(self, **settings: Any) -> Any:
        """Returns a hook (`ILearnerHook`); `settings` are among `name`, `priority`, `position`."""
        return self.registered.build(settings)

    def test_has_the_attributes(self) -> None:
        """It satisfies `ILearnerHook`."""
        hook = self.make()
        expect_members(hook, ILearnerHook)
        expect(isinstance(hook.name, str) and hook.name, f"its name is {hook.name!r}")

    def test_has_a_default_position(self) -> None:
        """By default it runs at one of the four positions, with a priority of 0 or more."""
        hook = self.make()
        expect(hook.position in POSITIONS, f"its position is {hook.position!r}")
        whole = isinstance(hook.priority, int) and not isinstance(hook.priority, bool)
        expect(whole and hook.priority >= 0, f"its priority is {hook.priority!r}")

    def test_accepts_name_priority_and_position(self) -> None:
        """It accepts name, priority and position."""
        default = self.make()
        hook = self.make(name="mine", priority=7, position=default.position)
        arrived = (hook.name, hook.priority, hook.position)
        expect(arrived == ("mine", 7, default.position), f"expected ('mine', 7), got {arrived}")

    def test_invalid_priority_and_position_raise(self) -> None:
        """A negative priority and an unknown position raise on construction."""
        with refuses((HookError, ConfigError), "a priority of -1"):
            self.make(priority=-1)
        with refuses((HookError, ConfigError), "position 'sometimes'"):
            self.make(position="sometimes")

    def test_call_takes_only_the_learner(self) -> None:
        """It can be called with the learner only."""
        hook = self.make()
        try:
            inspect.signature(hook).bind(None)
        except TypeError as error:
            expect(False, f"it cannot be called with a learner only: {error}")
