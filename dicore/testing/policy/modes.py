"""Checks of the modes of a policy: immutable tuples, built where enabled, and what they know."""

from __future__ import annotations

from dicore.errors import ModeError
from dicore.testing.policy.play import (
    MODES,
    PolicyChecks,
    modes_of,
)
from dicore.testing.suite import expect, refuses

FACTS = ("cfg", "n_sample", "on_policy", "batch_size", "device", "priority", "model")
"""What workers ask every policy for."""


class ModeChecks(PolicyChecks):
    """Modes, attributes, resets."""

    def test_modes_are_immutable_tuples(self) -> None:
        """Every mode is a named tuple of functions; nothing of it can be set."""
        policy = self.make()
        for name, mode in modes_of(policy).items():
            expect(isinstance(mode, tuple), f"{name}_mode is a {type(mode).__name__}, no tuple")
            fields = getattr(mode, "_fields", ())
            missing = [each for each in MODES[name]._fields if each not in fields]
            expect(not missing, f"{name}_mode lacks {', '.join(missing)}")
            expect(all(map(callable, mode)), f"{name}_mode holds something that is no function")
            with refuses(AttributeError, f"setting {name}_mode.forward"):
                mode.forward = None
            expect(getattr(policy, f"{name}_mode") == mode, f"{name}_mode changes by looking at it")

    def test_only_enabled_modes_are_there(self) -> None:
        """Built for evaluation alone, it evaluates, and the other modes say so when touched."""
        policy = self.make(["eval"])
        expect(len(policy.eval_mode.forward(self.obs(2))) == 2, "its eval mode does not answer")
        for name in ("learn", "collect"):
            with refuses(ModeError, f"{name}_mode of a policy built with enable_field=['eval']"):
                getattr(policy, f"{name}_mode").forward({})

    def test_answers_what_workers_ask(self) -> None:
        """`get_attribute` of every mode knows the usual facts and refuses unknown ones."""
        for name, mode in modes_of(self.make()).items():
            for fact in FACTS:
                try:
                    mode.get_attribute(fact)
                except Exception as error:
                    expect(False, f"{name}_mode does not know its '{fact}': {error}")
            with refuses(AttributeError, f"{name}_mode.get_attribute('no_such_fact')"):
                mode.get_attribute("no_such_fact")
            with refuses(AttributeError, f"{name}_mode.set_attribute('no_such_fact', 1)"):
                mode.set_attribute("no_such_fact", 1)

    def test_resets_all_or_some(self) -> None:
        """`reset` of every mode takes nothing, None, or ids."""
        for name, mode in modes_of(self.make()).items():
            for given in ((), (None,), ([0, 2],)):
                expect(mode.reset(*given) is None, f"{name}_mode.reset{given} returns something")
