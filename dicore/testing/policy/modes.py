"""Checks of the modes of a policy: immutable tuples, enabled modes, attributes."""

from __future__ import annotations

from dicore.errors import ModeError
from dicore.interfaces.policy import IPolicy
from dicore.testing.policy.play import MODES, PolicyChecks, modes_of
from dicore.testing.suite import expect, expect_members, refuses

FACTS = ("cfg", "n_sample", "on_policy", "batch_size", "device", "priority", "model")
"""Attributes that workers read."""


class ModeChecks(PolicyChecks):
    """Modes, attributes, resets."""

    def test_modes_are_immutable_tuples(self) -> None:
        """Every mode is an immutable tuple of functions."""
        policy = self.make()
        expect_members(policy, IPolicy, "learn_mode", "collect_mode", "eval_mode")
        for name, mode in modes_of(policy).items():
            expect(isinstance(mode, tuple), f"{name}_mode is a {type(mode).__name__}, not a tuple")
            fields = getattr(mode, "_fields", ())
            missing = [each for each in MODES[name]._fields if each not in fields]
            expect(not missing, f"{name}_mode lacks {', '.join(missing)}")
            expect(all(map(callable, mode)), f"{name}_mode contains a value that is not a function")
            with refuses(AttributeError, f"setting {name}_mode.forward"):
                mode.forward = None
            expect(
                getattr(policy, f"{name}_mode") == mode,
                f"{name}_mode returns another tuple each time",
            )

    def test_disabled_modes_raise(self) -> None:
        """A policy with eval mode only evaluates; its other modes raise ModeError."""
        policy = self.make(["eval"])
        expect(len(policy.eval_mode.forward(self.obs(2))) == 2, "its eval mode returns no action")
        for name in ("learn", "collect"):
            with refuses(ModeError, f"{name}_mode of a policy built with enable_field=['eval']"):
                getattr(policy, f"{name}_mode").forward({})

    def test_get_attribute_has_the_usual_names(self) -> None:
        """`get_attribute` of every mode has the usual attributes and raises for others."""
        for name, mode in modes_of(self.make()).items():
            for fact in FACTS:
                try:
                    mode.get_attribute(fact)
                except Exception as error:
                    expect(False, f"{name}_mode.get_attribute('{fact}') raised: {error}")
            with refuses(AttributeError, f"{name}_mode.get_attribute('no_such_fact')"):
                mode.get_attribute("no_such_fact")
            with refuses(AttributeError, f"{name}_mode.set_attribute('no_such_fact', 1)"):
                mode.set_attribute("no_such_fact", 1)

    def test_reset_accepts_ids(self) -> None:
        """`reset` of every mode accepts nothing, None, or ids."""
        for name, mode in modes_of(self.make()).items():
            for given in ((), (None,), ([0, 2],)):
                expect(mode.reset(*given) is None, f"{name}_mode.reset{given} must return None")
